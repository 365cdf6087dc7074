"""What an old patch file says: plain values."""

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from .imported import Choice, Imported

Kind: TypeAlias = Literal["function", "class", "literal", "value", "expression"]
"""A `value` has a name in the file, an `expression` none; what a literal is its text says."""


@dataclass(frozen=True)
class Given:
    """What is assigned: a definition of the file, a literal, or what an expression gives.

    `descriptor` is what the file puts around a function: `staticmethod`, `classmethod`, `property`.
    """

    kind: Kind
    text: str
    name: str = ""
    descriptor: str = ""
    node: ast.AST | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Assignment:
    """One assignment to what others provide.

    `path` is the dotted path that it names, the first of those where it may name others, too:
    `choices` are those that its conditions leave, with those of an alternative to it; `own` are
    without these, empty where there is no alternative.
    `applier` is the function that it is in. It is not `required` where the file goes on without it.
    `when` is the condition on the environment that it is under, `vllm` the one on vLLM's version.
    `read_at` is the line where the file reads afterwards what it has assigned, 0 for none.
    """

    line: int
    path: str
    given: Given
    statement: ast.stmt = field(compare=False, repr=False)
    applier: str = ""
    required: bool = True
    when: str = ""
    vllm: str = ""
    choices: tuple[Choice, ...] = ()
    own: tuple[Choice, ...] = ()
    read_at: int = 0


def with_readers(
    assignments: Sequence[Assignment], reads: Iterable[tuple[int, int, str]]
) -> Iterator[Assignment]:
    """Yield assignments, each with where the file reads its target afterwards.

    `reads` are of how many assignments were done before, the line, and the path that is read.
    """
    known = list(reads)
    for index, each in enumerate(assignments):
        lines = [
            line
            for done, line, path in known
            if done > index and f"{path}.".startswith(f"{each.path}.")
        ]
        yield replace(each, read_at=lines[0]) if lines else each


@dataclass(frozen=True)
class Remark:
    """What is not translated, and why. `stays` tells that the copy does it still when imported.

    `paths` are what it seems to touch.
    """

    line: int
    code: str
    reason: str
    stays: bool = True
    paths: tuple[str, ...] = ()
    applier: str = ""


@dataclass(frozen=True)
class Saved:
    """A name under which the file keeps an original, to call it."""

    name: str
    path: str
    statement: ast.stmt = field(compare=False, repr=False)


@dataclass(frozen=True)
class OldFile:
    """An old patch file, read. `package` is the package that it is in, where there is one."""

    path: Path
    text: str
    tree: ast.Module = field(compare=False, repr=False)
    package: str
    imported: Imported
    assignments: tuple[Assignment, ...]
    remarks: tuple[Remark, ...]
    saved: Mapping[str, Saved]
    called: frozenset[str]
    """The appliers that the file calls itself."""
    calls: Mapping[int, tuple[str, ...]]
    """The appliers that statements of module level call, directly or not, by their first lines."""
    roots: Mapping[str, tuple[str, ...]]
    """For each applier those that have to be called to have it called, where the file does not."""
    needs: Mapping[str, int]
    """The modules of its own package that it imports from, and in which line."""

    @property
    def module(self) -> str:
        """The name that its copy has as a module."""
        stem = self.path.resolve().parent.name if self.is_package else self.path.stem
        name = re.sub(r"\W", "_", stem, flags=re.ASCII)
        return f"_{name}" if name[:1].isdigit() or keyword.iskeyword(name) else name

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a package."""
        return self.path.name == "__init__.py"

    @property
    def imported_as(self) -> str:
        """The name by which others import it."""
        return ".".join(filter(None, [self.package, "" if self.is_package else self.path.stem]))

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self.path.name
