"""Which lock a patch is checked against."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..lock_guard import lock_of
from ..patch import Patch
from .project import Project

if TYPE_CHECKING:
    from .lock import Lock


class Locks:
    """Reads the locks of patches: that which is given, of the project, or of a set itself.

    Raises `SourceError` where one cannot be read.
    """

    def __init__(self, project: Project, file: Path | None = None) -> None:
        self._file = file or (project.lock if project.lock.is_file() else None)
        self._read: dict[Path, Lock] = {}

    def __call__(self, patch: Patch) -> "Lock | None":
        """Return the lock of a patch; None where there is none."""
        file = lock_of(patch, self._file)
        if file is None:
            return None
        if file not in self._read:
            from .lock_file import read  # few sets have a lock

            self._read[file] = read(file)
        return self._read[file]
