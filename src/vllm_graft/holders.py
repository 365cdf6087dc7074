"""Who holds an object that a patch has replaced, apart from names in modules."""

import functools
import gc
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .landing import LANDINGS, Binding, Landing, own
from .snapshot import Contents, Names


@dataclass(frozen=True, slots=True)
class Replaced:
    """An object that a patch has replaced, and what those who have it are to have instead."""

    original: Any
    value: Any
    landing: Landing


def references(namespace: Any, name: str) -> int | None:
    """Return how many references to a function there are besides its own name.

    The caller's variable with what the name is bound to does not count. None where counting does
    not tell: classes refer to themselves, and builds of Python without the GIL count late.
    """
    if name not in own(namespace):  # inherited, and so not replaced
        return 0
    kind = type(own(namespace)[name])
    if not _COUNTED or issubclass(kind, type):
        return None
    static = issubclass(kind, staticmethod)
    # Of a static method the caller has the wrapper, which alone refers to the function.
    return _count(namespace, name) - _ALONE[static] - (0 if static else 1)


def _count(namespace: Any, name: str) -> int:
    value = own(namespace).get(name)
    if isinstance(value, staticmethod):
        value = value.__func__
    return sys.getrefcount(value)


class _Alone:
    """A function and a static method that nobody else holds, to count references by."""

    def function(self) -> None:
        """Do nothing."""

    @staticmethod
    def static() -> None:
        """Do nothing."""


_COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()
_ALONE = {False: _count(_Alone, "function"), True: _count(_Alone, "static")}


def held(replaced: Sequence[Replaced]) -> dict[str, tuple[str, ...]]:
    """Count for replaced objects, by patch id, who holds them: containers, closures, and so on.

    Asks Python's garbage collector once, which goes through all its objects.
    """
    if not replaced:
        return {}
    counts: dict[int, Counter[str]] = {id(each.original): Counter() for each in replaced}
    for each in replaced:
        if isinstance(each.original, type):
            heirs: list[type] = each.original.__subclasses__()
            counts[id(each.original)]["subclass"] = sum(heir is not each.value for heir in heirs)
    # A tuple, which the call below passes on as it is; from 3.13 on it is found as a holder.
    originals = tuple(each.original for each in replaced)
    ignored = {id(originals), *_known(replaced)}
    for holder in gc.get_referrers(*originals):
        if id(holder) in ignored or isinstance(holder, _NOBODY):
            continue
        for referent in gc.get_referents(holder):
            if id(referent) in counts:
                counts[id(referent)][_kind(holder, referent)] += 1
    return {
        each.landing.patch.id: found
        for each in replaced
        if (found := tuple(_in_words(counts[id(each.original)])))
    }


_NOBODY = (
    type,  # counted as subclasses
    types.FrameType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    Binding,
    Landing,
    Replaced,
    Names,
    Contents,
)


def _known(replaced: Sequence[Replaced]) -> Iterator[int]:
    """Yield the ids of modules' names, and of what belongs to the replaced objects and patches."""
    yield from (id(own(module)) for module in tuple(sys.modules.values()))
    for landing in (*LANDINGS, *(each.landing for each in replaced)):
        for value in (landing.before, landing.value, landing.former):
            yield from map(id, _parts(value))


def _kind(holder: Any, original: Any) -> str:
    if isinstance(original, type) and type(holder) is original:
        return "instance"
    return next((kind for cls, kind in _KINDS.items() if isinstance(holder, cls)), "container")


_KINDS: dict[type, str] = {
    types.CellType: "closure",
    types.MethodType: "bound method",
    functools.partial: "partial",
    tuple: "tuple",
}


def _in_words(kinds: Counter[str]) -> Iterator[str]:
    for kind, number in sorted(kinds.items()):
        if number:
            plural = "es" if kind.endswith("s") else "s"
            yield f"{number} {kind}{plural if number > 1 else ''}"


def _parts(value: Any) -> Iterator[Any]:
    """Yield what belongs to an object itself and refers to it or to what it stands for."""
    if not isinstance(value, type):
        yield from _cells(value)
        return
    for each in (value, *_heirs(value)):
        yield from (each.__mro__, each.__bases__)
    for member in tuple(vars(value).values()):
        yield from _cells(member)


def _heirs(cls: type) -> Iterator[type]:
    heirs: list[type] = type.__subclasses__(cls)
    for heir in heirs:
        yield heir
        yield from _heirs(heir)


def _cells(value: Any) -> Iterable[Any]:
    if isinstance(value, (staticmethod, classmethod)):
        yield value
        value = value.__func__
    if isinstance(value, functools._lru_cache_wrapper):
        yield from (value, value.__dict__)
        value = value.__wrapped__
    if isinstance(value, types.FunctionType):
        yield from (vars(value), *(value.__closure__ or ()))
