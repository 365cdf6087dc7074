"""What is found on several vLLMs alike, line numbers apart, to be said once."""

import re
from collections.abc import Iterable

from .findings import Finding

_VARYING = re.compile(r"(?<=\.py):\d+|\bline \d+|, \d+% alike")


def without_numbers(message: str) -> str:
    """Return a message without what differs in every release: lines, and how alike bodies are."""
    return _VARYING.sub("", message)


def together(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Return findings in groups that say the same of a patch; the newest vLLM's is the last."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for each in findings:
        key = (each.patch.id, each.level, each.rule, without_numbers(each.message))
        groups.setdefault(key, []).append(each)
    return [tuple(group) for group in groups.values()]
