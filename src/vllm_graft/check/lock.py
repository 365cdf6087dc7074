"""What every patch was last reviewed against, by vLLM version: plain values.

`lock_file` has how they are written down, `renewal` how they come about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from packaging.version import Version

from .resolution import Resolution
from .tree import is_of_vllm

Nature: TypeAlias = Literal["known", "absent", "outside", "unknown"]
"""Whether there is a definition to go by: not for a name that is to be added, not for what is
defined outside vLLM, and not for what is only known at run time or has no source."""

NATURES: tuple[Nature, ...] = get_args(Nature)


@dataclass(frozen=True)
class LockedTarget:
    """What the target of a patch is in one vLLM.

    `where` is its definition and `path` the file of that, relative to what holds `vllm/`; `body` is
    the fingerprint of the definition. What is not known to be called has no `signature`.
    """

    target: str
    where: str = ""
    path: str = ""
    signature: str | None = None
    body: str = ""
    nature: Nature = "known"


@dataclass(frozen=True)
class LockedPatch:
    """A patch by the fingerprint of its own source, and its target in each vLLM, oldest first."""

    source: str
    targets: Mapping[Version, LockedTarget]

    def nearest(self, version: Version) -> Version | None:
        """Return the version itself, or the next lower one that is locked, or the next higher."""
        locked = sorted(self.targets)
        lower = [each for each in locked if each <= version]
        return lower[-1] if lower else next(iter(locked), None)


@dataclass(frozen=True)
class Lock:
    """The locked patches by id. `missing` is the file that should have them and does not exist."""

    patches: Mapping[str, LockedPatch] = field(default_factory=dict)
    missing: Path | None = None


def locked_target(resolution: Resolution, operation: str) -> LockedTarget:
    """Return what there is to lock of a target."""
    target = str(resolution.target)
    if not is_of_vllm(resolution.target):
        return LockedTarget(target, nature="outside")
    if resolution.state == "unknown":
        return LockedTarget(target, nature="unknown")
    if operation == "add" or resolution.state == "missing":
        return LockedTarget(target, nature="absent")
    where = str(resolution.where or target)
    if not resolution.path:
        return LockedTarget(target, where, nature="outside")
    if not resolution.fingerprint:  # a compiled module, a folder
        return LockedTarget(target, nature="unknown")
    called = resolution.signature
    return LockedTarget(
        target,
        where,
        resolution.path,
        None if called is None else str(called),
        resolution.fingerprint,
    )
