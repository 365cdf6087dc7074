"""Where a target that a tree does not have may have gone: the same name, and a similar body."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..errors import SourceError
from ..target import Target
from .example import AnyExample, LockedExample
from .fingerprint import similarity
from .resolution import Move, Resolution
from .resolve import Resolver

SIMILAR = 0.5
"""From here on two definitions of one name are taken for one that has moved."""

SIMILAR_AND_ALONE = 0.3
"""The same where it is the only definition of this qualified name."""

_ALIKE = 0.6
"""From here on two names of modules are alike, as `difflib` counts."""

_EVERYWHERE = frozenset({"forward", "load_weights", "build", "apply", "schedule", "step", "run"})
"""Names of methods that say nothing without their class."""


def moves(resolver: Resolver, target: Target, example: AnyExample | None = None) -> list[Move]:
    """Return where a missing target may be now, the likeliest first.

    `example` is its definition in another release, or what a lock says of that. Without one a
    definition counts if it is the only one of this qualified name, and where that is no member of
    a class also only if its module is called much the same. A module is looked for nowhere else.
    """
    if not target.qualname:
        return []
    home = list(_at_home(resolver, target, example))
    found = list(_same_qualname(resolver, target, example))
    alone = len(found) == 1 and (example is not None or _is_like(found[0].target, target))
    found = [replace(each, is_likely=_is_likely(each, alone=alone)) for each in found]
    if len(found) == 1 and target.parent:  # the only class with that method, whatever it does now
        found = [replace(found[0], is_likely=True)]
    if home:
        found = [*home, *(each for each in found if each.target != home[0].target)]
    if example is not None and not any(each.is_likely for each in found):
        found += _same_name(resolver, target, example)
    return sorted(
        found, key=lambda each: (*_rank(each, target), each not in home, str(each.target))
    )


def _is_likely(move: Move, *, alone: bool) -> bool:
    if move.similarity is None:
        return alone
    return move.similarity >= (SIMILAR_AND_ALONE if alone else SIMILAR)


def _is_like(place: Target, target: Target) -> bool:
    """Tell whether a name is likely the same: one of a class, or of a module called alike."""
    from difflib import SequenceMatcher  # few checks come to this

    if target.parent or f"{place.module}.".startswith(f"{target.module}."):
        return True
    return SequenceMatcher(None, place.module, target.module).ratio() >= _ALIKE


def _rank(move: Move, target: Target) -> tuple[bool, float, int]:
    """Return what is the smaller the likelier a move is."""
    common = zip(move.target.module.split("."), target.module.split("."), strict=False)
    alike = sum(ours == theirs for ours, theirs in common)
    return not move.is_likely, -(move.similarity or 0.0), -alike


def _at_home(resolver: Resolver, target: Target, example: AnyExample | None) -> Iterator[Move]:
    """Yield the definition itself, of which the target was another name that is gone.

    Not for members of classes: what was inherited does not stand in for what inherited it.
    """
    if example is None or example.where in (None, target) or target.parent:
        return
    assert example.where is not None
    for move in _compared(resolver, example.where, example):
        yield replace(move, is_likely=_is_likely(move, alone=True))


def _same_qualname(
    resolver: Resolver, target: Target, example: AnyExample | None
) -> Iterator[Move]:
    for module in resolver.naming(target.qualname.partition(".")[0]):
        yield from _compared(resolver, Target(module, target.qualname), example)


def _same_name(resolver: Resolver, target: Target, example: AnyExample) -> Iterator[Move]:
    """Yield definitions of the name in other classes, or out of classes, that are similar."""
    name = target.name
    if name in _EVERYWHERE or name.startswith("__"):
        return
    places = [
        Target(module, qualname)
        for module in resolver.naming(name)
        for qualname in resolver.qualnames(module, name)
        if qualname != target.qualname
    ]
    if isinstance(example, LockedExample):
        yield from _same_as_locked(resolver, places, example)
        return
    for place in places:
        for move in _compared(resolver, place, example):
            if _is_likely(move, alone=False):
                yield replace(move, is_likely=True)


def _same_as_locked(
    resolver: Resolver, places: Iterable[Target], example: LockedExample
) -> Iterator[Move]:
    """Yield the only place that has the locked body under the locked signature."""
    found = [
        move
        for place in places
        for move in _compared(resolver, place, example)
        if move.similarity == 1.0
        and str(resolver.guess(place).signature) == str(example.locked.signature)
    ]
    if len(found) == 1:
        yield replace(found[0], is_likely=True)


def _compared(resolver: Resolver, target: Target, example: AnyExample | None) -> Iterator[Move]:
    try:
        found = resolver.guess(target)
    except SourceError:  # of a module that nobody asked for
        return
    if found.state == "found" and found.where == target and found.path:
        yield Move(target, found.path, found.line, _alike(found, example))


def _alike(found: Resolution, example: AnyExample | None) -> float | None:
    if example is None or found.node is None:
        return None
    if found.fingerprint == example.body:
        return 1.0
    if isinstance(example, LockedExample):
        return None
    if isinstance(example.node, ast.ClassDef) != isinstance(found.node, ast.ClassDef):
        return 0.0
    return similarity(example.node, found.node)
