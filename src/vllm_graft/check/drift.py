"""How a patch, and what it meets, differ now from what was locked."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..patch import Patch
from ..version import VllmVersion
from .lock import Lock, LockedTarget, locked_target
from .resolution import Resolution

Difference: TypeAlias = Literal["unlocked", "body", "signature", "nature", "target", "location"]
"""What differs: `unlocked`, that the version is not in the lock; `nature`, whether there is a
definition to compare; `target`, which candidate it is."""

_CHANGES: frozenset[Difference] = frozenset({"body", "signature", "nature"})


@dataclass(frozen=True)
class Drift:
    """How the target of a patch differs from the lock on one vLLM.

    `locked` is the version that was compared with: this one if it is in the lock, else the nearest
    below, else the nearest above; None for a vLLM of unknown version. `signatures` are the locked
    one and that of now, where they differ.
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
            return "what has no known version cannot be compared with the lock"
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
        return f"it is defined at {_place(now)}, and was at {_place(before)}"


@dataclass(frozen=True)
class OwnDrift:
    """How a patch itself is not as it was locked, whatever vLLM it meets.

    It is not in the lock, or its own source is another.
    """

    is_locked: bool
    missing: Path | None = None

    def __str__(self) -> str:
        if self.is_locked:
            return "the patch's own source differs"
        if self.missing is None:
            return "it is not in the lock"
        return (
            f"the lock {self.missing}, which pyproject.toml names, does not exist. Write it with: "
            "vllm-graft lock"
        )


_NATURES = {
    "known": "has a definition",
    "absent": "is not there",
    "outside": "is defined outside vLLM",
    "unknown": "is only known at run time",
}


def drift(patch: Patch, resolution: Resolution, version: VllmVersion, lock: Lock) -> Drift | None:
    """Return how a patch differs from the lock on a vLLM; None where it does not.

    `resolution` is what its target is there. A version that is not in the lock is a difference,
    even if all else is as in the nearest one that is; a patch that is not is none, see `own_drift`.
    """
    locked = lock.patches.get(patch.id)
    known = version.version
    if locked is None or not locked.targets:
        return None
    if known is None:
        return Drift(patch.id, version.text or "unknown", None, ("unlocked",))
    nearest = locked.nearest(known)
    assert nearest is not None
    now = locked_target(resolution, patch.operation)
    found = _differences(locked.targets[nearest], now)
    if nearest != known:
        found = ("unlocked", *found)
    before = locked.targets[nearest]
    return Drift(patch.id, str(known), str(nearest), found, before, now) if found else None


def own_drift(patch: Patch, lock: Lock) -> OwnDrift | None:
    """Return how a patch itself differs from the lock; None where it does not."""
    locked = lock.patches.get(patch.id)
    if locked is None or not locked.targets:
        return OwnDrift(is_locked=False, missing=lock.missing)
    from .own_source import own_source  # not where nothing is locked

    return None if locked.source == own_source(patch) else OwnDrift(is_locked=True)


def _differences(before: LockedTarget, now: LockedTarget) -> tuple[Difference, ...]:
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
