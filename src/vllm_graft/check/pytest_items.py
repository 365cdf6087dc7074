"""What the pytest plugin runs: a patch on a vLLM each, told in the words of the check."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import pytest

from ..catalog import BrokenSet
from ..errors import GraftError
from ..patch import Patch
from .findings import Finding
from .judgement import Answer

NAME = "graft"
"""What ids begin with, and the mark that the items have."""

Kind: TypeAlias = Literal["applies", "drift", "still-needed"]

_KINDS: dict[str, Kind] = {
    "changed": "drift",
    "drift": "drift",
    "unlocked": "drift",
    "fixed": "still-needed",
}
"""Who tells a finding, by its rule. All others are told by `applies`."""

_TOLD_OTHERWISE = frozenset({"range-too-wide"})
"""Errors about a patch that say the same as those about it on single vLLMs."""


class PatchWarning(UserWarning):
    """Something about a patch deserves attention, and fails nothing."""


@dataclass(frozen=True)
class Question:
    """What an item asks: whether a patch applies to, has drifted on, is still needed with a vLLM.

    The vLLM goes by its name in the project's table.
    """

    kind: Kind
    patch: Patch
    vllm: str

    def __str__(self) -> str:
        return f"{self.kind}[{self.patch.id}][{self.vllm}]"


Ask: TypeAlias = Callable[[Question], "Answer | GraftError"]


class Checks(pytest.Collector):
    """All items of a run."""

    def __init__(
        self, *, ask: Ask, questions: Sequence[Question], broken: Sequence[BrokenSet], **node: Any
    ) -> None:
        super().__init__(**node)
        self._ask = ask
        self._questions = questions
        self._broken = broken

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the sets that cannot be loaded, and the patches by vLLMs."""
        for broken in self._broken:
            yield BrokenSetItem.from_parent(self, **_called(load_name(broken)), broken=broken)
        for question in self._questions:
            yield PatchItem.from_parent(
                self, **_called(str(question)), question=question, ask=self._ask
            )


class BrokenSetItem(pytest.Item):
    """A patch set that cannot be loaded. It fails."""

    def __init__(self, *, broken: BrokenSet, **node: Any) -> None:
        super().__init__(**node)
        self.add_marker(NAME)
        self._broken = broken

    def runtest(self) -> NoReturn:
        """Fail with the reason why the set cannot be loaded."""
        pytest.fail(str(self._broken.error), pytrace=False)


class PatchItem(pytest.Item):
    """A patch on a vLLM. It fails with the errors that a check finds, and warns of what it warns.

    Where the vLLM is out of the patch's range it is skipped.
    """

    def __init__(self, *, question: Question, ask: Ask, **node: Any) -> None:
        super().__init__(**node)
        self.add_marker(NAME)
        self.question = question
        self._ask = ask

    def runtest(self) -> None:
        """Ask the question, and tell the answer."""
        answer = self._ask(self.question)
        if isinstance(answer, GraftError):
            pytest.fail(str(answer), pytrace=False)
        findings = [each for each in self._found(answer) if self._tells(each)]
        for each in findings:
            if each.level == "warning":
                self._nag(each)
        errors = [each for each in findings if each.level == "error"]
        if errors:
            pytest.fail("\n".join(_told(answer, errors)), pytrace=False)
        verdict = answer.cell.verdict
        if verdict.in_range is False:
            pytest.skip(f"vLLM {answer.cell.source.title} is out of range {verdict.patch.versions}")
        if self.question.kind == "drift" and verdict.fit in ("missing", "moved"):
            pytest.skip(f"the target is {verdict.fit}, so there is nothing to compare")

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the patch is declared."""
        location = self.question.patch.location
        return Path(location.file), location.line - 1, self.name

    def _found(self, answer: Answer) -> Iterator[Finding]:
        """Yield what is found here; that the patch itself has drifted holds on every vLLM."""
        if self.question.kind != "drift":
            yield from answer.findings
        elif answer.cell.verdict.in_range is not False:
            here = (None, answer.cell.source.text)
            yield from (each for each in answer.row.findings if each.source in here)

    def _tells(self, finding: Finding) -> bool:
        kind = _KINDS.get(finding.rule, "applies")
        return kind == self.question.kind and finding.rule not in _TOLD_OTHERWISE

    def _nag(self, finding: Finding) -> None:
        """Warn, also where warnings are errors: what check warns of does not fail."""
        warning = PatchWarning(f"{finding.patch.id}: {finding.message} ({finding.rule})")
        try:
            self.warn(warning)
        except PatchWarning:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                self.warn(warning)


def _called(name: str) -> dict[str, str]:
    """Return name and id of an item; pytest 9.2 compares ids by parts, which it reads from text."""
    return {"name": name, "nodeid": f"{NAME}::{name}"}


def load_name(broken: BrokenSet) -> str:
    """Return the name of the item of a set that cannot be loaded."""
    return f"load[{broken.name}]"


def _told(answer: Answer, errors: Sequence[Finding]) -> Iterator[str]:
    """Yield what a check says of a patch, the verdict in the first line."""
    patch, verdict = answer.row.patch, answer.cell.verdict
    for each in errors:
        yield f"{each.rule}: {each.message}"
    if any(_KINDS.get(each.rule) == "drift" for each in errors):
        yield "Look at it with `vllm-graft check --diff`. When it is reviewed: `vllm-graft lock`."
    if verdict.signatures is not None:
        yield f"  target          {verdict.signatures[0]}"
        yield f"  implementation  {verdict.signatures[1]}"
    for note in verdict.notes:
        yield f"  {note}"
    yield f"{patch.operation} of {verdict.target}, for vLLM {patch.versions}"
    yield f"It would apply to {answer.row.applies or 'none'} of the vLLMs checked."
    yield f"{patch.location}: {patch.id}"
