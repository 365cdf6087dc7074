"""What the objects have that decorators of Python make: the parts of properties, of caches."""

import ast
import hashlib
from typing import TYPE_CHECKING

from . import describe
from .bindings import Function
from .entities import Entity
from .fingerprint import fingerprint

if TYPE_CHECKING:
    from .lookup import Lookup

_OF_PROPERTY = frozenset({"fget", "fset", "fdel", "getter", "setter", "deleter"})
_OF_CACHE = frozenset({"cache_clear", "cache_info"})
_CACHES = frozenset({"cache", "lru_cache"})
_ACCESSORS = frozenset({"setter", "deleter"})


def part(whole: Entity, name: str) -> Entity | None:
    """Return what a property or a cached function has under a name; None for all others."""
    if name not in (_OF_PROPERTY if is_property(whole) else _OF_CACHE if is_cache(whole) else ()):
        return None
    return Entity("part", whole.home, f"{whole.qualname}.{name}", owner=whole, steps=whole.steps)


def is_property(entity: Entity) -> bool:
    """Tell whether something is a property by itself, not a cached one."""
    if isinstance(entity.node, Function):
        return "property" in describe.decorators(entity.node)[:1]
    return entity.owner is not None and describe.called(entity.node) == "property"


def is_cache(entity: Entity) -> bool:
    """Tell whether something is what `functools.lru_cache` makes of a function."""
    return bool(_CACHES.intersection(describe.decorators(entity.node)[:1]))


def accessors(lookup: "Lookup", entity: Entity) -> list[ast.stmt]:
    """Return the definitions of the setter and the deleter of a property, in their order."""
    if entity.owner is None or entity.owner.kind != "class" or not is_property(entity):
        return []
    name = entity.qualname.rpartition(".")[2]
    nodes = [each.node for each in lookup.body(entity.owner).bindings(name)]
    found = [each for each in nodes if not _ACCESSORS.isdisjoint(describe.decorators(each))]
    return sorted(found, key=lambda node: node.lineno)


def joint_fingerprint(definition: ast.AST, more: list[ast.stmt]) -> str:
    """Return the fingerprint of a definition with its accessors, by itself where it has none."""
    if not more:
        return fingerprint(definition)
    all_of_them = " ".join(map(fingerprint, [definition, *more]))
    return hashlib.sha256(all_of_them.encode()).hexdigest()[:16]
