"""Files that are there as a whole or not at all."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file of text: who reads it meanwhile, or after a failure, has the old one.

    A link stays a link, and the file keeps its mode. Raises OSError where it cannot be written.
    """
    file = file.resolve()
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with new.open("x", encoding="utf-8", newline="\n") as written:
            written.write(text)
        if file.exists():
            new.chmod(file.stat().st_mode & 0o777)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
