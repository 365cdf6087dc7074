"""What a name can turn out to be while it is followed."""

import ast
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from .outline import Block
from .tree import Place

EntityKind = Literal["module", "class", "function", "value", "outside", "generated", "part"]


@dataclass(frozen=True)
class Entity:
    """Something that has a definition, and how it was reached.

    `home` is the module that it is defined in, None for what is outside vLLM, which has its dotted
    name as `qualname`. `block` is there for a class whose `node` lacks its body. `owner` is the
    class that it is a member of, of a `part` the property or cached function. What is `replaced`
    is so by code that runs after the definition.
    """

    kind: EntityKind
    home: Place | None
    qualname: str
    node: ast.stmt | None = None
    block: Block | None = None
    owner: "Entity | None" = None
    replaced: bool = False
    steps: tuple[str, ...] = ()

    def by(self, step: str) -> "Entity":
        """Return the same, reached by another step in front."""
        return replace(self, steps=(step, *self.steps))

    @property
    def identity(self) -> tuple[str, str]:
        """What tells one entity from others, however it was reached."""
        return (self.home.module if self.home else "", self.qualname)

    def __str__(self) -> str:
        return ":".join(filter(None, self.identity))


@dataclass(frozen=True)
class Absent:
    """There is no such name, and why that is certain."""

    reason: str


@dataclass(frozen=True)
class Undetermined:
    """Whether there is such a name is only known at run time, and why."""

    reason: str


Answer: TypeAlias = Entity | Absent | Undetermined
