"""Entry points: those of installed distributions, and one that a project names itself."""

import os
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Protocol

from .target import load

if TYPE_CHECKING:
    from importlib import metadata


class EntryPoint(Protocol):
    """What a catalog asks of an entry point."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def dist(self) -> "metadata.Distribution | None": ...
    def load(self) -> Any: ...


@dataclass(frozen=True)
class Undistributed:
    """An entry point `"module:name"` that no distribution has."""

    name: str
    value: str
    dist: None = None

    def load(self) -> Any:
        """Import what it names."""
        return load(self.value)


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, as `importlib.metadata` does.

    That is not imported where no distribution has any: it takes a fifth of a check.
    """
    if not _may_have(group.encode()):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


def _may_have(group: bytes) -> bool:
    finders = [each for each in sys.meta_path if hasattr(each, "find_distributions")]
    if finders != [PathFinder]:  # others know where they look
        return True
    return any(_is_mentioned(group, folder) for folder in sys.path)


def _is_mentioned(group: bytes, folder: str) -> bool:
    """Tell whether a distribution in a folder has a group; True also where that is not known."""
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208  nothing here is worth a Path
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    if folder.lower().endswith(".egg"):
        return True
    infos = (each for each in names if each.lower().endswith((".dist-info", ".egg-info")))
    return any(group in _read(f"{folder or '.'}/{each}/entry_points.txt") for each in infos)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123
            return opened.read()
    except OSError:
        return b""
