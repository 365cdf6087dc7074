"""One vLLM that patches are checked against, under the name that the user gave it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from packaging.version import Version

from ..version import VllmVersion
from .cache import CachedResolver
from .opening import expanded, open_tree, open_trees
from .tree import Tree

if TYPE_CHECKING:
    from .download import Progress


def open_sources(texts: Iterable[str], progress: "Progress | None" = None) -> "list[Source]":
    """Open every vLLM that is named, each once; raise `SourceError` for what is none.

    A range of versions or revisions names several; see `opening.expanded`. They are in the order of
    their versions, those of unknown version last.
    """
    singles = expanded(*texts)
    opened = [*map(Source, singles, open_trees(*singles, progress=progress))]
    return sorted(opened, key=_by_version)


def _by_version(source: "Source") -> tuple[bool, Version]:
    version = source.version.version
    return version is None, version or Version("0")


@dataclass(frozen=True)
class Source:
    """A tree and how it was asked for: a version, `installed`, a path, or `PATH@REVISION`."""

    text: str
    tree: Tree

    @classmethod
    def open(cls, text: str) -> "Source":
        """Open what a text names; raise `SourceError` where that is no vLLM."""
        return cls(text, open_tree(text))

    @cached_property
    def resolver(self) -> CachedResolver:
        """What follows targets in the tree, with its answers of earlier runs."""
        return CachedResolver(self.tree)

    @property
    def version(self) -> VllmVersion:
        """The version of the tree."""
        return self.resolver.version

    @cached_property
    def title(self) -> str:
        """The version, and in brackets what else tells the source from others of that version."""
        version, name = self.version.version, PurePath(self.text).name
        if version is None:
            return self.text
        return name if name == str(version) else f"{version} ({name})"
