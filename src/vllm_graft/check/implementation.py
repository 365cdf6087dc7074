"""How the implementation of a patch can be called, without importing a lazy one."""

import ast
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from inspect import Signature
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import SourceError
from ..patch import Patch
from ..signatures import flavour, signature
from ..target import Target, spec_of
from .tree import FolderTree, Place, PlaceKind

if TYPE_CHECKING:
    from .entities import Entity
    from .lookup import Lookup
    from .unbound import Lack


@dataclass(frozen=True)
class Implementation:
    """What is known of the function or class that a patch gives.

    `note` says why something is not known, `lack` why it is not there at all. What is no plain
    function `takes_all` in the place of a function: `apply` then calls it from one with
    `*args, **kwargs`.
    """

    signature: Signature | None = None
    flavour: str | None = None
    is_class: bool = False
    takes_all: bool = False
    name: str = ""
    note: str = ""
    lack: "Lack | None" = None


def implementation(patch: Patch) -> Implementation:
    """Return what is known of an implementation: from the object, or from its source."""
    if patch.lazy is not None:
        return _from_source(Target.parse(patch.lazy))
    given = patch.implementation
    if isinstance(given, (staticmethod, classmethod)):
        given = given.__func__
    if not callable(given):
        return Implementation()
    return _of_function(given) if isinstance(given, FunctionType) else _of_object(given)


def lack(reference: Target) -> "Lack | None":
    """Return why a lazy implementation is not there; None where it is, or nothing tells."""
    spec = spec_of(reference.module)
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        with suppress(*_UNREADABLE):
            if _is_written(reference.qualname, Path(spec.origin)):
                return None
    return _from_source(reference).lack


def _is_written(name: str, file: Path) -> bool:
    """Tell whether a file defines a name plainly; raise SyntaxError for one that is not Python."""
    text = file.read_text(encoding="utf-8")
    if name and not any(f"\n{each} {name}{end}" in text for each, end in _DEFINITIONS):
        return False
    if not FolderTree(file.parent).is_compiled(file.name):
        _raise_if_broken(text)
    return True


@lru_cache(maxsize=4)  # many implementations are in one file
def _raise_if_broken(text: str) -> None:
    from symtable import symtable  # few checks come to this

    symtable(text, "implementation", "exec")  # two thirds of the time of `ast.parse`


_DEFINITIONS = (("def", "("), ("async def", "("), ("class", "("), ("class", ":"))


def _of_object(given: Callable[..., Any]) -> Implementation:
    return Implementation(
        signature(given),
        flavour(given),
        inspect.isclass(given),
        not isinstance(given, FunctionType),
        _name(given),
    )


_of_function = lru_cache(maxsize=1024)(_of_object)
"""Each vLLM asks anew. Other objects may be equal and called otherwise."""


def _name(given: Callable[..., Any]) -> str:
    name: str = getattr(given, "__qualname__", repr(given))
    return name


def definition(reference: Target) -> "ast.AST | None":
    """Return the syntax tree of what a lazy implementation names; None where it cannot be read."""
    try:
        found = _followed(reference)
    except _UNREADABLE:
        return None
    if found is None:
        return None
    lookup, entity = found
    if entity.kind == "module" and entity.home is not None:
        return ast.parse(lookup.tree.text(entity.home))
    return lookup.whole(entity)


def statements(reference: Target) -> tuple[ast.stmt, ...]:
    """Return the statements of the module that defines what a lazy implementation names."""
    found = _followed(reference)
    if found is None or found[1].home is None:
        return ()
    lookup, entity = found
    assert entity.home is not None
    return tuple(lookup.scope(entity.home).statements())


def files(reference: Target) -> tuple[Path, ...]:
    """Return the files that tell what a lazy implementation is, from the one of its module on."""
    passed: list[_Step] = []
    with suppress(*_UNREADABLE):
        _followed(reference, passed)
    return tuple(each.file for each in passed)


def _from_source(reference: Target) -> Implementation:
    from . import describe, parameters

    passed: list[_Step] = []
    try:
        found = _followed(reference, passed)
    except _UNREADABLE as error:
        lacking = _unread(reference, passed, error)
        note = f"how {reference} is called is not known: it has no source here"
        return Implementation(note="" if lacking else note, lack=lacking)
    if found is None:
        note = f"{reference} is not defined in its module, or in what that imports"
        return Implementation(note=note, lack=_lacking(reference, passed))
    lookup, entity = found
    takes_all = entity.kind == "class" or not _CACHES.isdisjoint(describe.decorators(entity.node))
    return Implementation(
        parameters.signature(lookup, entity),
        "plain" if takes_all else describe.flavour(entity.node),
        entity.kind == "class",
        takes_all,
        str(reference),
    )


