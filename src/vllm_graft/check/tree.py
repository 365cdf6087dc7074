"""The sources of one vLLM as a value: the text of its modules, read when they are asked for."""

import importlib.util
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ..errors import SourceError
from ..target import Target
from ..version import VllmVersion, assigned_version

PACKAGE = "vllm"

PlaceKind = Literal["module", "package", "folder", "compiled"]
"""A folder is a package without `__init__.py`; what is compiled has no source to read."""


@dataclass(frozen=True)
class Place:
    """Where a module is in a tree."""

    module: str
    path: str
    kind: PlaceKind

    @property
    def package(self) -> str:
        """The package that the relative imports of the module start from."""
        return self.module if self.kind == "package" else self.module.rpartition(".")[0]


class Tree(ABC):
    """The sources of one vLLM. Paths are relative to what holds `vllm/`, and have slashes.

    `key` tells the tree from others, for a cache: what has the same key and the same stamps has
    the same contents. Where it is `fixed` the key alone tells that. Beside one that `is_installed`
    are the packages that it imports; one that `is_released` came from the package index.
    """

    fixed = False
    is_installed = False
    is_released = False

    def __init__(self, label: str, key: str) -> None:
        self.label = label
        self.key = key
        self._texts: dict[str, str] = {}
        self._places: dict[str, Place | None] = {}

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the contents of a file; raise OSError where there is none."""

    @abstractmethod
    def has(self, path: str) -> bool:
        """Tell whether there is a file of this path."""

    @abstractmethod
    def is_folder(self, path: str) -> bool:
        """Tell whether there is a folder of this path."""

    @abstractmethod
    def stamp(self, path: str) -> str:
        """Return what changes whenever the contents of a file do; empty where there is none."""

    @abstractmethod
    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of what is directly in a folder; nothing where there is none."""

    @abstractmethod
    def files(self) -> Iterator[str]:
        """Yield the paths of all files of Python source."""

    def is_compiled(self, path: str) -> bool:
        """Tell whether Python has compiled a file as it is now, which then is free of errors."""
        return False

    def fingerprint(self) -> str:
        """Return what changes whenever any file of Python source does."""
        if self.fixed:
            return self.key
        return "\n".join(f"{path} {self.stamp(path)}" for path in sorted(self.files()))

    def metadata(self) -> Iterator[tuple[str, str]]:
        """Yield the paths and texts of metadata that may tell the name and version."""
        for name in sorted(self.listed("")):
            path = name if name == "PKG-INFO" else f"{name}/METADATA"
            if path == name or (name.startswith("vllm") and name.endswith(".dist-info")):
                with suppress(OSError):  # what an uninstallation left behind
                    yield path, self.read(path).decode(errors="replace")

    @cached_property
    def distribution(self) -> str:
        """The name of the distribution that the tree is of, `vllm` where nothing tells."""
        return next((name for _, name, _ in self._described()), PACKAGE)

    @cached_property
    def version(self) -> VllmVersion:
        """The version by `vllm/_version.py`, else by the metadata of the distribution."""
        path = f"{PACKAGE}/_version.py"
        try:
            text = assigned_version(self.read(path).decode())
        except (OSError, SyntaxError, ValueError):
            text = None
        if text is not None:
            return VllmVersion(text, f"{path} in {self.label}")
        for where, name, version in self._described():
            return VllmVersion(version, f"metadata of {name} ({where} in {self.label})")
        return VllmVersion(None, self.label)

    def locate(self, module: str) -> Place | None:
        """Return where a module is; None where this vLLM does not have it."""
        if module not in self._places:
            self._places[module] = self._located(module)
        return self._places[module]

    def candidates(self, module: str) -> tuple[str, str]:
        """Return the paths that the source of a module may have."""
        path = module.replace(".", "/")
        return f"{path}/__init__.py", f"{path}.py"

    def text(self, place: Place) -> str:
        """Return the source of a module, decoded as Python does.

        Raises `SourceError` where it is in no encoding that Python takes, or cannot be read.
        """
        if place.kind in ("folder", "compiled"):
            return ""
        text = self._texts.get(place.path)
        if text is None:
            text = self._texts[place.path] = self._decoded(place.path)
        return text

    def release(self) -> None:
        """Let go of the texts that were read."""
        self._texts.clear()

    def lines(self, path: str, first: int, last: int) -> str:
        """Return the text of some lines of a file, counted from 1; raise as `text` does."""
        return "".join(self._decoded(path).splitlines(keepends=True)[first - 1 : last])

    def raise_if_not_vllm(self) -> None:
        """Raise `SourceError` for a tree without the package `vllm`."""
        if not self.has(f"{PACKAGE}/__init__.py"):
            raise SourceError(
                f"{self.label} is no vLLM: it has no {PACKAGE}/__init__.py. Name a wheel, an "
                "sdist, or the folder that holds vllm/"
            )

    def _located(self, module: str) -> Place | None:
        if not is_of_vllm(Target(module)):
            return None
        package, plain = self.candidates(module)
        if self.has(package):
            return Place(module, package, "package")
        if self.has(plain):
            return Place(module, plain, "module")
        folder, _, name = plain.removesuffix(".py").rpartition("/")
        for each in self.listed(folder):
            if each.startswith(f"{name}.") and each.endswith((".so", ".pyd")):
                return Place(module, f"{folder}/{each}", "compiled")
        if self.is_folder(f"{folder}/{name}"):
            return Place(module, f"{folder}/{name}", "folder")
        return None

    def _decoded(self, path: str) -> str:
        try:
            return importlib.util.decode_source(self.read(path))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise SourceError(f"{path} in {self.label} cannot be read: {error}") from error

    def _described(self) -> Iterator[tuple[str, str, str]]:
        for path, text in self.metadata():
            headers = _headers(text)
            name, version = headers.get("name"), headers.get("version")
            if name and version:
                yield path, name, version


