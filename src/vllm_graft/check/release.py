"""A release of vLLM as it is kept in the cache: the Python of an archive, in a zip file of ours."""

import mmap
import struct
import zipfile
import zlib
from functools import cached_property
from pathlib import Path

from ..errors import SourceError
from ..version import VllmVersion
from .packed import ZipTree

_LENGTHS = struct.Struct("<26xHH")
"""The header before a member's name: APPNOTE.TXT, 4.3.7. It ends with two lengths."""

_EMPTY = b"PK\x05\x06".ljust(22, b"\0")
"""What a zip file without comment ends with, as long as this: APPNOTE.TXT, 4.3.16."""


class ReleaseTree(ZipTree):
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
            file.seek(max(0, self.file.stat().st_size - len(_EMPTY)))
            return file.read().startswith(_EMPTY[:4])

    def read(self, path: str) -> bytes:
        """Return the contents of a file. To read all takes half the time that `zipfile` does."""
        info = self._infos.get(path)
        if info is None:
            raise FileNotFoundError(path)
        name, extra = _LENGTHS.unpack_from(self._data, info.header_offset)
        start = info.header_offset + _LENGTHS.size + name + extra
        deflated = self._data[start : start + info.compress_size]
        try:
            contents = zlib.decompress(deflated, -zlib.MAX_WBITS, info.file_size)
        except zlib.error as error:
            raise self._corrupt(error) from error
        if zlib.crc32(contents) != info.CRC:
            raise self._corrupt(zipfile.BadZipFile(f"bad CRC-32 of {path}"))
        return contents

    @cached_property
    def _infos(self) -> dict[str, zipfile.ZipInfo]:
        return {info.filename: info for info in self._archive.infolist()}

    @cached_property
    def _data(self) -> mmap.mmap:
        with self.file.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _corrupt(self, error: Exception) -> SourceError:
        return SourceError(
            f"{self.file}, kept of {self.label}, cannot be read: {error}. Remove it, and it is "
            "fetched again"
        )


def parts(file: Path) -> tuple[str, str, str]:
    """Return the distribution, the version and the digest that the name of a file says."""
    distribution, version, digest = file.stem.rsplit("-", 2)
    return distribution, version, digest
