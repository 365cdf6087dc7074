"""What classes are beyond their members, as far as a patch cannot land there for it."""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from . import inheritance, outside, parts
from .entities import Entity

if TYPE_CHECKING:
    from .lookup import Lookup

Peculiarity: TypeAlias = Literal[
    "", "enum member", "enum", "struct", "typed dict", "fixed", "property part", "cache method"
]
"""An enum is one with members, of which Python lets no class inherit; a struct is made by msgspec,
whose decoders do not call the class; a typed dict has no subclasses; fixed is a class of compiled
code that lets no attribute be set; parts of properties cannot be set either, and a method of a
cache is one of its class."""

_ENUMS = frozenset(f"enum.{name}" for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"))
_STRUCTS = frozenset({"msgspec.Struct"})
_TYPED_DICTS = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})
_NO_MEMBERS = frozenset({"nonmember", "property", "staticmethod", "classmethod"})
"""What a class body calls for a value that does not become a member."""


def peculiarity(lookup: "Lookup", entity: Entity) -> Peculiarity:
    """Return what is peculiar about a class or about a name in one."""
    if entity.kind == "outside":
        return "fixed" if outside.is_fixed(entity.qualname) else ""
    if entity.kind == "class":
        return _of_class(lookup, entity)
    if entity.kind == "part" and entity.owner is not None:
        return "property part" if parts.is_property(entity.owner) else "cache method"
    name = entity.qualname.rpartition(".")[2]
    if entity.kind != "value" or entity.owner is None or not _is_member(entity.node, name):
        return ""
    if f"another name of {entity}" in entity.steps:  # that one can be set
        return ""
    return "enum member" if not _ENUMS.isdisjoint(_bases(lookup, entity.owner)) else ""


def _of_class(lookup: "Lookup", cls: Entity) -> Peculiarity:
    bases = _bases(lookup, cls)
    if not _STRUCTS.isdisjoint(bases):
        return "struct"
    if not _TYPED_DICTS.isdisjoint(bases):
        return "typed dict"
    if not _ENUMS.isdisjoint(bases) and any(_members(lookup, cls)):
        return "enum"
    return ""


def _bases(lookup: "Lookup", cls: Entity) -> set[str]:
    order = inheritance.linearised(lookup, cls)
    return {each.qualname for each in order if each.kind == "outside"}


def _members(lookup: "Lookup", cls: Entity) -> Iterator[str]:
    for node in lookup.body(cls).statements():
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for each in ast.walk(target) if target is not None else ():
                if isinstance(each, ast.Name) and _is_member(node, each.id):
                    yield each.id


def _is_member(node: ast.stmt | None, name: str) -> bool:
    """Tell whether an assignment in the body of an Enum makes a member (`enum`, "Supported …")."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or value is None or name.startswith("__"):
        return False
    if (name.startswith("_") and name.endswith("_")) or isinstance(value, ast.Lambda):
        return False
    called = value.func if isinstance(value, ast.Call) else None
    return called is None or ast.unparse(called).rpartition(".")[2] not in _NO_MEMBERS
