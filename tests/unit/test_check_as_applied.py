"""A verdict is what applying comes to, for classes and implementations that are not like most."""

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import Patch
from vllm_graft.apply import apply
from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.tree import FolderTree
from vllm_graft.check.verdicts import Verdict, judge
from vllm_graft.errors import ApplyError

Declare = Callable[..., Patch]
Write = Callable[[str, str], Path]

SUBJECT = """
    import enum
    import functools
    from json import loads
    from collections import OrderedDict
    from dataclasses import dataclass
    from datetime import timedelta
    from enum import IntEnum
    from typing import NamedTuple, TypedDict

    class Colour(enum.Enum):
        RED = 1
        GREEN, BLUE = 2, 3
        _order_ = "RED GREEN BLUE"
        bright = property(lambda self: True)
        def shade(self, x): pass

    class Bare(enum.Enum):
        def shade(self, x): pass

    class Level(str, Bare):
        LOW = "low"

    class Count(IntEnum):
        ONE: int = 1

    class Typed(TypedDict):
        x: int

    class Named(NamedTuple):
        x: int = 1

    @dataclass
    class Config:
        size: int = 1

    class Plain:
        RED = 1
        def method(self, x): pass
        async def later(self, x): pass
        @property
        def prop(self): pass
        @staticmethod
        def static(x): pass

    class Parts:
        @property
        def size(self): return 1
        @size.setter
        def size(self, value): pass
        made = property(lambda self: 1)
        @functools.cached_property
        def once(self): pass
        @functools.lru_cache
        def kept(self): pass
        @functools.singledispatchmethod
        def by_type(self, x): pass

    class Slots:
        __slots__ = ("a", "b")

    class One(Slots):
        __slots__ = "c"

    @functools.cache
    def cached(x): pass
    def f(x): pass
    colour = Colour.RED
    """


class Given:
    def __init__(self, size: int) -> None: ...


@functools.lru_cache
def cached(y: Any) -> Any: ...
def one(x: Any) -> Any: ...
def call(original: Any, *args: Any, **kwargs: Any) -> Any: ...
async def coroutine(*args: Any) -> Any: ...


PARTIAL = functools.partial(one, 1)


def derived(original: type) -> type:
    """Return a subclass."""

    class Derived(original): ...  # type: ignore[misc]  # mypy wants it known

    return Derived


LAZY = """
    import functools
    class Given:
        def __init__(self, size): pass
    @functools.lru_cache
    def cached(y): pass
    """


@pytest.fixture
def both(write: Write, declare: Declare) -> Callable[..., tuple[Verdict, bool]]:
    """Return a function that judges a patch, and tells whether it can be applied."""
    write("vllm/__init__.py", "")
    write("vllm/_version.py", "__version__ = '0.32.0'\n")
    write("acme_lazy.py", LAZY)
    file = write("vllm/a.py", SUBJECT)
    root = file.parent.parent

    def both(operation: str, target: str, given: Any) -> tuple[Verdict, bool]:
        patch = declare(operation, f"vllm.a:{target}", given)
        verdict = judge(patch, CachedResolver(FolderTree(root), root / "cache"))
        try:
            apply(patch, importlib.import_module("vllm.a")).revert()
        except ApplyError:
            return verdict, False
        return verdict, True

    return both


