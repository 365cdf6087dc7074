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


def fingerprint_with_parts(lookup: "Lookup", entity: Entity, body: ast.AST) -> str:
    """Return the fingerprint of a definition, a property's with its setter and deleter."""
    first = fingerprint(body)
    if entity.owner is None or entity.owner.kind != "class" or not is_property(entity):
        return first
    name = entity.qualname.rpartition(".")[2]
    nodes = [each.node for each in lookup.body(entity.owner).bindings(name)]
    more = [
        fingerprint(each)
        for each in sorted(nodes, key=lambda node: node.lineno)
        if not _ACCESSORS.isdisjoint(describe.decorators(each))
    ]
    return hashlib.sha256(" ".join([first, *more]).encode()).hexdigest()[:16] if more else first
