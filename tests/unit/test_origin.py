"""Whether a target is the module's own, or somebody has been there before the patches."""

import hashlib
import importlib
import sysconfig
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import Patch, origin, sources
from vllm_graft.apply import apply
from vllm_graft.landing import LANDINGS
from vllm_graft.origin import edited, stranger
from vllm_graft.target import Target, find

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]
Write = Callable[[str, str], Path]

SUBJECT = """
import abc, contextlib, functools
from . import decorators
from .decorators import exported, logged, Exported
from third_party import borrowed, decorate, Borrowed, unmarked

LIMIT = 1

def function(a): return a

@logged
def by_own(a): return a

@decorate
def by_third_party(a): return a

@unmarked
def by_third_party_unmarked(a): return a

@by_torch
def by_torch(a): return a

@contextlib.contextmanager
def context(): yield

@functools.lru_cache(maxsize=None)
def cached(a): return a

@logged
@functools.cache
@functools.wraps(function)
def several(a): return a

made = functools.partial(function, 1)
assigned = borrowed
anonymous = lambda a: a
exec("def executed(a): return a")

if LIMIT:
    def conditional(a): return a

class Base:
    def inherited(self): pass

class Holder(Base, Borrowed):
    LIMIT = 1
    def method(self): pass
    @property
    def size(self): pass
    @functools.cached_property
    def once(self): pass
    @staticmethod
    def static(): pass
    @classmethod
    def of_class(cls): pass
    @logged
    def decorated(self): pass
    @abc.abstractmethod
    def abstract(self): pass
    taken = borrowed
    class Inner:
        def deep(self): pass

@decorators.registered
class Registered: pass

@unmarked
class Wrapped: pass
"""
DECORATORS = """
import functools
def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs): return function(*args, **kwargs)
    return wrapper
def registered(cls): return cls
def exported(): pass
class Exported: pass
"""
THIRD_PARTY = """
import functools
def decorate(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs): return function(*args, **kwargs)
    return wrapper
def unmarked(given):
    def wrapper(*args, **kwargs): return given(*args, **kwargs)
    return wrapper
def borrowed(*args): pass
class Borrowed:
    def borrowed_method(self): pass
"""
OTHERS = """
import functools
from pack import subject

def instead(*args, **kwargs):
    pass

class Instead:
    pass

def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
"""

OWN = [
    *("function", "by_own", "by_third_party", "by_third_party_unmarked", "by_torch", "context"),
    *("cached", "several", "made", "assigned", "anonymous", "executed", "conditional", "LIMIT"),
    *("exported", "Exported", "borrowed", "Borrowed", "Base", "Holder", "Registered", "Wrapped"),
    *("Holder.LIMIT", "Holder.method", "Holder.size", "Holder.once", "Holder.static"),
    *("Holder.of_class", "Holder.decorated", "Holder.abstract", "Holder.taken"),
    *("Holder.Inner", "Holder.Inner.deep", "Holder.inherited", "Holder.borrowed_method"),
]


@pytest.fixture
def subject(write: Write) -> Iterator[ModuleType]:
    """Return a module of a package, as it was imported."""
    write("pack/__init__.py", "")
    write("pack/decorators.py", DECORATORS)
    write("third_party.py", THIRD_PARTY)
    folder = sysconfig.get_paths()["purelib"]
    code = (  # one decorator, two functions
        "import functools\ndef layer(function):\n    @functools.wraps(function)\n"
        "    def layer(*args): return function(*args)\n    return layer\n"
        "def by_torch(function): return layer(layer(function))\n"
    )
    write(
        "pack/subject.py",
        f"exec(compile({code!r}, {folder + '/torch/it.py'!r}, 'exec'))\n{SUBJECT}",
    )
    write("others.py", OTHERS)
    for cached in (sources.parsed, origin._record):
        cached.cache_clear()
    yield importlib.import_module("pack.subject")
    for cached in (sources.parsed, origin._record):
        cached.cache_clear()


@pytest.mark.parametrize("qualname", OWN)
def test_what_the_module_has_made_itself_is_its_own(subject: ModuleType, qualname: str) -> None:
    """Its decorators, those of Python, torch and others, re-exports, and names made at run time."""
    raw = find(subject, qualname)

    assert stranger(raw, Target("pack.subject", qualname), subject) is None


