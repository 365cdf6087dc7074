"""The members of classes: their own, and those of their bases in the order that Python looks."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import outside, run_time
from .bindings import is_bound_at_run_time
from .entities import Absent, Answer, Entity, Undetermined

if TYPE_CHECKING:
    from .lookup import Lookup

_DATACLASS_NAMES = frozenset({"__init__", "__eq__", "__repr__"})
_WITH_FIELDS = (
    "pydantic.main.BaseModel",
    "pydantic.BaseModel",
    "typing.NamedTuple",
    "typing.TypedDict",
    "msgspec.Struct",
)
"""Classes whose subclasses have fields where others have annotations only."""


def member(lookup: "Lookup", cls: Entity, name: str) -> Answer:
    """Return what a class has under a name, in itself, in a base, or by a later assignment."""
    found = own(lookup, cls, name)
    if found is None:
        return _inherited(lookup, cls, name)
    setter = run_time.set_by_decorator(lookup, cls, name)
    if setter is None or not isinstance(found, Entity):
        return found
    return replace(found, replaced=True).by(f"set anew by {setter}")


def linearised(lookup: "Lookup", cls: Entity) -> list[Entity]:
    """Return a class and its bases in the order in which Python looks through them (C3).

    Bases outside vLLM stand for themselves; computed ones are entities of the kind `value`.
    """
    return _linearised(lookup, cls, frozenset())


def is_dataclass(cls: Entity) -> bool:
    """Tell whether a decorator makes the methods of a dataclass; `@config` is vLLM's own one."""
    return isinstance(cls.node, ast.ClassDef) and any(
        _name(decorator) in ("dataclass", "config") for decorator in cls.node.decorator_list
    )


def has_fields(lookup: "Lookup", cls: Entity) -> bool:
    """Tell whether annotations in the body of a class make fields."""
    return is_dataclass(cls) or any(
        base.kind == "outside" and base.qualname in _WITH_FIELDS for base in linearised(lookup, cls)
    )


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def own(lookup: "Lookup", cls: Entity, name: str) -> Answer | None:
    """Return what a class itself has under a name; None where it has not."""
    found = lookup.bound(cls, lookup.body(cls), name)
    if found is None and name in _DATACLASS_NAMES and is_dataclass(cls):
        found = Entity("generated", cls.home, f"{cls.qualname}.{name}", cls.node, owner=cls)
    if found is None:
        found = run_time.assigned(lookup, cls, name)
    return found


def _inherited(lookup: "Lookup", cls: Entity, name: str) -> Answer:
    doubts: list[str] = []
    order = linearised(lookup, cls)
    for base in order[1:]:
        found = _in_base(lookup, base, name)
        if isinstance(found, Undetermined):
            doubts.append(found.reason)
        elif found is not None:
            return found.by(f"inherited from {base}") if isinstance(found, Entity) else found
    if outside.is_of_every_class(name) and not doubts:
        return Entity("outside", None, f"builtins.object.{name}").by("inherited from object")
    classes = [each for each in order if each.kind == "class"]
    found = _declared(lookup, classes, name) or _slot(lookup, classes, name)
    found = found or run_time.in_class(lookup, classes, name)
    if found is not None:
        return found
    if setter := run_time.set_by_decorator(lookup, cls, name):
        return Undetermined(f"{setter} may set it when it decorates {cls}")
    if doubts:
        return Undetermined(f"{cls} does not define {name!r}, and {doubts[0]}")
    return Absent(f"{cls} has no {name!r}{_note(lookup, classes, name)}")


def _in_base(lookup: "Lookup", base: Entity, name: str) -> Answer | None:
    if base.kind == "class":
        return own(lookup, base, name)
    if base.kind != "outside":
        return Undetermined(f"its base {base} is computed at run time")
    names = outside.members(base.qualname)
    if names is None:
        return Undetermined(f"its base {base.qualname} is outside vLLM")
    if name in names and not outside.is_of_every_class(name):
        return Entity("outside", None, f"{base.qualname}.{name}")
    return None


