"""How a target is defined in a vLLM that has it, to recognise it by where it is missing."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from packaging.version import Version

from ..patch import Patch
from ..target import Target
from .at_hand import AtHand, Nothing, example_of, lower_end, nearest_first, worth_asking
from .example import AnyExample, Example, LockedExample
from .source import Source

if TYPE_CHECKING:
    from .lock import Lock

LockOf: TypeAlias = Callable[[Patch], "Lock | None"]


class Examples:
    """The definitions of a patch's targets: of a vLLM that is named, else kept, else of the lock.

    Of several vLLMs that have a target it is the newest in the patch's range, or else the nearest
    to that; of those kept only a few are asked. Nothing is read before a target is asked for.
    """

    def __init__(
        self,
        patch: Patch,
        sources: Sequence[Source],
        kept: AtHand | None = None,
        lock_of: LockOf = lambda _: None,
    ) -> None:
        self._patch = patch
        self._sources = sources
        self._kept = kept or Nothing()
        self._lock_of = lock_of
        self._known: dict[Target, AnyExample | None] = {}

    def __call__(self, target: Target) -> AnyExample | None:
        """Return a definition of a target; None where nothing at hand has it."""
        if target not in self._known:
            self._known[target] = next(self._found(target), None) or self._locked(target)
        return self._known[target]

    def advice(self, target: Target) -> str:
        """Say which command would tell more of a target, where none at hand shows it."""
        if isinstance(self(target), Example):
            return ""
        version = self._worth_naming(target)
        if version is not None:
            names = " ".join(f"--vllm {shlex.quote(each.text)}" for each in self._sources)
            return f"`vllm-graft check --vllm {version} {names}` would tell more"
        asked = len(self._sources) + sum(map(self._kept.is_read, self._asked_of_kept()))
        return f"none of the {asked} vLLM asked has it under this name" if asked > 1 else ""

    def _found(self, target: Target) -> Iterator[Example]:
        for source in self._nearest_first():
            yield from filter(None, [example_of(source, target)])
        for version in self._asked_of_kept():
            yield from filter(None, [self._kept.example(version, target)])

    def _asked_of_kept(self) -> list[Version]:
        return worth_asking(self._patch.vllm, self._kept.versions)

    def _nearest_first(self) -> list[Source]:
        versions = [each.version.version for each in self._sources]
        order = nearest_first(self._patch.vllm, filter(None, versions))
        return sorted(self._sources, key=lambda each: _place(order, each.version.version))

    def _locked(self, target: Target) -> LockedExample | None:
        """Return what the newest entry of the lock that has a target says of it."""
        lock = self._lock_of(self._patch)
        locked = lock.patches.get(self._patch.id) if lock is not None else None
        targets = locked.targets if locked is not None else {}
        for version in sorted(targets, reverse=True):
            found = targets[version]
            if found.nature == "known" and found.target == str(target):
                return LockedExample(found, version)
        return None

    def _worth_naming(self, target: Target) -> Version | str | None:
        """Return a vLLM that is likely to have a target, and is not at hand."""
        known = self(target)
        if isinstance(known, LockedExample):
            return known.version
        asked = {*self._kept.versions, *(each.version.version for each in self._sources)}
        first = lower_end(self._patch.vllm)
        if first is not None:
            return None if first in asked else first
        return None if self._kept.versions else "newest:3"


def _place(order: Sequence[Version], version: Version | None) -> int:
    return len(order) if version is None else order.index(version)
