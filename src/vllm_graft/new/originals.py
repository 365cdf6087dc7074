"""Originals that an old file keeps under a name and calls in what takes their place."""

import ast
from collections.abc import Iterator

from .old_file import Assignment, OldFile, Saved

_INSIDE = {"classmethod": ".__func__", "property": ".fget"}
"""How a file gets at the function inside of what is stored in a class."""


def original(file: OldFile, assignment: Assignment, kind: str | None) -> Saved | None:
    """Return the name of the original that the assigned function calls, where `wrap` fits.

    That is where giving the function a first parameter of this name is all that has to change:
    nobody else uses the name, nor calls the function. `kind` is what the target is.
    """
    node = assignment.given.node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    if _loads(file.tree, node.name) != _assigned(file, node.name):
        return None
    path = assignment.path + _INSIDE.get(kind or "", "")
    for saved in file.saved.values():
        if saved.path == path and _is_private_to(file.tree, saved.name, node):
            return saved
    return None


def wraps_decorator(node: ast.AST, name: str) -> ast.expr | None:
    """Return the decorator `wraps(name)` of a function, whose work `wrap` does."""
    for decorator in getattr(node, "decorator_list", ()):
        if ast.unparse(decorator) in (f"functools.wraps({name})", f"wraps({name})"):
            found: ast.expr = decorator
            return found
    return None


def _is_private_to(
    tree: ast.Module, name: str, node: "ast.FunctionDef | ast.AsyncFunctionDef"
) -> bool:
    decorator = wraps_decorator(node, name)
    if len(node.decorator_list) > (decorator is not None):
        return False
    inside = [each for statement in node.body for each in _names(statement, name)]
    allowed = len(inside) + (decorator is not None)
    everywhere = list(_names(tree, name))
    stores = [each for each in everywhere if not isinstance(each.ctx, ast.Load)]
    is_read = bool(inside) and all(isinstance(each.ctx, ast.Load) for each in inside)
    parameters = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return (
        is_read
        and len(stores) == 1
        and len(everywhere) == allowed + 1
        and name not in parameters
        and not any(isinstance(each, (ast.Global, ast.Nonlocal)) for each in ast.walk(node))
    )


def _names(node: ast.AST, name: str) -> Iterator[ast.Name]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id == name:
            yield each


def _loads(tree: ast.Module, name: str) -> int:
    return sum(isinstance(each.ctx, ast.Load) for each in _names(tree, name))


def _assigned(file: OldFile, name: str) -> int:
    """Return how many statements assign a function; one with several targets reads it once."""
    return len({id(each.statement) for each in file.assignments if each.given.name == name})
