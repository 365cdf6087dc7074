"""One vLLM that patches are checked against, under the name that the user gave it."""

from dataclasses import dataclass
from functools import cached_property

from ..version import VllmVersion
from .cache import CachedResolver
from .opening import installed_tree, open_tree
from .tree import Tree

INSTALLED = "installed"


@dataclass(frozen=True)
class Source:
    """A tree and how it was asked for: a version, `installed`, a path, or `PATH@REVISION`."""

    text: str
    tree: Tree

    @classmethod
    def open(cls, text: str) -> "Source":
        """Open what a text names; raise `SourceError` where that is no vLLM."""
        return cls(text, installed_tree() if text == INSTALLED else open_tree(text))

    @cached_property
    def resolver(self) -> CachedResolver:
        """What follows targets in the tree, with its answers of earlier runs."""
        return CachedResolver(self.tree)

    @property
    def version(self) -> VllmVersion:
        """The version of the tree."""
        return self.resolver.version

    @property
    def title(self) -> str:
        """What the user calls it, and the version where that does not say it."""
        version = self.version.version
        if version is None or str(version) == self.text:
            return self.text
        return f"{self.text} ({version})"
