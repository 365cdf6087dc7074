"""How what a patch meets now differs from what was locked."""

import ast
from dataclasses import dataclass
from typing import Literal, TypeAlias

from packaging.version import Version

from ..patch import Patch
from ..version import VllmVersion
from .lock import Lock, LockedPatch, LockedTarget, locked_target
from .resolution import Resolution

Difference: TypeAlias = Literal[
    "unlocked", "body", "signature", "nature", "target", "location", "source"
]
"""What differs: `unlocked`, that the version or the patch is not in the lock; `nature`, whether
there is a definition to compare; `target`, which candidate it is; `source`, the patch itself."""

_CHANGES: frozenset[Difference] = frozenset({"body", "signature", "nature"})


@dataclass(frozen=True)
class Drift:
    """How a patch and its target differ from the lock.

    `locked` is the version that was compared with: this one if it is in the lock, else the nearest
    below, else the nearest above; None for a patch that is not in the lock at all. `signatures` are
    the locked one and that of now, where they differ.
    """

    patch: str
    version: str
    locked: str | None
    differences: tuple[Difference, ...]
    before: LockedTarget | None = None
    now: LockedTarget | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the target does something else, or is called otherwise, than was locked."""
        return not _CHANGES.isdisjoint(self.differences)

    @property
    def signatures(self) -> tuple[str, str] | None:
        """The locked signature and that of now, where they differ."""
        if "signature" not in self.differences or self.before is None or self.now is None:
            return None
        return str(self.before.signature), str(self.now.signature)

    def __str__(self) -> str:
        if self.locked is None:
            return "it is not in the lock"
        said = [self._said(each) for each in self.differences if each != "unlocked"]
        if self.locked == self.version:
            return "; ".join(said)
        told = f"vLLM {self.version} is not in the lock"
        said = said or ["as it was"]
        return f"{told}; compared with {self.locked}: {'; '.join(said)}"

    def _said(self, difference: Difference) -> str:
        before, now = self.before, self.now
        assert before is not None
        assert now is not None
        if difference == "body":
            return f"the body of {now.target} differs"
        if difference == "signature":
            return f"it is called as {now.signature}, and was as {before.signature}"
        if difference == "nature":
            return f"{now.target} {_NATURES[now.nature]}, and {_NATURES[before.nature]} before"
        if difference == "target":
            return f"the target is {now.target}, and was {before.target}"
        if difference == "location":
            return f"it is defined at {_place(now)}, and was at {_place(before)}"
        return "the patch's own source differs"


_NATURES = {
    "known": "has a definition",
    "absent": "is not there",
    "outside": "is defined outside vLLM",
    "unknown": "is only known at run time",
}


def drift(patch: Patch, resolution: Resolution, version: VllmVersion, lock: Lock) -> Drift | None:
    """Return how a patch differs from the lock on a vLLM; None where it does not.

    `resolution` is what its target is there. A version that is not in the lock is a difference,
    even if all else is as in the nearest one that is.
    """
    locked = lock.patches.get(patch.id)
    known = version.version
    if known is None or locked is None or not locked.targets:
        return Drift(patch.id, version.text or "unknown", None, ("unlocked",))
    nearest = locked.nearest(known)
    assert nearest is not None
    now = locked_target(resolution, patch.operation)
    found = _differences(patch, locked, nearest, now)
    if nearest != known:
        found = ("unlocked", *found)
    before = locked.targets[nearest]
    return Drift(patch.id, str(known), str(nearest), found, before, now) if found else None


def _differences(
    patch: Patch, locked: LockedPatch, version: Version, now: LockedTarget
) -> tuple[Difference, ...]:
    from .own_source import own_source  # not where nothing is locked

    before = locked.targets[version]
    found: list[Difference] = []
    if before.nature != now.nature:
        found.append("nature")
    elif before.body != now.body:
        found.append("body")
    if before.nature == now.nature and not _same(before.signature, now.signature):
        found.append("signature")
    if before.target != now.target:
        found.append("target")
    if now.nature == before.nature and (before.where, before.path) != (now.where, now.path):
        found.append("location")
    if locked.source != own_source(patch):
        found.append("source")
    return tuple(found)


def _place(target: LockedTarget) -> str:
    return f"{target.where} ({target.path})" if target.path else target.where


def _same(first: str | None, second: str | None) -> bool:
    """Compare signatures; the text of one depends a little on the Python that wrote it."""
    if first is None or second is None or first == second:
        return first == second
    try:
        return _dumped(first) == _dumped(second)
    except SyntaxError:
        return False


def _dumped(signature: str) -> str:
    return ast.dump(ast.parse(f"def _{signature}: ..."))