def _unread(
    reference: Target, passed: "list[_Step]", error: SyntaxError | ValueError | OSError
) -> "Lack | None":
    """Tell why an implementation cannot be there, by what kept it from being read."""
    from . import unbound  # few checks come to this

    if isinstance(error, _NoSource):
        is_sure = all(map(_is_imported_always, passed))
        return unbound.lacking_module(reference, error.reference, is_sure=is_sure)
    is_sure = all(map(_is_imported_always, passed[:-1]))
    return unbound.broken_module(reference, passed[-1].reference.module, error, is_sure=is_sure)


def _lacking(reference: Target, passed: "list[_Step]") -> "Lack | None":
    """Tell why the last of the modules that were followed lacks a name."""
    from . import unbound
    from .entities import Entity

    last, file, place = passed[-1]
    module = Entity("module", place, "")
    is_sure = all(map(_is_imported_always, passed[:-1]))
    return unbound.lacking_name(reference, last, _read(file, place), module, is_sure=is_sure)


def _is_imported_always(step: "_Step") -> bool:
    """Tell whether a module cannot be imported without what it takes from another."""
    scope = _read(step.file, step.place).scope(step.place)
    found = scope.bindings(step.reference.qualname.partition(".")[0])
    return len(found) == 1 and any(found[0].node is each for each in scope.statements())


_CACHES = frozenset({"cache", "lru_cache"})
"""Decorators of `functools` that make of a function what is none."""


_UNREADABLE = (SourceError, SyntaxError, ValueError, OSError)


class _NoSource(SourceError):
    """A module on the way to an implementation is not there, or is not written in Python."""

    def __init__(self, reference: Target) -> None:
        super().__init__(f"{reference.module} has no source")
        self.reference = reference


class _Step(NamedTuple):
    """A module on the way to an implementation, and what is looked for in it."""

    reference: Target
    file: Path
    place: Place


def _followed(
    reference: Target, passed: "list[_Step] | None" = None
) -> "tuple[Lookup, Entity] | None":
    """Follow a reference through the modules that hand it on, which are the `passed` ones."""
    seen = set()
    while reference not in seen:
        seen.add(reference)
        spec = spec_of(reference.module)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            raise _NoSource(reference)
        file = Path(spec.origin)
        kind: PlaceKind = "module" if spec.submodule_search_locations is None else "package"
        step = _Step(reference, file, Place(reference.module, file.name, kind))
        if passed is not None:
            passed.append(step)
        found = _defined(step)
        if not isinstance(found, Target):
            return found
        reference = found
    return None


def _defined(step: _Step) -> "tuple[Lookup, Entity] | Target | None":
    """Find a reference in one file; return where it must go on for what that file imports."""
    from .entities import Entity

    reference, file, place = step
    lookup = _read(file, place)
    found: Any = Entity("module", place, "")
    rest = list(filter(None, reference.qualname.split(".")))
    while rest:
        if not isinstance(found, Entity) or found.kind not in ("module", "class"):
            break
        found = lookup.member(found, rest.pop(0))
    if not isinstance(found, Entity):
        return None
    if found.kind in ("outside", "module") and found.home is None:
        return _elsewhere(found.qualname, rest)
    return (lookup, found) if found.home is not None and not rest else None


def _read(file: Path, place: Place) -> "Lookup":
    return _parsed(file, place, file.stat().st_mtime_ns)


@lru_cache(maxsize=32)  # many implementations are in one file
def _parsed(file: Path, place: Place, _changed: int) -> "Lookup":
    from .lookup import Lookup

    lookup = Lookup(FolderTree(file.parent))
    outline = lookup.outline(place)
    outline.parse()
    _raise_if_broken(outline.text)  # refuses more than the parser does
    return lookup


def _elsewhere(dotted: str, rest: "list[str]") -> Target:
    """Return what a dotted name means in which module."""
    if spec_of(dotted) is not None:
        return Target(dotted, ".".join(rest))
    module, _, name = dotted.rpartition(".")
    return Target(module, ".".join([name, *rest]))
