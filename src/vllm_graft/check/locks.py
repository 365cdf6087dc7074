"""Which lock a patch is checked against."""

from pathlib import Path

from ..lock_guard import lock_of
from ..patch import Patch
from .lock import Lock
from .project import Project


class Locks:
    """Reads the locks of patches: that which is given, of the project, or of a set itself.

    A lock that the project names and does not have stands for one without patches, so that each is
    said not to be in it. Raises `SourceError` where one cannot be read.
    """

    def __init__(self, project: Project, file: Path | None = None) -> None:
        self._file = file or (project.lock if project.has_lock else None)
        self._read: dict[Path, Lock] = {}
        self._files: dict[str, Path | None] = {}
        if file is None and not project.lock.exists():
            self._read[project.lock] = Lock(missing=project.lock)

    def __call__(self, patch: Patch) -> Lock | None:
        """Return the lock of a patch; None where there is none."""
        if patch.id not in self._files:
            self._files[patch.id] = lock_of(patch, self._file)
        file = self._files[patch.id]
        if file is None:
            return None
        if file not in self._read:
            from .lock_file import read  # few sets have a lock

            self._read[file] = read(file)
        return self._read[file]
