"""A release of vLLM as it is kept in the cache: the Python of an archive, in a zip file of ours."""

import mmap
import struct
import zlib
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..errors import SourceError
from ..version import VllmVersion
from .packed import PackedTree

_LENGTHS = struct.Struct("<26xHH")
"""The header before a member's name: APPNOTE.TXT, 4.3.7. It ends with two lengths."""

_ENTRY = struct.Struct("<4s4xHH4xLLLHHH8xL")
"""What the directory says before a member's name: APPNOTE.TXT, 4.3.12."""

_END = struct.Struct("<4s6xHLL2x")
"""What a zip file without comment ends with: APPNOTE.TXT, 4.3.16."""

_IN_ENTRY, _AT_END = b"PK\x01\x02", b"PK\x05\x06"
_UTF_8, _DEFLATED = 0x800, 8


class Member(NamedTuple):
    """Where a file is in the zip file, and what it holds."""

    offset: int
    packed: int
    size: int
    checksum: int


class ReleaseTree(PackedTree):
    """A file named `DISTRIBUTION-VERSION-SHA256.zip`, the digest that of what was fetched.

    Its key is the same wherever the cache is.
    """

    is_released = True

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        distribution, version, digest = parts(file)
        self.label = f"{distribution} {version}"
        self.key = f"release {self.label} {digest}"
        self.distribution = distribution
        self.version = VllmVersion(version, f"{self.label} on the package index")

    @property
    def is_complete(self) -> bool:
        """Whether the file ends as a zip file does: it may have been cut where it lies."""
        with self.file.open("rb") as file:
            file.seek(max(0, self.file.stat().st_size - _END.size))
            return file.read().startswith(_AT_END)

    def read(self, path: str) -> bytes:
        """Return the contents of a file. To read all takes half the time that `zipfile` does."""
        member = self._member(path)
        if member is None:
            raise FileNotFoundError(path)
        try:
            name, extra = _LENGTHS.unpack_from(self._data, member.offset)
            start = member.offset + _LENGTHS.size + name + extra
            deflated = self._data[start : start + member.packed]
            contents = zlib.decompress(deflated, -zlib.MAX_WBITS, member.size)
        except (struct.error, zlib.error) as error:
            raise self._corrupt(error) from error
        if zlib.crc32(contents) != member.checksum:
            raise self._corrupt(ValueError(f"bad CRC-32 of {path}"))
        return contents

    def _member(self, path: str) -> Member | None:
        """Return a member; to find one takes a hundredth of the time that the directory does."""
        if "_members" not in vars(self):
            name = path.encode()
            at = max(0, self._data.rfind(name) - _ENTRY.size)
            with suppress(struct.error, ValueError):
                # One byte more shows a name that only begins like this one.
                found = _entries(self._data[at : at + _ENTRY.size + len(name) + 1], 1)
                if path in found:
                    return found[path]
        return self._members.get(path)

    @cached_property
    def _members(self) -> dict[str, Member]:
        try:
            return _directory(self._data)
        except (struct.error, ValueError) as error:  # ValueError: not what `download` writes
            raise self._corrupt(error) from error

    @cached_property
    def _data(self) -> mmap.mmap:
        with self.file.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _corrupt(self, error: Exception) -> SourceError:
        return SourceError(
            f"{self.file}, kept of {self.label}, cannot be read: {error}. Remove it, and it is "
            "fetched again"
        )


def _directory(data: mmap.mmap) -> dict[str, Member]:
    """Return the members of a zip file that `download` wrote; `zipfile` takes six times as long."""
    end = len(data) - _END.size
    mark, count, size, at = _END.unpack_from(data, end)
    if mark != _AT_END or at + size > end:
        raise ValueError("it has no directory at its end")
    return _entries(data[at : at + size], count)


def _entries(entries: bytes, count: int) -> dict[str, Member]:
    """Return the members of a directory; raise ValueError or struct.error where it is none."""
    at = 0
    members: dict[str, Member] = {}
    for _ in range(count):
        mark, flags, method, checksum, packed, full, *lengths, offset = _ENTRY.unpack_from(
            entries, at
        )
        if mark != _IN_ENTRY or method != _DEFLATED or flags & ~_UTF_8:
            raise ValueError(f"its directory is damaged at entry {len(members)}")
        at += _ENTRY.size
        name = entries[at : at + lengths[0]].decode()
        members[name] = Member(offset, packed, full, checksum)
        at += sum(lengths)
    return members


def parts(file: Path) -> tuple[str, str, str]:
    """Return the distribution, the version and the digest that the name of a file says."""
    distribution, version, digest = file.stem.rsplit("-", 2)
    return distribution, version, digest
