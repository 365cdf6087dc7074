"""The fingerprint of a plan: equal wherever the same patches are selected, for cache keys."""

import hashlib
import importlib.util
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .builtin import BUILTIN
from .patch import Patch, Value
from .target import Target

FINGERPRINT = "VLLM_GRAFT_FINGERPRINT"
"""The name under which the fingerprint stands among vLLM's compile factors."""


def fingerprint(armed: Iterable[Patch]) -> str | None:
    """Return a digest of the armed patches, or None where only built-in ones are armed.

    It covers the ids, operations, targets, ranges and implementations. An implementation counts
    with the whole file that it is in, since what it calls is mostly there too.
    """
    parts = [
        "\0".join(
            (
                patch.id,
                patch.operation,
                str(patch.target),
                str(patch.vllm),
                str(patch.order),
                _source(patch),
            )
        )
        for patch in armed
        if patch.set_name not in BUILTIN
    ]
    if not parts:
        return None
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _source(patch: Patch) -> str:
    if patch.lazy is not None:
        return f"{patch.lazy} {_digest(_file_of(Target.parse(patch.lazy).module))}"
    given: Any = patch.implementation
    if isinstance(given, Value):
        return repr(given.value)
    if inspect.isroutine(given) or isinstance(given, type):
        return f"{given.__qualname__} {_digest(inspect.getsourcefile(given))}"
    return repr(given)


def _file_of(module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def _digest(file: str | None) -> str:
    try:
        return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()
    except OSError:
        return "no source"
