"""What a target that is missing may have been meant to be: a name nearby, or another colon."""

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..target import Target
from .bindings import Function, Scope
from .entities import Entity
from .inheritance import linearised

if TYPE_CHECKING:
    from .lookup import Lookup


def other_colon(lookup: "Lookup", target: Target) -> Target | None:
    """Return a target whose module ends with names of a module, as it must be written.

    `vllm.LLM:generate` is `vllm:LLM.generate`. None where it is not that.
    """
    module, _, names = target.module.rpartition(".")
    while module and lookup.module(module) is None:
        module, _, name = module.rpartition(".")
        names = f"{name}.{names}"
    last, rest = _followed(lookup, Target(module, names))
    if not module or rest or last is None or last.kind == "module":
        return None
    meant = Target(module, ".".join(filter(None, [names, target.qualname])))
    has_members = last.kind == "class"
    return meant if has_members or not _followed(lookup, meant)[1] else None


def near_name(lookup: "Lookup", target: Target) -> str:
    """Return what a target has in the place of the part that is missing; empty where nothing is.

    That is a name of the same class or module, or the whole name of a module.
    """
    if lookup.module(target.module) is None:
        return _near_module(lookup, target.module)
    last, rest = _followed(lookup, target)
    if last is None or not rest:
        return ""
    return near_member(lookup, last, rest[0])


def near_member(lookup: "Lookup", holder: Entity, name: str) -> str:
    """Return what a module, a class or an instance has in the place of a name; empty without."""
    special = name.startswith("__")
    names = {each for each in _names(lookup, holder) if special or not each.startswith("__")}
    close = _close(name, names)
    return next((each for each in close if isinstance(lookup.member(holder, each), Entity)), "")


def _close(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that one may have been meant to be, the closest first."""
    from difflib import get_close_matches  # few checks come to this

    return get_close_matches(name, sorted(names), cutoff=_CLOSE)


_CLOSE = 0.8
"""From here on one name may be a slip of the pen for another, as `difflib` counts."""


def _near_module(lookup: "Lookup", module: str) -> str:
    """Return the name of a module with the first part that is missing put right."""
    found, *parts = module.split(".")
    while parts and lookup.module(f"{found}.{parts[0]}") is not None:
        found = f"{found}.{parts.pop(0)}"
    if not parts or lookup.module(found) is None:
        return ""
    for name in _close(parts[0], _submodules(lookup, found)):
        for each in (".".join([found, name, *parts[1:]]), f"{found}.{name}"):
            if lookup.module(each) is not None:
                return each
    return ""


def _followed(lookup: "Lookup", target: Target) -> tuple[Entity | None, list[str]]:
    """Return the last thing on the way to a target, and the names that it leads no further to."""
    last = lookup.module(target.module)
    parts = list(filter(None, target.qualname.split(".")))
    while parts and last is not None:
        step = lookup.member(last, parts[0])
        if not isinstance(step, Entity):
            break
        last = step
        parts.pop(0)
    return last, parts


def _names(lookup: "Lookup", entity: Entity) -> Iterator[str]:
    """Yield what a module, a class or an instance may have under a name."""
    if entity.kind == "value":
        cls = lookup.class_of(entity)
        yield from () if cls is None else _names(lookup, cls)
    elif entity.kind == "class":
        for each in linearised(lookup, entity):
            yield from _bound_names(lookup.body(each)) if each.kind == "class" else ()
    elif entity.kind == "module" and entity.home is not None:
        scope = lookup.scope(entity.home)
        yield from _bound_names(scope)
        yield from _submodules(lookup, entity.home.module)
        if scope.bindings("__getattr__"):
            yield from _keys(scope)


def _bound_names(scope: Scope) -> Iterator[str]:
    """Yield the names that statements bind, and some that only parts of them do."""
    for block in scope.blocks:
        if block.name is not None:
            yield block.name
        else:
            yield from _bound(scope.outline.nodes(block))
    yield from _bound(scope.nodes)


def _bound(nodes: Iterable[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        inside = [node] if isinstance(node, (*Function, ast.ClassDef)) else ast.walk(node)
        for each in inside:
            if isinstance(each, (*Function, ast.ClassDef)):
                yield each.name
            elif isinstance(each, ast.alias):
                yield each.asname or each.name.partition(".")[0]
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield each.id


def _keys(scope: Scope) -> Iterator[str]:
    """Yield the names in tables, from which a `__getattr__` may provide."""
    for node in scope.statements():
        for table in ast.walk(node):
            for key in table.keys if isinstance(table, ast.Dict) else ():
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value


def _submodules(lookup: "Lookup", package: str) -> set[str]:
    names = {each.partition(".")[0] for each in lookup.tree.listed(package.replace(".", "/"))}
    return {each for each in names if each.isidentifier() and not each.startswith("__")}
