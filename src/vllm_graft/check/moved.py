"""Where a target that a tree does not have may have gone: the same name, and a similar body."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from ..errors import SourceError
from ..target import Target
from .fingerprint import similarity
from .resolution import Move, Resolution
from .resolve import Resolver

SIMILAR = 0.5
"""From here on two definitions of one name are taken for one that has moved."""

SIMILAR_AND_ALONE = 0.3
"""The same where it is the only definition of this qualified name."""

_EVERYWHERE = frozenset({"forward", "load_weights", "build", "apply", "schedule", "step", "run"})
"""Names of methods that say nothing without their class."""


def moves(resolver: Resolver, target: Target, example: ast.AST | None = None) -> list[Move]:
    """Return where a missing target may be now, the likeliest first.

    `example` is its definition in another release. Without one a definition counts if it is the
    only one of this qualified name.
    """
    found = list(_same_qualname(resolver, target, example))
    found = [replace(each, is_likely=_is_likely(each, alone=len(found) == 1)) for each in found]
    if len(found) == 1 and target.parent:  # the only class with that method, whatever it does now
        found = [replace(found[0], is_likely=True)]
    if example is not None and not any(each.is_likely for each in found):
        found += _same_name(resolver, target, example)
    return sorted(found, key=lambda each: _rank(each, target), reverse=True)


def _is_likely(move: Move, *, alone: bool) -> bool:
    if move.similarity is None:
        return alone
    return move.similarity >= (SIMILAR_AND_ALONE if alone else SIMILAR)


def _rank(move: Move, target: Target) -> tuple[float, int]:
    common = zip(move.target.module.split("."), target.module.split("."), strict=False)
    return move.similarity or 0.0, sum(ours == theirs for ours, theirs in common)


def _same_qualname(resolver: Resolver, target: Target, example: ast.AST | None) -> Iterator[Move]:
    for module in resolver.naming(target.qualname.partition(".")[0]):
        yield from _compared(resolver, Target(module, target.qualname), example)


def _same_name(resolver: Resolver, target: Target, example: ast.AST) -> Iterator[Move]:
    """Yield definitions of the name in other classes, or out of classes, that are similar."""
    name = target.name
    if name in _EVERYWHERE or name.startswith("__"):
        return
    for module in resolver.naming(name):
        for qualname in resolver.qualnames(module, name):
            if qualname != target.qualname:
                for move in _compared(resolver, Target(module, qualname), example):
                    if _is_likely(move, alone=False):
                        yield replace(move, is_likely=True)


def _compared(resolver: Resolver, target: Target, example: ast.AST | None) -> Iterator[Move]:
    try:
        found = resolver.guess(target)
    except SourceError:  # of a module that nobody asked for
        return
    if found.state == "found" and found.where == target and found.path:
        yield Move(target, found.path, found.line, _alike(found, example))


def _alike(found: Resolution, example: ast.AST | None) -> float | None:
    if example is None or found.node is None:
        return None
    if isinstance(example, ast.ClassDef) != isinstance(found.node, ast.ClassDef):
        return 0.0
    return similarity(example, found.node)
