"""What `from module import *` binds, told from the sources of a vLLM."""

import ast
from collections.abc import Callable

from ..check.tree import Tree
from . import syntax
from .imported import constant

_INSIDE = (ast.Attribute, ast.Subscript)


def names_by_star(tree: Tree) -> Callable[[str], frozenset[str]]:
    """Return what tells the names that a module gives to a star; none where it has no source."""

    def names(module: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        place = tree.locate(module)
        if place is None or place.kind in ("folder", "compiled") or module in seen:
            return frozenset()
        body = ast.parse(tree.text(place)).body
        listed = _listed(body)
        if listed is not None:
            return listed
        found = {each for each in syntax.bound_names(body) if not each.startswith("_")}
        for each in body:
            if isinstance(each, ast.ImportFrom) and each.names[0].name == "*":
                found |= names(_absolute(each, place.package), seen | {module})
        return frozenset(found - {"*"})

    return names


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    before = package.split(".")
    kept = before[: len(before) - statement.level + 1] if statement.level else []
    return ".".join([*kept, *filter(None, [statement.module])])


def _listed(body: list[ast.stmt]) -> frozenset[str] | None:
    """Return what `__all__` lists, where it is written down."""
    for each in body:
        value = getattr(each, "value", None)
        if "__all__" in syntax.bound_names([each]) and isinstance(value, (ast.List, ast.Tuple)):
            return frozenset(filter(None, map(constant, value.elts)))
    return None


def assigns_to_unknown(statement: ast.stmt, known: set[str]) -> bool:
    """Tell whether a statement assigns to an attribute or item of a name that nothing binds."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    call = getattr(statement, "value", None)
    if syntax.is_call_of(call, "setattr"):
        targets = [*targets, ast.Attribute(call.args[0], "")]
    roots = [syntax.root(each) for each in targets if isinstance(each, _INSIDE)]
    return any(each and each not in known for each in roots)