STRANGERS = [
    # what somebody does, the target, what the note says it is
    ("subject.function = instead", "function", "others:instead (", 5),
    ("subject.function = wrapping(subject.function)", "function", "pack.subject:function (", 12),
    ("subject.by_own = wrapping(subject.by_own)", "by_own", "pack.subject:by_own (", 12),
    ("subject.cached = instead", "cached", "others:instead (", 5),
    ("subject.context = wrapping(subject.context)", "context", "pack.subject:context (", 12),
    ("subject.conditional = instead", "conditional", "others:instead (", 5),
    ("subject.exported = instead", "exported", "others:instead (", 5),
    ("subject.Holder.method = instead", "Holder.method", "others:instead (", 5),
    ("subject.Holder.Inner.deep = instead", "Holder.Inner.deep", "others:instead (", 5),
    ("subject.Holder.static = staticmethod(instead)", "Holder.static", "others:instead (", 5),
    ("subject.Holder.size = property(instead)", "Holder.size", "others:instead (", 5),
    ("subject.by_third_party_unmarked = instead", "by_third_party_unmarked", None, None),
    ("subject.Holder = Instead", "Holder", "the class others:Instead", None),
    ("subject.Exported = Instead", "Exported", "the class others:Instead", None),
]


@pytest.mark.parametrize(("change", "qualname", "place", "line"), STRANGERS)
def test_what_somebody_else_has_put_there_is_named(
    subject: ModuleType, change: str, qualname: str, place: str | None, line: int | None
) -> None:
    """A patch of another package, with or without functools.wraps, with its file and line."""
    others = importlib.import_module("others")
    exec(change, vars(others))

    note = stranger(find(subject, qualname), Target("pack.subject", qualname), subject)

    if place is None:  # it might be a decorator's doing
        assert note is None
        return
    assert note is not None
    assert note.startswith(f"pack.subject:{qualname} was patched before, by others: it is {place}")
    assert line is None or note.endswith(f"{others.__file__}:{line})")


def test_a_landing_has_the_note(subject: ModuleType, declare: Declare) -> None:
    """What a patch found is told, once; what a patch of ours put there is no stranger."""
    exec("subject.function = instead", vars(importlib.import_module("others")))

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    landing = apply(declare("wrap", "pack.subject:function", around), subject)

    assert landing.notes == [stranger(landing.before, Target("pack.subject", "function"), subject)]
    LANDINGS.add(landing)
    second = apply(declare("wrap", "pack.subject:function", around, id="second"), subject)
    LANDINGS.revert(landing)
    assert second.notes == []


def digest(file: Path) -> str:
    """Return a file's digest as RECORD has it."""
    found = hashlib.sha256(file.read_bytes()).digest()
    return "sha256=" + urlsafe_b64encode(found).rstrip(b"=").decode()


@pytest.fixture
def vllm(write: Write, make: Make, install: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """Return modules of an installed vllm, whose RECORD has the digests of some of them."""
    lines = []
    for path in ("vllm/__init__.py", "vllm/config/__init__.py", "vllm/envs.py"):
        file = write(path, "LIMIT = 1\n")
        lines.append(f"{path},{digest(file)},10")
    write("vllm/unrecorded.py", "LIMIT = 1\n")
    install("vllm", "0.32.0", record=())
    write("vllm-0.32.0.dist-info/RECORD", "\n".join(lines) + "\n")
    origin._record.cache_clear()
    names = ("vllm", "vllm.config", "vllm.envs", "vllm.unrecorded")
    yield {name: importlib.import_module(name) for name in names}
    origin._record.cache_clear()


@pytest.mark.parametrize("name", ["vllm", "vllm.config", "vllm.envs"])
def test_a_file_that_was_edited_is_told(vllm: dict[str, ModuleType], name: str) -> None:
    """Its content is not what the distribution's RECORD says (PEP 376)."""
    module = vllm[name]
    assert edited(module) is None

    Path(str(module.__file__)).write_text("LIMIT = 2\n", encoding="utf-8")

    assert edited(module) == f"{module.__file__} has been edited since it was installed"


def test_a_file_without_a_record_is_not_judged(vllm: dict[str, ModuleType], make: Make) -> None:
    """Editable installs, modules of others and modules without a file have no digest."""
    unrecorded = vllm["vllm.unrecorded"]
    Path(str(unrecorded.__file__)).write_text("LIMIT = 2\n", encoding="utf-8")

    assert edited(unrecorded) is None
    assert edited(make("", "elsewhere")) is None
    assert edited(ModuleType("vllm.envs")) is None


def test_a_file_that_is_gone_is_not_judged(vllm: dict[str, ModuleType]) -> None:
    """Where nothing can be read there is nothing to compare."""
    Path(str(vllm["vllm.envs"].__file__)).unlink()

    assert edited(vllm["vllm.envs"]) is None