def _declared(lookup: "Lookup", classes: list[Entity], name: str) -> Entity | None:
    """Return a field that is declared without a default: instances have it, the class has not."""
    for cls in classes:
        if not has_fields(lookup, cls):
            continue
        for binding in lookup.body(cls).bindings(name):
            if not is_bound_at_run_time(binding) and isinstance(binding.node, ast.AnnAssign):
                qualname = f"{cls.qualname}.{name}"
                return Entity("value", cls.home, qualname, binding.node, owner=cls)
    return None


def _slot(lookup: "Lookup", classes: list[Entity], name: str) -> Entity | None:
    """Return a name that `__slots__` makes a class have."""
    for cls in classes:
        for binding in lookup.body(cls).bindings("__slots__"):
            value = getattr(binding.node, "value", None)
            strings = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
            if any(isinstance(each, ast.Constant) and each.value == name for each in strings):
                slot = Entity("value", cls.home, f"{cls.qualname}.{name}", binding.node, owner=cls)
                return slot.by(f"a slot of {cls}")
    return None


def _note(lookup: "Lookup", classes: list[Entity], name: str) -> str:
    """Say where a class announces an attribute, or its methods set it on instances."""
    for cls in classes:
        for binding in lookup.body(cls).bindings(name):
            if isinstance(binding.node, ast.AnnAssign):
                return (
                    f": {cls} only annotates it (line {binding.node.lineno}), and subclasses or "
                    "instances have it"
                )
        for method, line in _set_by(lookup, cls, name):
            return f": {method} sets it on instances (line {line}), it is no class attribute"
    return ""


def _set_by(lookup: "Lookup", cls: Entity, name: str) -> Iterator[tuple[str, int]]:
    for node in lookup.body(cls).mentioned(f"self.{name}"):
        for each in ast.walk(node):
            if (
                isinstance(each, ast.Attribute)
                and each.attr == name
                and isinstance(each.ctx, ast.Store)
            ):
                yield f"{cls}.{getattr(node, 'name', '')}", each.lineno


def _linearised(lookup: "Lookup", cls: Entity, below: frozenset[tuple[str, str]]) -> list[Entity]:
    if cls.kind != "class" or cls.identity in below:
        return [cls]
    below |= {cls.identity}
    bases = [*_bases(lookup, cls), *run_time.added_bases(lookup, cls)]
    orders = [_linearised(lookup, base, below) for base in bases]
    return [cls, *_merged([*orders, bases])]


def _merged(orders: list[list[Entity]]) -> list[Entity]:
    """Merge the orders of bases: the next is one that no other order has further back."""
    merged = []
    orders = [order for order in orders if order]
    while orders:
        heads = [order[0] for order in orders]
        behind = {each.identity for order in orders for each in order[1:]}
        # Where there is no such order Python refuses the class; any order will do then.
        head = next((each for each in heads if each.identity not in behind), heads[0])
        merged.append(head)
        orders = [
            rest
            for order in orders
            if (rest := [each for each in order if each.identity != head.identity])
        ]
    return merged


def _bases(lookup: "Lookup", cls: Entity) -> list[Entity]:
    assert isinstance(cls.node, ast.ClassDef)
    return [_base(lookup, cls, expression) for expression in cls.node.bases]


def _base(lookup: "Lookup", cls: Entity, expression: ast.expr) -> Entity:
    assert cls.home is not None
    if isinstance(expression, ast.Subscript):  # Generic[T]
        expression = expression.value
    scopes = [(cls.owner, lookup.body(cls.owner))] if cls.owner is not None else []
    found = lookup.expression(expression, cls.home, *scopes)
    if isinstance(found, Entity) and found.kind in ("class", "outside"):
        return found
    text = ast.unparse(expression)
    if isinstance(found, Absent) and outside.is_builtin(text):
        return Entity("outside", None, f"builtins.{text}")
    return Entity("value", None, text)
