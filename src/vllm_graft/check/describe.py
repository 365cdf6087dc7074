"""What a definition would be at run time, told from its syntax tree."""

import ast
from collections.abc import Iterator
from typing import Literal, TypeAlias

from .bindings import Function
from .entities import Entity

Kind: TypeAlias = Literal[
    "module",
    "class",
    "function",
    "method",
    "staticmethod",
    "classmethod",
    "property",
    "field",
    "variable",
    "object",
    "outside",
]
"""A field is one of a dataclass or the like; an object is what a decorator such as `triton.jit`
makes of a function."""

_OBJECTS = frozenset({"jit", "autotune", "heuristics", "custom_op", "kernel", "aggregate"}) | {
    "singledispatchmethod"
}
_PROPERTIES = frozenset({"property", "cached_property"})
_IMPLICIT: dict[str, Kind] = {
    "__new__": "staticmethod",
    "__init_subclass__": "classmethod",
    "__class_getitem__": "classmethod",
}
_DESCRIPTORS: dict[str, Kind] = {
    "staticmethod": "staticmethod",
    "classmethod": "classmethod",
    "property": "property",
    "cached_property": "property",
}


def kind(entity: Entity) -> Kind:
    """Return what an entity is."""
    if entity.kind in ("module", "class", "outside"):
        return entity.kind
    if entity.kind == "generated":
        return "method"
    if entity.kind == "part":
        return "variable"
    if isinstance(entity.node, Function):
        return _of_function(entity, entity.node)
    return _of_value(entity)


def decorators(node: ast.AST | None) -> list[str]:
    """Return the last names of the decorators of a definition: `jit` for `@triton.jit(…)`."""
    return [_called(each) for each in getattr(node, "decorator_list", ())]


def called(node: ast.AST | None) -> str:
    """Return the last name of what an assignment calls for its value; empty where it calls none."""
    value = getattr(node, "value", None)
    return _called(value) if isinstance(value, ast.Call) else ""


def flavour(node: ast.AST | None, source: str = "yield") -> str | None:
    """Return what a call of a function gives, in the words of `vllm_graft.signatures.flavour`.

    A decorator such as `contextmanager` makes a generator a plain function. None where the
    definition is no function. To look through one takes long: `source` may tell that it need not.
    """
    if not isinstance(node, Function):
        return None
    yields = "yield" in source and any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) for each in _own_nodes(node)
    )
    manager = any("contextmanager" in name for name in decorators(node))
    if manager or "cached_property" in decorators(node):
        return "plain"
    if isinstance(node, ast.AsyncFunctionDef):
        return "async generator" if yields else "coroutine"
    return "generator" if yields else "plain"


def is_hidden(node: ast.AST | None) -> bool:
    """Tell whether a decorator that is not known stands around a function."""
    return any(name not in _PLAIN for name in decorators(node))


def is_computed(node: ast.AST | None) -> bool:
    """Tell whether the value of an assignment is only known when it has been executed."""
    value = getattr(node, "value", None)
    return isinstance(value, (ast.Call, ast.Attribute, ast.Subscript, ast.Name, ast.IfExp))


_PLAIN = frozenset(_DESCRIPTORS) | {"abstractmethod", "override", "final", "cache", "lru_cache"}


def _of_function(entity: Entity, node: "ast.FunctionDef | ast.AsyncFunctionDef") -> Kind:
    names = decorators(node)
    if not _OBJECTS.isdisjoint(names):
        return "object"
    if not _PROPERTIES.isdisjoint(names) or "getter" in names:
        return "property"
    if entity.owner is None:
        return "function"
    if node.name in _IMPLICIT:
        return _IMPLICIT[node.name]
    return next((_DESCRIPTORS[name] for name in names if name in _DESCRIPTORS), "method")


def _of_value(entity: Entity) -> Kind:
    value = getattr(entity.node, "value", None)
    if isinstance(value, ast.Lambda):
        return "method" if entity.owner is not None else "function"
    if entity.owner is not None and isinstance(value, ast.Call):
        known = _DESCRIPTORS.get(_called(value))
        if known is not None:
            return known
    if entity.owner is not None and isinstance(entity.node, ast.AnnAssign):
        is_class_variable = "ClassVar" in ast.unparse(entity.node.annotation)
        return "variable" if is_class_variable else "field"
    return "variable"


def _called(node: ast.expr) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    return ast.unparse(node).rpartition(".")[2]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a function, but not what is in functions and classes inside it."""
    pending: list[ast.AST] = list(getattr(node, "body", ()))
    while pending:
        each = pending.pop()
        yield each
        if not isinstance(each, _OTHERS):
            pending.extend(ast.iter_child_nodes(each))


_OTHERS = (*Function, ast.Lambda, ast.ClassDef)