@pytest.mark.parametrize(
    ("operation", "target", "given", "fits"),
    [
        # What is no plain function is called by one that takes everything.
        ("replace", "Plain.method", Given, True),
        ("replace", "Plain.method", cached, True),
        ("replace", "Plain.method", PARTIAL, True),
        ("replace", "Plain.method", "acme_lazy:Given", True),
        ("replace", "Plain.method", "acme_lazy:cached", True),
        ("replace", "Plain.method", one, False),
        ("replace", "Plain.prop", Given, True),
        ("replace", "Plain.static", Given, True),
        ("replace", "f", Given, True),
        ("replace", "Plain.later", Given, False),
        ("replace", "Plain.later", "acme_lazy:Given", False),
        ("wrap", "Plain.method", Given, False),
        ("wrap", "Plain.method", cached, False),
        ("wrap", "Plain.method", "acme_lazy:Given", False),
        ("replace", "Plain", Given, False),
        ("replace", "Plain", "acme_lazy:Given", False),
        # An Enum lets none of its members be set, and with members it has no subclasses.
        ("set", "Colour.RED", 5, False),
        ("set", "Colour.BLUE", 5, False),
        ("set", "Count.ONE", 5, False),
        ("set", "Level.LOW", 5, False),
        ("set", "Colour.bright", 5, True),
        ("set", "Colour.shade", 5, True),
        ("set", "Plain.RED", 5, True),
        ("set", "colour", 5, True),
        ("add", "Colour.PINK", 5, True),
        ("wrap", "Colour.shade", call, True),
        ("subclass", "Colour", derived, False),
        ("subclass", "Level", derived, False),
        ("subclass", "Bare", derived, True),
        ("subclass", "Typed", derived, False),
        ("subclass", "Named", derived, True),
        ("subclass", "timedelta", derived, False),
        ("subclass", "OrderedDict", derived, False),
        ("subclass", "Plain", derived, True),
        # The parts of a property are fixed, the methods of a cache are those of its class.
        *[
            (operation, f"Parts.{name}", given, False)
            for operation, given in (("wrap", call), ("replace", call), ("set", 5), ("add", 5))
            for name in ("size.setter", "size.getter", "size.fset", "size.fget", "made.fget")
        ],
        ("wrap", "cached.cache_clear", call, False),
        ("replace", "cached.cache_info", call, False),
        ("wrap", "Parts.kept.cache_clear", call, False),
        ("set", "cached.cache_clear", call, True),
        ("add", "cached.cache_clear", call, False),
        ("wrap", "Parts.size", call, True),
        ("wrap", "Parts.kept", call, True),
        ("wrap", "Parts.by_type", call, False),
        ("replace", "Parts.by_type", call, False),
        ("set", "Parts.by_type", call, True),
        ("set", "Slots.a", 5, True),
        ("set", "One.b", 5, True),
        ("set", "One.c", 5, True),
        ("set", "One.d", 5, False),
        ("wrap", "One.c", call, False),
        ("add", "Slots.b", 5, False),
        # What a dataclass makes is called as it is, and gives what a plain function does.
        ("replace", "Config.__init__", coroutine, False),
        ("wrap", "Config.__init__", coroutine, False),
        ("replace", "Config.__eq__", coroutine, False),
        ("replace", "Config.__eq__", lambda self, other: True, True),
        ("replace", "Config.__eq__", lambda self: True, False),
        ("replace", "Config.__repr__", lambda self, other: "", False),
        ("replace", "Config.__repr__", lambda self: "", True),
    ],
)
def test_check_agrees_with_the_run_time(
    both: Callable[..., tuple[Verdict, bool]], operation: str, target: str, given: Any, fits: bool
) -> None:
    verdict, applied = both(operation, target, given)
    assert (verdict.fit == "ok", applied) == (fits, fits)
    assert bool(verdict.reason) != fits


@pytest.mark.parametrize(
    ("operation", "target", "given", "reason"),
    [
        ("wrap", "Parts.size.setter", call, "A `wrap` of 'vllm.a:Parts.size' is around its getter"),
        ("set", "Parts.made.fset", call, "A `wrap` of 'vllm.a:Parts.made' is around its getter"),
        ("wrap", "cached.cache_clear", call, "cached.cache_clear is a method of functools' cache"),
    ],
)
def test_a_part_is_refused_with_what_to_do(
    both: Callable[..., tuple[Verdict, bool]], operation: str, target: str, given: Any, reason: str
) -> None:
    verdict, _ = both(operation, target, given)
    assert verdict.fit == "kind"
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("operation", "target", "given", "note"),
    [
        ("replace", "Plain.method", Given, "how Given is called is only known when it is"),
        ("replace", "Plain.method", "acme_lazy:Given", "how acme_lazy:Given is called is only"),
        ("replace", "loads", one, "what json:loads is cannot be told from here"),
    ],
)
def test_what_cannot_be_judged_is_noted(
    both: Callable[..., tuple[Verdict, bool]], operation: str, target: str, given: Any, note: str
) -> None:
    verdict, _ = both(operation, target, given)
    assert verdict.fit == "ok"
    assert note in " ".join(verdict.notes)


@pytest.mark.parametrize(
    ("operation", "target", "given", "reason"),
    [
        ("set", "Colour.RED", 5, "vllm.a:Colour.RED is a member of an Enum, which lets none be"),
        (
            "subclass",
            "Colour",
            derived,
            "it is an Enum with members, of which no class can inherit",
        ),
        ("subclass", "timedelta", derived, "it is a class of compiled code, which lets no attrib"),
    ],
)
def test_a_refusal_says_what_is_peculiar(
    both: Callable[..., tuple[Verdict, bool]], operation: str, target: str, given: Any, reason: str
) -> None:
    verdict, _ = both(operation, target, given)
    assert verdict.fit == "kind"
    assert verdict.reason.startswith(reason)


def test_a_struct_of_msgspec_has_no_subclass_that_its_decoders_make(
    write: Write, declare: Declare
) -> None:
    """Judged from the source alone: msgspec need not be there."""
    root = write("vllm/__init__.py", "").parent.parent
    write("vllm/a.py", "import msgspec\nclass Made(msgspec.Struct): pass\nclass More(Made): pass\n")
    verdict = judge(
        declare("subclass", "vllm.a:More", derived),
        CachedResolver(FolderTree(root), root / "cache"),
    )
    assert (verdict.fit, "msgspec.Struct" in verdict.reason) == ("kind", True)
