"""What is known of a target in one tree, and where a missing one may have gone: plain values."""

import ast
from dataclasses import dataclass, field
from inspect import Signature
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..target import Target
from .stored import Parameters, restored

if TYPE_CHECKING:
    from .describe import Kind
    from .peculiar import Peculiarity

State: TypeAlias = Literal["found", "missing", "unknown"]

PROVIDED = "provided lazily by"
"""How the step begins that leads through a `__getattr__`."""

COMPUTED = "computed by"
"""How the step begins that names the entry of a table which computes a value at each access."""


@dataclass(frozen=True)
class Resolution:
    """What a target is in one tree.

    Where it is `found`: `where` is its definition in the file `path`, from `line` to `end_line`,
    and `steps` say how it is reached, from the target on (`re-exported via …`, `inherited from
    …`). What is defined outside vLLM has no path. Otherwise `reason` says why it is not.

    `hidden` tells that a decorator whose effect is not known stands around a function, `computed`
    that a variable is what some expression gives at run time, `peculiarity` what keeps a patch from
    landing although there is such a name. Of what is missing, `near` is a name that it may have
    been meant to be, and `meant` the target as it must be written, where only the colon is in the
    wrong place. `node` is the syntax tree, which a resolution from a cache does not have.
    """

    target: Target
    state: State
    reason: str = ""
    kind: "Kind | None" = None
    where: Target | None = None
    path: str = ""
    line: int = 0
    end_line: int = 0
    steps: tuple[str, ...] = ()
    parameters: Parameters | None = None
    flavour: str | None = None
    fingerprint: str = ""
    hidden: bool = False
    computed: bool = False
    peculiarity: "Peculiarity" = ""
    near: str = ""
    meant: str = ""
    node: ast.AST | None = field(default=None, compare=False, repr=False)

    @property
    def signature(self) -> Signature | None:
        """How it is called; None where it is not, or where its definition does not tell."""
        return None if self.parameters is None else restored(self.parameters)

    @property
    def hint(self) -> str:
        """What to write instead of what is missing; empty where nothing comes near."""
        if self.meant:
            return f"Write {self.meant!r}"
        return f"Did you mean {self.near!r}?" if self.near else ""

    @property
    def computed_by(self) -> str:
        """The entry of a table that computes it at each access, where there is one."""
        steps = (each for each in self.steps if each.startswith(COMPUTED))
        return next(steps, "").removeprefix(f"{COMPUTED} ")

    @property
    def is_lazy(self) -> bool:
        """Whether the `__getattr__` of the target's module provides it, which itself lacks it."""
        return bool(self.steps) and self.steps[0].startswith(PROVIDED)


@dataclass(frozen=True)
class Move:
    """A place where a target may have gone, and how similar it is, where that can be told."""

    target: Target
    path: str
    line: int
    similarity: float | None
    is_likely: bool = False

    def __str__(self) -> str:
        alike = "" if self.similarity is None else f", {self.similarity:.0%} alike"
        return f"{self.target} ({self.path}:{self.line}{alike})"
