"""Patches compared with their locks on the installed vLLM, without any memory of earlier times."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import SourceError
from ..locked import APPROVE, REVIEW, Unlike
from ..patch import Patch
from ..target import Target
from ..version import VllmVersion
from .drift import Difference, drift, own_drift
from .implementation import files
from .lock import Lock
from .lock_file import read
from .resolution import Resolution
from .resolve import Resolver
from .tree import FolderTree

_MET: frozenset[Difference] = frozenset({"unlocked", "body", "signature", "nature"})
"""Differences that a patch meets: where its target is defined makes none to it."""


@dataclass(frozen=True)
class Compared:
    """How a patch is not as it was locked, and the files, there or not, that this rests on.

    Without files there is nothing to tell when to compare again.
    """

    difference: Unlike | None
    files: tuple[Path, ...] = ()


class Comparison:
    """Compares patches with locks on one installed vLLM."""

    def __init__(self, vllm: VllmVersion, package: Path) -> None:
        self._vllm = vllm
        self._root = package.parent
        self._locks: dict[Path, Lock | str] = {}

    def __call__(self, patch: Patch, file: Path, own: Target | Path | None) -> Compared:
        """Compare a patch with a lock; `own` is where its implementation is written."""
        lock = self._read(file)
        if isinstance(lock, str):
            return Compared(Unlike(lock), (file,))
        try:
            resolution, modules = self._resolver.resolve_with_modules(patch.target)
        except SourceError as error:
            return Compared(Unlike(f"it cannot be compared with {file}: {error}"))
        paths = [self._root / path for each in modules for path in self._tree.candidates(each)]
        own_files = files(own) if isinstance(own, Target) else filter(None, [own])
        difference = self._difference(patch, resolution, lock, file)
        return Compared(difference, (file, *own_files, *paths))

    def _difference(
        self, patch: Patch, resolution: Resolution, lock: Lock, file: Path
    ) -> Unlike | None:
        own = own_drift(patch, lock)
        found = drift(patch, resolution, self._vllm, lock)
        if found is not None and _MET.isdisjoint(found.differences):
            found = None
        if own is None and found is None:
            return None
        said = "; ".join(str(each) for each in (found, own) if each is not None)
        is_locked = own is None or own.is_locked
        return Unlike(f"{said} (lock: {file})", REVIEW if is_locked else APPROVE)

    def _read(self, file: Path) -> Lock | str:
        if file not in self._locks:
            try:
                self._locks[file] = read(file)
            except SourceError as error:
                self._locks[file] = str(error)
        return self._locks[file]

    @cached_property
    def _tree(self) -> FolderTree:
        tree = FolderTree(self._root, f"the installed vLLM ({self._root / 'vllm'})")
        tree.is_installed = True
        return tree

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self._tree)
