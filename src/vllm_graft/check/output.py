"""Files that are there as a whole or not at all, and how they are called in reports."""

import os
import sys
import time
from pathlib import Path


def write_whole(file: Path, contents: str | bytes) -> None:
    """Write a file, a text in UTF-8: who reads it meanwhile, or after a failure, has the old one.

    A link stays a link, and the file keeps its mode. What is there and no file, as /dev/stdout,
    is written to as it is. Raises OSError where it cannot be written.
    """
    data = contents.encode() if isinstance(contents, str) else contents
    if file.exists() and not file.is_file():
        file.write_bytes(data)
        return
    file = file.resolve()
    # Containers give the same numbers to processes, and one that was killed may have left its file.
    new = file.with_name(f".{file.name}.{os.getpid()}-{time.time_ns():x}.new")
    try:
        with new.open("xb") as written:
            written.write(data)
        if file.exists():
            new.chmod(file.stat().st_mode & 0o777)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def relative(file: Path, root: Path) -> str:
    """Return a file from a project's root on, or from where its package is imported."""
    folders = [Path(each or ".").resolve() for each in sys.path]
    if "site-packages" not in file.parts:
        folders.append(root.resolve())
    file = file.resolve()
    holding = [each for each in folders if file.is_relative_to(each)]
    if root.resolve() in holding:
        return file.relative_to(root.resolve()).as_posix()
    nearest = max(holding, key=lambda each: len(each.parts), default=file.parent)
    return file.relative_to(nearest).as_posix()
