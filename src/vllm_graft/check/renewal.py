"""What a lock becomes when patches have been checked again: kept, renewed, dropped or refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from packaging.version import Version

from ..errors import SourceError
from ..patch import Patch
from .lock import Lock, LockedPatch, LockedTarget, locked_target
from .verdicts import Verdict

_LOCKABLE = ("ok", "unknown")
"""What is only known at run time is locked as such."""


@dataclass(frozen=True)
class Renewal:
    """The lock of before and the one of now, and the verdicts that stand against locking."""

    before: Lock
    after: Lock
    refused: tuple[Verdict, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """The ids of the patches whose entry is new or another."""
        known = self.before.patches
        return tuple(name for name, entry in self.after.patches.items() if known.get(name) != entry)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The ids of the patches that have no entry any more."""
        return tuple(name for name in self.before.patches if name not in self.after.patches)


def renewal(
    before: Lock,
    declared: Iterable[Patch],
    checked: Sequence[Verdict],
    source: Callable[[Patch], str],
) -> Renewal:
    """Put what has been checked into a lock.

    `declared` are all patches of the sets that are locked; entries of these sets for others are
    dropped. What is locked of versions that were not checked stays while it is in the range of the
    patch. `source` gives the fingerprint of a patch's own source.

    Raises `SourceError` for a vLLM of unknown version, and where two sources of one version differ.
    """
    patches = {patch.id: patch for patch in declared}
    sets = {patch.set_name for patch in patches.values()}
    found = _by_patch(checked)
    after = {
        name: entry
        for name, entry in before.patches.items()
        if name not in patches and name.partition("/")[0] not in sets
    }
    for name, patch in patches.items():
        entry = _entry(patch, before.patches.get(name), found.get(name, {}), source)
        if entry is not None:
            after[name] = entry
    refused = [each for each in checked if each.in_range and each.fit not in _LOCKABLE]
    return Renewal(before, Lock({name: after[name] for name in sorted(after)}), tuple(refused))


def _entry(
    patch: Patch,
    before: LockedPatch | None,
    checked: dict[Version, LockedTarget],
    source: Callable[[Patch], str],
) -> LockedPatch | None:
    kept = before.targets if before is not None else {}
    targets = {
        version: target
        for version, target in {**kept, **checked}.items()
        if patch.vllm.contains(version, prereleases=True)
    }
    if not targets:
        return None
    # A patch that nobody has checked again is not approved by writing the others' entries.
    own = before.source if before is not None and not checked else source(patch)
    return LockedPatch(own, {version: targets[version] for version in sorted(targets)})


def _by_patch(checked: Iterable[Verdict]) -> dict[str, dict[Version, LockedTarget]]:
    found: dict[str, dict[Version, LockedTarget]] = {}
    for verdict in checked:
        version = verdict.version.version
        if version is None:
            raise SourceError(
                f"a vLLM of unknown version cannot be locked: {verdict.version}. Name a release"
            )
        if verdict.in_range and verdict.resolution is not None and verdict.fit in _LOCKABLE:
            target = locked_target(verdict.resolution, verdict.patch.operation)
            _put(found.setdefault(verdict.patch.id, {}), verdict, version, target)
    return found


def _put(
    found: dict[Version, LockedTarget], verdict: Verdict, version: Version, target: LockedTarget
) -> None:
    if found.setdefault(version, target) != target:
        raise SourceError(
            f"two sources of vLLM {version} differ in {target.target}, the target of patch "
            f"{verdict.patch.id!r}. A lock has one entry for a version: name one of them"
        )
