"""What a module provides by its `__getattr__` (PEP 562), and what it exports by `__all__`."""

import ast
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..target import Target, is_lazy
from .bindings import Scope, is_bound_at_run_time
from .conditions import NEVER
from .entities import Absent, Answer, Entity, Undetermined
from .resolution import COMPUTED, PROVIDED
from .tree import Place

if TYPE_CHECKING:
    from .lookup import Lookup


def member(lookup: "Lookup", module: Entity, scope: Scope, name: str) -> Answer | None:
    """Return what the `__getattr__` of a module answers for a name; None where nothing tells.

    It is told by tables of names (`MODULE_ATTRS`, `_CLASS_TO_MODULE`), by imports in it, and by
    the imports that type checkers see. What it computes at each access is a value.
    """
    place, getters = module.home, _getters(scope)
    assert place is not None
    if not getters or name.startswith("__"):
        return None
    step = f"{PROVIDED} {place.module}"
    broken = None
    for reference in _references(scope, place, name):
        there = _at(lookup, reference)
        if isinstance(there, Entity):
            return there.by(step)
        if isinstance(there, Absent):
            broken = f"{place.module} takes it from {reference.module}, which has no {name!r}"
    inside = Scope(scope.outline, nodes=tuple(each for node in getters for each in _flat(node)))
    found = lookup.bound(module, inside, name) or _for_checkers(lookup, module, scope, name)
    if isinstance(found, Entity):
        return found.by(step)
    if broken:
        return Absent(broken)
    if _knows(scope, getters, name):
        found = Entity("value", place, name, _declaration(scope, name))
        table = next(_tables(scope, name), None)
        return (found if table is None else found.by(f"{COMPUTED} {table}[{name!r}]")).by(step)
    if not any(isinstance(each, ast.Raise) for node in getters for each in ast.walk(node)):
        return Undetermined(f"{place.module} answers for any name by its __getattr__")
    return None


def exported(scope: Scope) -> frozenset[str] | None:
    """Return the names in `__all__`; None where there is none, or it is not written out."""
    for binding in scope.bindings("__all__"):
        value = getattr(binding.node, "value", None)
        if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            return frozenset(_strings(value.elts))
    return None


def _getters(scope: Scope) -> list[ast.FunctionDef]:
    return [
        binding.node
        for binding in scope.bindings("__getattr__")
        if isinstance(binding.node, ast.FunctionDef) and is_bound_at_run_time(binding)
    ]


def _references(scope: Scope, place: Place, name: str) -> Iterator[Target]:
    """Yield what the tables of a module say of a name."""
    for value in _entries(scope, name):
        reference = _reference(value, place, name)
        if reference is not None:
            yield reference


def _entries(scope: Scope, name: str) -> Iterator[ast.expr]:
    for node in scope.mentioned(name):
        for table in ast.walk(node):
            if isinstance(table, ast.Dict):
                for key, value in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name:
                        yield value


def _reference(value: ast.expr, place: Place, name: str) -> Target | None:
    """Read `"module:name"`, `"module"` or `("module", "name")`; modules may be relative."""
    try:
        parts = ast.literal_eval(value)
    except (ValueError, TypeError):
        return None
    parts = parts.split(":") if isinstance(parts, str) else parts
    if (
        not isinstance(parts, (list, tuple))
        or not parts
        or not all(isinstance(each, str) for each in parts)
    ):
        return None
    module = parts[0] if parts[0].startswith((".", place.module.partition(".")[0])) else ""
    try:
        module = importlib.util.resolve_name(module or f".{parts[0]}", place.package)
    except ImportError:
        return None
    text = f"{module}:{parts[1] if len(parts) > 1 else name}"
    return Target.parse(text) if is_lazy(text) else None


def _at(lookup: "Lookup", reference: Target) -> Answer | None:
    module = lookup.module(reference.module)
    return None if module is None else lookup.in_module(module, reference.qualname)


def _flat(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Yield the imports in a `__getattr__`, those under `if name == …` included."""
    for node in function.body:
        if isinstance(node, (ast.If, ast.Import, ast.ImportFrom, ast.Try)):
            yield node


def _for_checkers(lookup: "Lookup", module: Entity, scope: Scope, name: str) -> Answer | None:
    """Follow what a module imports for type checkers only."""
    for binding in scope.bindings(name):
        node = binding.node
        if binding.likelihood == NEVER and isinstance(node, (ast.ImportFrom, ast.Import)):
            return lookup.bound(module, Scope(scope.outline, nodes=(node,)), name)
    return None


def _knows(scope: Scope, getters: list[ast.FunctionDef], name: str) -> bool:
    """Tell whether a `__getattr__` has a name in it, or in a table that it may look into."""
    written = any(
        isinstance(each, ast.Constant) and each.value == name
        for getter in getters
        for each in ast.walk(getter)
    )
    return written or any(True for _ in _entries(scope, name))


def _tables(scope: Scope, name: str) -> Iterator[str]:
    """Yield the names of the tables of a module in which a function stands for a name."""
    for node in scope.mentioned(name):
        value = getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for key, entry in (
            zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
        ):
            if (
                isinstance(key, ast.Constant)
                and key.value == name
                and not isinstance(entry, ast.Constant)
            ):
                yield from (each.id for each in targets if isinstance(each, ast.Name))


def _declaration(scope: Scope, name: str) -> ast.stmt | None:
    return next((binding.node for binding in scope.bindings(name)), None)


def _strings(elements: list[ast.expr]) -> Iterator[str]:
    for each in elements:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
