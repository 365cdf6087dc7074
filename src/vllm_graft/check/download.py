"""From an archive on the index to the file in the cache: fetched, verified, only Python kept."""

import hashlib
import logging
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import SourceError
from .opening import packed_tree
from .packed import PackedTree
from .simple_index import Archive
from .tree import PACKAGE
from .web import PassingError, Web, repeated

_LOG = logging.getLogger("vllm.graft.check")

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told, from several threads, of an archive's name, the bytes that have come, and of how many."""

_CHUNK = 1 << 18
_DAY = 24 * 3600.0
_FETCHING = ".fetching-"


class NoPythonError(SourceError):
    """An archive has no Python source of vLLM."""


def fetch(web: Web, archive: Archive, folder: Path, progress: Progress | None = None) -> Path:
    """Fetch an archive, and put its Python members into a file of the folder; return that.

    The file is there when it is complete. Raises `NoPythonError` or another `SourceError`.
    """
    with _workplace(folder) as place:
        packed, kept = place / archive.name, place / "kept"
        digest = repeated(lambda: _downloaded(web, archive, packed, progress))
        if archive.sha256 not in (None, digest):
            raise SourceError(
                f"{archive.place} is not what the index announces: its sha256 is {digest}, not "
                f"{archive.sha256}. It was thrown away; ask who runs the index or the proxy"
            )
        _repack(archive, packed, kept)
        name = f"{archive.distribution}-{archive.version}-{digest[:16]}.zip"
        return kept.replace(folder / name)


@contextmanager
def turn(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time do what has a name, where the file system can tell."""
    try:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f".{name}.lock").open("w")
    except (ImportError, OSError):  # then several may do it, and the last one stays
        yield
        return
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _downloaded(web: Web, archive: Archive, to: Path, progress: Progress | None) -> str:
    """Write an archive to a file; return its sha256."""
    digest, count = hashlib.sha256(), 0
    started = time.monotonic()
    with web.open(archive.address) as response, to.open("wb") as file:
        headers: Any = response.headers
        length = int(headers.get("Content-Length", 0))
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            count += len(chunk)
            if progress:
                progress(archive.name, count, archive.size or length or None)
        if count < length:  # reading in chunks does not tell
            raise PassingError(f"{archive.place} ended after {count} of {length} bytes")
    seconds = time.monotonic() - started
    _LOG.debug("%s: %.1f MB in %.1f s", archive.place, count / 1e6, seconds)
    return digest.hexdigest()


def _repack(archive: Archive, packed: Path, kept: Path) -> None:
    """Write the Python members of an archive to a zip file, the same bytes at every time.

    Deflated they take a quarter of the disk, and a check that reads them all 0.2 s more.
    """
    tree = packed_tree(packed)
    try:
        if not tree.has(f"{PACKAGE}/__init__.py"):
            raise NoPythonError(f"{archive.place} has no {PACKAGE}/__init__.py")
        with zipfile.ZipFile(kept, "w") as into:
            for path, data in _members(tree):
                into.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    except NoPythonError:
        raise
    except SourceError as error:
        raise SourceError(f"{archive.place} is corrupt: {error.__cause__}") from error


def _members(tree: PackedTree) -> Iterator[tuple[str, bytes]]:
    for path in sorted(tree.files()):
        yield path, tree.read(path)
    for path in sorted(tree.compiled()):  # a check asks no more than whether they are there
        yield path, b""
    for path, text in tree.metadata():
        yield path, text.encode()


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Give a folder on the same disk for what is not complete yet, and remove it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_FETCHING}*"):
            with suppress(FileNotFoundError):
                if left.stat().st_mtime < time.time() - _DAY:  # its process was killed
                    shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=folder) as place:
            yield Path(place)
    except OSError as error:
        raise SourceError(
            f"nothing can be written in {folder}: {error}. Name another place in XDG_CACHE_HOME"
        ) from error
