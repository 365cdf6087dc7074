"""A target as another vLLM has it, or as a lock says that it was: to recognise it by."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from packaging.version import Version

from ..errors import SourceError
from ..target import Target
from .resolution import Move, Resolution

if TYPE_CHECKING:
    from .cache import CachedResolver
    from .lock import LockedTarget


class Example:
    """A target as another tree has it. It is parsed when it is needed.

    `text` names the tree to the user, `of` in reasons.
    """

    def __init__(
        self, resolver: "CachedResolver", resolution: Resolution, text: str = "", of: str = ""
    ) -> None:
        self.resolution = resolution
        self.text = text
        self.of = of or f"vLLM {resolver.version.text or resolver.tree.label}"
        self.resolver = resolver

    @property
    def node(self) -> Any:
        """The syntax tree of the definition; None where it is defined elsewhere."""
        if self.resolution.node is not None:
            return self.resolution.node
        return self.resolver.resolver.resolve(self.resolution.target).node

    @property
    def where(self) -> Target | None:
        """Where it is defined."""
        return self.resolution.where

    @property
    def body(self) -> str:
        """The fingerprint of the definition."""
        return self.resolution.fingerprint

    @property
    def key(self) -> str:
        """What tells this definition from others: of two alike each has its own place."""
        return f"{self.body} {self.where}"

    def has(self, target: Target) -> bool:
        """Tell whether the other tree defines something at a place."""
        try:
            return self.resolver.defines(target)
        except SourceError:  # of a module that nobody asked for
            return False


@dataclass(frozen=True)
class LockedExample:
    """A target as a lock has it: its place, its signature and the fingerprint of its body."""

    locked: "LockedTarget"
    version: Version
    node = None

    @property
    def of(self) -> str:
        """What reasons call it."""
        return f"the lock of {self.version}"

    @property
    def where(self) -> Target | None:
        """Where it was defined."""
        return Target.parse(self.locked.where) if self.locked.where else None

    @property
    def body(self) -> str:
        """The fingerprint of the definition."""
        return self.locked.body

    @property
    def key(self) -> str:
        """What tells this definition from others, and from those that trees have."""
        return f"{self.locked.body} {self.locked.where} {self.locked.signature}"

    def has(self, _: Target) -> bool:
        """Tell that a lock says nothing of other places."""
        return False


AnyExample: TypeAlias = Example | LockedExample


def likely_moves(found: list[Move], target: Target, example: AnyExample | None) -> list[Move]:
    """Return the places where a missing target is likely to be now.

    What was there beside the target is another definition, unless it is a copy of it, or the only
    one of that qualified name: then there may have been two, of which one is gone.
    """
    named = [each for each in found if each.target.qualname == target.qualname]
    return [
        each
        for each in found
        if each.is_likely
        and (
            named == [each]
            or (each in named and each.similarity == 1.0)
            or not _was_there(each, example)
        )
    ]


def _was_there(move: Move, example: AnyExample | None) -> bool:
    return example is not None and example.where != move.target and example.has(move.target)
