"""What the names of a module stand for, as far as its own statements tell: imports do not."""

import ast
from collections.abc import Callable, Iterable, Iterator

from .bindings import Function
from .fingerprint import fingerprint
from .global_names import global_names

_Definition = (*Function, ast.ClassDef)
Write = Callable[[ast.AST], str]
Strip = Callable[[ast.AST], ast.AST]


class ModuleNames:
    """Describes what definitions use in their module; what a name stands for is written once.

    `strip` takes from a definition what only declares it, `write` describes what is left.
    """

    def __init__(self, statements: Iterable[ast.stmt], strip: Strip, write: Write) -> None:
        self._strip, self._write = strip, write
        self._bindings: dict[str, list[tuple[ast.stmt, tuple[ast.AST, ...]]]] = {}
        self._known: dict[str, tuple[str, frozenset[str]]] = {}
        for statement, conditions in _statements(statements, ()):
            for name in _names(statement):
                self._bindings.setdefault(name, []).append((statement, conditions))

    def used_by(self, nodes: Iterable[ast.AST], hidden: Iterable[str] = ()) -> str:
        """Describe what nodes use, and what that uses, in the order of the names.

        `hidden` are names that functions around the nodes bind.
        """
        roots = list(nodes)
        found: dict[str, str] = {}
        waiting = set().union(*(global_names(self._strip(each)) for each in roots)) - {*hidden}
        while waiting:
            name = waiting.pop()
            bound = self._bindings.get(name, [])
            if name not in found and any(node not in roots for node, _ in bound):
                found[name], loads = self._of(name)
                waiting |= loads
        return "".join(f" {name}={found[name]}" for name in sorted(found))

    def _of(self, name: str) -> tuple[str, frozenset[str]]:
        if name not in self._known:
            written: list[str] = []
            loads: set[str] = set()
            for node, conditions in self._bindings[name]:
                written += [*map(fingerprint, conditions), self._one(node)]
                loads = loads.union(*map(global_names, [*self._own(node), *conditions]))
            self._known[name] = " ".join(written), frozenset(loads)
        return self._known[name]

    def _one(self, node: ast.stmt) -> str:
        if isinstance(node, _Definition):
            return self._write(node)
        return " ".join([type(node).__name__, *map(fingerprint, self._own(node))])

    def _own(self, node: ast.stmt) -> list[ast.AST]:
        """Return the parts of a statement that count: not annotations, nor what is below it."""
        if isinstance(node, _Definition):
            return [self._strip(node)]
        items = [each.context_expr for each in getattr(node, "items", ())]
        parts = [getattr(node, each, None) for each in ("op", "iter", "value")]
        return [*_targets(node), *items, *filter(None, parts)]


def _statements(
    body: Iterable[ast.stmt], conditions: tuple[ast.AST, ...]
) -> Iterator[tuple[ast.stmt, tuple[ast.AST, ...]]]:
    """Yield the statements of a module with what those around them depend on."""
    for node in body:
        yield node, conditions
        if isinstance(node, _Definition):
            continue
        inner = (*conditions, *_conditions(node))
        for field in ("body", "orelse", "finalbody"):
            below = (*inner, ast.Constant(field)) if field != "body" else inner
            yield from _statements(getattr(node, field, ()), below)
        for each in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            own = [getattr(each, part, None) for part in ("type", "pattern", "guard")]
            yield from _statements(each.body, (*inner, *filter(None, own)))


def _conditions(node: ast.stmt) -> list[ast.AST]:
    return [getattr(node, each) for each in ("test", "subject", "iter") if hasattr(node, each)]


def _names(node: ast.stmt) -> set[str]:
    """Return what a statement binds, or puts something into; a set of patches is no name here."""
    if isinstance(node, _Definition):
        return {node.name}
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("PatchSet"):
        return set()
    return {name for target in _targets(node) for name in _bases(target)}


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [each.optional_vars for each in node.items if each.optional_vars is not None]
    if type(node).__name__ == "TypeAlias":  # from Python 3.12 on
        return [node.name]  # type: ignore[attr-defined]  # mypy looks as Python 3.10 does
    return []


def _bases(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _bases(each)
    elif isinstance(target, (ast.Starred, ast.Subscript, ast.Attribute)):
        yield from _bases(target.value)
    elif isinstance(target, ast.Name):
        yield target.id
