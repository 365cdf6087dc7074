"""Writing a folder of files: all of them, or nothing."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import NewPackageError


def free_folder(path: Path) -> Path:
    """Return a folder that may be written; raise `NewPackageError` where something is in it."""
    try:
        if path.is_dir() and any(path.iterdir()):
            raise NewPackageError(
                f"the folder {str(path)!r} exists and is not empty. Name another one with --path"
            )
    except OSError as error:
        raise _unwritable(path, error) from error
    if path.exists() and not path.is_dir():
        raise NewPackageError(f"{str(path)!r} exists and is no folder. Name another with --path")
    return path


def write_folder(path: Path, files: Mapping[str, str]) -> None:
    """Make a folder of these files, by their paths in it.

    They are written beside it and put there at once. Raises `NewPackageError` where something is
    there already, or the place cannot be written.
    """
    free_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as name:
            made = Path(name) / path.name
            for relative, text in files.items():
                file = made / relative
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            made.rename(path)  # replaces an empty folder, and no other (POSIX rename)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> NewPackageError:
    return NewPackageError(f"{str(path)!r} cannot be written: {error.strerror or error}")
