"""Wheels and sdists as trees, without unpacking them."""

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..errors import SourceError
from ..version import VllmVersion
from .tree import PACKAGE, Tree

if TYPE_CHECKING:  # they are imported where they are used: a kept release needs neither
    import tarfile
    import zipfile

Members: TypeAlias = Mapping[str, object]
"""Paths, and what changes with the contents of each."""


class PackedTree(Tree):
    """A tree in one file. It is opened when its contents are asked for first."""

    fixed = True

    def __init__(self, file: Path) -> None:
        file = file.resolve()
        state = file.stat()
        super().__init__(str(file), f"file {file} {state.st_mtime_ns:x}-{state.st_size:x}")
        self.file = file

    @property
    @abstractmethod
    def _members(self) -> Members:
        """What is in the file."""

    @cached_property
    def _folders(self) -> dict[str, set[str]]:
        folders: dict[str, set[str]] = {"": set()}
        for path in self._members:
            folder, _, name = path.rpartition("/")
            while folder not in folders:
                folders[folder] = {name}
                folder, _, name = folder.rpartition("/")
            folders[folder].add(name)
        return folders

    def has(self, path: str) -> bool:
        return path in self._members

    def is_folder(self, path: str) -> bool:
        return path in self._folders

    def stamp(self, path: str) -> str:
        return str(self._members.get(path, ""))

    def listed(self, folder: str) -> Iterator[str]:
        yield from self._folders.get(folder, ())

    def files(self) -> Iterator[str]:
        for path in self._members:
            if path.startswith(f"{PACKAGE}/") and path.endswith(".py"):
                yield path

    def compiled(self) -> Iterator[str]:
        """Yield the paths of all compiled modules."""
        for path in self._members:
            if path.startswith(f"{PACKAGE}/") and path.endswith((".so", ".pyd")):
                yield path

    @cached_property
    def version(self) -> VllmVersion:
        """The version in the file's name, where it is named as PEP 427 and PEP 625 say."""
        named = _name_and_version(self.file.name)
        if named is None:
            return super().version
        return VllmVersion(named[1], f"the name of {self.file.name}")

    @cached_property
    def distribution(self) -> str:
        """The name in the file's name, else in its metadata."""
        named = _name_and_version(self.file.name)
        return super().distribution if named is None else named[0]

    def _corrupt(self, error: Exception) -> SourceError:
        return SourceError(
            f"{self.file} cannot be read: {error}. It may not have been downloaded completely"
        )


class ZipTree(PackedTree):
    """A wheel, or another zip file with `vllm/` at its root or in its only folder."""

    @cached_property
    def _archive(self) -> "zipfile.ZipFile":
        import zipfile

        try:
            return zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError) as error:
            raise self._corrupt(error) from error

    @cached_property
    def _root(self) -> str:
        return _root(self._archive.namelist())

    @cached_property
    def _members(self) -> Members:
        return {
            info.filename.removeprefix(self._root): f"{info.CRC:08x}-{info.file_size:x}"
            for info in self._archive.infolist()
            if info.filename.startswith(self._root) and not info.is_dir()
        }

    def read(self, path: str) -> bytes:
        import zipfile

        if path not in self._members:
            raise FileNotFoundError(path)
        try:
            return self._archive.read(self._root + path)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise self._corrupt(error) from error
        except RuntimeError as error:  # encrypted, or compressed in a way that is not known here
            raise SourceError(f"{self.file} cannot be read: {error}") from error


class TarTree(PackedTree):
    """An sdist. A tar file can only be read from its start, so what is Python is kept, deflated."""

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        import tarfile

        try:
            with tarfile.open(self.file) as archive:
                found = dict(_python_members(archive))
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise self._corrupt(error) from error
        root = _root(found)
        return {
            path.removeprefix(root): data for path, data in found.items() if path.startswith(root)
        }

    @cached_property
    def _members(self) -> Members:
        return {path: f"{zlib.crc32(data):08x}" for path, data in self._contents.items()}

    def read(self, path: str) -> bytes:
        if path not in self._contents:
            raise FileNotFoundError(path)
        return zlib.decompress(self._contents[path])


def _python_members(archive: "tarfile.TarFile") -> Iterator[tuple[str, bytes]]:
    for member in archive:
        name = member.name.removeprefix("./")
        if member.isfile() and name.endswith((".py", "PKG-INFO")):
            file = archive.extractfile(member)
            if file is not None:
                yield name, zlib.compress(file.read(), 1)


def _root(paths: "dict[str, bytes] | list[str]") -> str:
    """Return what stands before `vllm/` in the paths of an archive."""
    ending = f"{PACKAGE}/__init__.py"
    roots = [
        path.removesuffix(ending)
        for path in paths
        if path.endswith(ending) and path.removesuffix(ending).count("/") < 2
    ]
    return min((root for root in roots if not root or root.endswith("/")), key=len, default="")


def _name_and_version(file: str) -> tuple[str, str] | None:
    """Return what the name of a file says; None where it is not named as wheels and sdists are."""
    # Imported here, since a release that is kept has a name of ours.
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    try:
        if file.endswith(".whl"):
            name, version, _, _ = parse_wheel_filename(file)
        else:
            name, version = parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return name, str(version)