class FolderTree(Tree):
    """An unpacked tree: a checkout, an unpacked sdist, or a folder of installed packages."""

    def __init__(self, root: Path, label: str | None = None) -> None:
        root = root.resolve()
        super().__init__(label or str(root), f"folder {root}")
        self.root = root
        self._prefix = f"{root}{os.sep}"

    def read(self, path: str) -> bytes:
        with open(self._prefix + path, "rb") as file:  # noqa: PTH123  a Path costs as much again
            return file.read()

    def has(self, path: str) -> bool:
        return os.path.isfile(self._prefix + path)  # noqa: PTH113

    def is_folder(self, path: str) -> bool:
        return (self.root / path).is_dir()

    def stamp(self, path: str) -> str:
        return _state(self._prefix + path)

    def is_compiled(self, path: str) -> bool:
        source = self._prefix + path
        try:
            state = os.stat(source)  # noqa: PTH116
            with open(importlib.util.cache_from_source(source), "rb") as file:  # noqa: PTH123
                head = file.read(_HEAD.size)
        except (OSError, NotImplementedError):
            return False
        written = (int(state.st_mtime) & _32_BITS, state.st_size & _32_BITS)
        return head == _HEAD.pack(importlib.util.MAGIC_NUMBER, 0, *written)

    def listed(self, folder: str) -> Iterator[str]:
        try:
            yield from os.listdir(self._prefix + folder)  # noqa: PTH208
        except OSError:
            return

    def files(self) -> Iterator[str]:
        yield from (path for path, _ in self._entries())

    def fingerprint(self) -> str:
        return "\n".join(sorted(f"{path} {_state(entry)}" for path, entry in self._entries()))

    def _entries(self) -> "Iterator[tuple[str, os.DirEntry[str]]]":
        folders = [PACKAGE]
        while folders:
            folder = folders.pop()
            with os.scandir(self._prefix + folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if entry.name.endswith(".py"):
                        yield path, entry
                    elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                        folders.append(path)

    def metadata(self) -> Iterator[tuple[str, str]]:
        for path, text in super().metadata():
            record = self.root / Path(path).with_name("RECORD")
            if path == "PKG-INFO" or not record.is_file() or _provides(record):
                yield path, text


def is_of_vllm(target: Target) -> bool:
    """Tell whether a target is in vLLM's own package."""
    return target.module.partition(".")[0] == PACKAGE


_HEAD = struct.Struct("<4sLLL")
_32_BITS = 0xFFFFFFFF
"""What a file of bytecode begins with when times tell whether it is of today (PEP 552)."""


def _state(file: "str | os.DirEntry[str]") -> str:
    try:
        state = os.stat(file) if isinstance(file, str) else file.stat()  # noqa: PTH116
    except OSError:
        return ""
    return f"{state.st_mtime_ns:x}-{state.st_size:x}"


def _headers(text: str) -> dict[str, str]:
    """Return the headers of metadata by their names in lower case, each as it is given first.

    To import the parser of `email` takes a tenth of a check that the cache answers.
    """
    headers: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        headers.setdefault(name.lower(), value.strip())
    return headers


def _provides(record: Path) -> bool:
    """Tell whether a distribution brought the package: plugins are named `vllm-…` as well."""
    with record.open(encoding="utf-8", errors="replace") as lines:
        return any(line.startswith(f"{PACKAGE}/__init__.py,") for line in lines)
