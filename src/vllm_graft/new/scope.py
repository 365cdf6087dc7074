"""Where statements of an old file stand, and what that means for what they do."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from packaging.specifiers import SpecifierSet

from ..ranges import overlap
from .conditions import Condition, condition, joined
from .imported import Choice, Imported


@dataclass(frozen=True)
class Scope:
    """Where statements stand, and what that means for what they assign.

    `applier` is the function that they are in, `nested` are its names, with those of them that are
    functions. `values` are the expressions that names stand for. What the statements do is done
    under a `condition`; an `obstacle` says why it cannot be translated.
    """

    imported: Imported
    values: Mapping[str, ast.expr]
    applier: str = ""
    nested: Mapping[str, ast.AST | None] = field(default_factory=dict)
    required: bool = True
    condition: Condition = field(default_factory=Condition)
    obstacle: str = ""

    def under(self, test: ast.expr, obstacle: str) -> "Scope":
        """Return the scope of what is done where a test holds.

        `obstacle` is what to say where a declaration cannot say the test.
        """
        found = condition(test, self.imported, self.values)
        if found is None:
            return replace(self, obstacle=self.obstacle or obstacle)
        return replace(self, condition=self.condition & found)

    def versions(self, tests: tuple[ast.expr, ast.expr]) -> tuple[str, str]:
        """Return the versions of vLLM that each of two tests asks for, empty if not only that."""
        found = [condition(each, self.imported, self.values) or Condition() for each in tests]
        first, second = (each.vllm if not each.when else "" for each in found)
        return first, second

    def chosen(self, choices: tuple[Choice, ...]) -> tuple[str, tuple[Choice, ...]]:
        """Return the versions for which something is done, and the choices that are left then.

        Where none is left the file does nothing: then all are kept, to be told.
        """
        asked = self.condition.vllm
        left = tuple(each for each in choices if _may_be(each.vllm, asked)) or choices
        if len(left) != 1:
            return asked, left
        return joined(asked, left[0].vllm), (replace(left[0], vllm=""),)

    def as_called(self, under: "list[Condition | None]") -> "Scope":
        """Return the scope of a function that is called under one of these conditions."""
        found, *others = under or [Condition()]
        for other in others:
            found = found | other if found is not None and other is not None else None
        if found is None:
            return replace(self, obstacle=f"{self.applier} is called under several conditions")
        return replace(self, condition=found)


def _may_be(vllm: str, asked: str) -> bool:
    """Tell whether some version is in both of two ranges."""
    return overlap(SpecifierSet(vllm), SpecifierSet(asked))
