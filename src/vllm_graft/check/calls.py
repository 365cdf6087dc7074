"""Whether an implementation is called as its target is, answered once for what is alike."""

from functools import lru_cache
from inspect import Parameter, Signature
from typing import TypeAlias

from ..signatures import first_by_place, obstacle, with_original
from .stored import KINDS, Parameters

_Shape: TypeAlias = tuple[tuple[str, int, bool], ...]
"""Parameters by name and kind, and whether they may be left out: what calls depend on."""


def refused_call(
    theirs: Parameters, ours: Signature, *, wraps: bool, is_method: bool
) -> str | None:
    """Say which call of a target fails with an implementation; None where none does.

    What targets are changes little from one release to the next, so most are asked again.
    """
    called = tuple((name, kind, default is not None) for name, kind, default, _ in theirs[:-1])
    return _refused(called, _shape(ours), wraps, is_method)


@lru_cache(maxsize=4096)
def _refused(theirs: _Shape, ours: _Shape, wraps: bool, is_method: bool) -> str | None:
    called = first_by_place(_signature(theirs)) if is_method else _signature(theirs)
    return obstacle(with_original(called) if wraps else called, _signature(ours))


def _shape(signature: Signature) -> _Shape:
    return tuple(
        (each.name, int(each.kind), each.default is not Parameter.empty)
        for each in signature.parameters.values()
    )


def _signature(shape: _Shape) -> Signature:
    return Signature(
        [
            Parameter(name, KINDS[kind], default=None if is_optional else Parameter.empty)
            for name, kind, is_optional in shape
        ]
    )
