"""Names that other modules took from a target before it was patched, and who else holds it."""

import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import Environment, PatchSet, aliases, hooks, module_hook
from vllm_graft.caches import switch_off
from vllm_graft.catalog import Catalog
from vllm_graft.groups import GROUPS, VARIABLE
from vllm_graft.journal import Journal
from vllm_graft.landing import LANDINGS
from vllm_graft.plan import make_plan
from vllm_graft.process import PROCESS
from vllm_graft.settings import Settings
from vllm_graft.trace import Line
from vllm_graft.undo import take_back
from vllm_graft.version import VllmVersion

Write = Callable[[str, str], Path]

REASONS: Any = {"vllm": ">=0.27,<0.33", "why": "w", "how": "h", "upstream": "u", "remove": "r"}

HOME = """
    import functools

    LIMIT = 70_000

    def resolve(a):
        return a

    @functools.lru_cache
    def cached(a):
        return a

    class Made:
        def method(self, a):
            return a

        @staticmethod
        def static(a):
            return a

    class Heir(Made):
        pass
    """


class Armed:
    """One set of patches, armed in the running interpreter, and what the journal has of it."""

    def __init__(self) -> None:
        self.patches = PatchSet("acme")
        self.journal = Journal()
        self.lines: list[Line] = []
        self.hooks: list[module_hook.ModuleHook] = []

    def write(self, line: Line) -> None:
        self.lines.append(line)

    def wrap(self, target: str, text: str = "p", **options: Any) -> None:
        """Declare a patch under which a call of the target gives a pair with a text."""

        def around(original: Any, *args: Any, **kwargs: Any) -> Any:
            return (text, original(*args, **kwargs))

        self.patches.wrap(target, around, id=text, **REASONS, **options)

    def arm(self) -> "Armed":
        plan = make_plan(
            Catalog((self.patches,), {}),
            Environment(VllmVersion("0.32.0", "a test")),
            Settings(),
        )
        assert not plan.problems
        self.journal.trace_to(self)
        self.journal.begin(plan)
        self.hooks = hooks.arm(plan, Settings(), self.journal)
        return self

    def events(self, *kinds: str) -> list[str]:
        return [
            f"{line['event']} {line['patch']} {line.get('detail', '')}".strip()
            for line in self.lines
            if line["event"] in kinds
        ]

    @property
    def notes(self) -> list[str]:
        return [note for each in self.journal.status().patches for note in each.notes]


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Armed]:
    """A set whose patches are taken back when the test ends."""
    environ: dict[str, str] = {}
    switch_off(environ)  # or else the journal warns that the built-in patches are left out
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    armed = Armed()
    monkeypatch.delenv(VARIABLE, raising=False)
    with PROCESS.holding(()), GROUPS.set_aside():
        yield armed
    hooks.disarm(armed.hooks)
    take_back(list(LANDINGS))


@pytest.fixture
def home(write: Write) -> None:
    """The module that the patches are for."""
    write("home.py", HOME)


@pytest.fixture
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Refuse to ask the garbage collector; give the modules that were looked through."""
    looked: set[str] = set()
    rebind_in = aliases._Found.rebind_in

    def spy(found: Any, modules: Any) -> None:
        names = tuple(modules)
        looked.update(names)
        rebind_in(found, names)

    def refuse(*_objects: Any) -> Any:
        raise AssertionError("asked the garbage collector")

    monkeypatch.setattr(aliases._Found, "rebind_in", spy)
    monkeypatch.setattr(gc, "get_referrers", refuse)
    return looked


def load(write: Write, **sources: str) -> list[Any]:
    """Write modules and import them."""
    for name, source in sources.items():
        write(f"{name}.py", source)
    return [importlib.import_module(name) for name in sources]


@pytest.mark.parametrize(
    ("target", "statement"),
    [
        pytest.param("home:resolve", "from home import resolve as name", id="function"),
        pytest.param("home:cached", "from home import cached as name", id="cached-function"),
        pytest.param("home:resolve", "import home\nname = home.resolve", id="assigned"),
        pytest.param("home:resolve", "from home import *\nname = resolve", id="star"),
        pytest.param("home:Made.static", "import home\nname = home.Made.static", id="static"),
        pytest.param("home:Made.method", "import home\nname = home.Made.method", id="method"),
        pytest.param("cmath:isnan", "from cmath import isnan as name", id="built-in"),
        pytest.param("colorsys:hls_to_rgb", "from colorsys import hls_to_rgb as name", id="stdlib"),
    ],
)
def test_names_follow(armed: Armed, home: None, write: Write, target: str, statement: str) -> None:
    """A name that a module took from a target before the patch is bound to what landed there."""
    (user,) = load(write, user=statement)
    before = user.name
    armed.wrap(target)
    armed.arm()
    now: Any = importlib.import_module(target.partition(":")[0])
    for part in target.partition(":")[2].split("."):
        now = getattr(now, part)
    assert user.name is now is not before
    assert "rebind acme/p user:name" in armed.events("rebind")
    assert "rebound user:name" in armed.notes


@pytest.mark.parametrize("operation", ["replace", "subclass", "set"])
def test_classes_follow(armed: Armed, home: None, write: Write, operation: str) -> None:
    """A name for a class is bound to the class that took its place, whatever the operation."""
    (user,) = load(write, user="from home import Made as Taken")
    original = user.Taken
    other = type("Other", (), {"method": original.method})
    given = (lambda cls: type("Sub", (cls,), {})) if operation == "subclass" else other
    getattr(armed.patches, operation)("home:Made", given, id="p", **REASONS)
    armed.arm()
    assert user.Taken is sys.modules["home"].Made is not original
    assert armed.events("rebind")[0] == "rebind acme/p user:Taken"


def test_each_name_is_told(armed: Armed, home: None, write: Write) -> None:
    """Every rebound name has a trace line and a note of its own, in whatever module it is."""
    load(
        write,
        first="from home import resolve\nfrom home import resolve as again",
        second="from home import resolve",
    )
    armed.wrap("home:resolve")
    armed.arm()
    names = ["first:resolve", "first:again", "second:resolve"]
    assert armed.events("rebind") == [f"rebind acme/p {name}" for name in names]
    assert armed.notes == [f"rebound {name}" for name in names]


def test_other_bindings_stay(armed: Armed, home: None, write: Write) -> None:
    """A name that a module has bound to something else is left alone."""
    (user,) = load(write, user="from home import resolve\nresolve = lambda a: 'theirs'")
    armed.wrap("home:resolve")
    armed.arm()
    assert user.resolve(1) == "theirs"
    assert armed.events("rebind") == []


@pytest.mark.parametrize("value", ["LIMIT", "functools"])
def test_constants_and_modules_stay(armed: Armed, home: None, write: Write, value: str) -> None:
    """Constants and modules are shared by chance or by everybody: no other name follows a `set`."""
    (user,) = load(write, user=f"from home import {value} as taken")
    before = user.taken
    armed.patches.set(f"home:{value}", 3, id="p", **REASONS)
    armed.arm()
    assert getattr(sys.modules["home"], value) == 3
    assert user.taken is before
    assert armed.events("rebind") == []


def test_what_a_set_put_from_elsewhere_stays(armed: Armed, home: None, write: Write) -> None:
    """A `set` of a name that the module only imported is for that module alone."""
    reuse, user = load(write, reuse="from home import resolve", user="from reuse import resolve")
    armed.patches.set("reuse:resolve", len, id="p", **REASONS)
    armed.arm()
    assert (reuse.resolve, user.resolve) == (len, sys.modules["home"].resolve)


def test_re_export(armed: Armed, home: None, write: Write) -> None:
    """A patch on a re-export is for those who import from there; the home keeps its own."""
    load(write, reuse="from home import resolve")
    from_reuse, from_home = load(
        write, from_reuse="from reuse import resolve", from_home="from home import resolve"
    )
    armed.wrap("reuse:resolve")
    armed.arm()
    assert from_reuse.resolve(1) == sys.modules["reuse"].resolve(1) == ("p", 1)
    assert from_home.resolve(1) == sys.modules["home"].resolve(1) == 1
    assert armed.events("rebind") == ["rebind acme/p from_reuse:resolve"]


def test_re_export_from_a_package(armed: Armed, write: Write) -> None:
    """A relative import from a package counts as an import from that package."""
    write("pack/home.py", "def resolve(a):\n    return a\n")
    write("pack/__init__.py", "from .home import resolve\n")
    write("pack/near.py", "from . import resolve\n")
    write("pack/sub/__init__.py", "")
    write("pack/sub/far.py", "from .. import resolve as taken\n")
    near, far = map(importlib.import_module, ("pack.near", "pack.sub.far"))
    armed.wrap("pack:resolve")
    armed.arm()
    assert (near.resolve(1), far.taken(1)) == (("p", 1), ("p", 1))
    assert sys.modules["pack.home"].resolve(1) == 1


@pytest.mark.parametrize("targets", [["home", "reuse"], ["reuse", "home"]])
def test_home_and_re_export(armed: Armed, home: None, write: Write, targets: list[str]) -> None:
    """With a patch on each, a name follows the place that it was imported from."""
    load(write, reuse="from home import resolve")
    from_reuse, from_home = load(
        write, from_reuse="from reuse import resolve", from_home="from home import resolve"
    )
    for target in targets:
        armed.wrap(f"{target}:resolve", target)
    armed.arm()
    assert from_home.resolve is sys.modules["home"].resolve
    assert from_reuse.resolve is sys.modules["reuse"].resolve


def test_inherited_method(armed: Armed, home: None, write: Write) -> None:
    """A patch on a method that a class inherits leaves names for the base's method alone."""
    (user,) = load(write, user="import home\ntaken = home.Made.method")
    armed.wrap("home:Heir.method")
    armed.wrap("home:Made.static", "beside")  # somebody has that one, so names are looked for
    user.static = sys.modules["home"].Made.static
    armed.arm()
    assert user.taken is sys.modules["home"].Made.method
    assert sys.modules["home"].Heir().method(1) == ("p", 1)
    assert armed.events("rebind") == ["rebind acme/beside user:static"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("kept = {'f': home.resolve}", "1 container", id="dict"),
        pytest.param("kept = [[home.resolve], (home.resolve,)]", "1 container, 1 tuple", id="list"),
        pytest.param("class Kept:\n    f = staticmethod(home.resolve)", "1 container", id="class"),
        pytest.param("kept = (lambda f: lambda: f)(home.resolve)", "1 closure", id="closure"),
        pytest.param("kept = functools.partial(home.resolve, 1)", "1 partial", id="partial"),
        pytest.param("kept = types.MethodType(home.resolve, 1)", "1 bound method", id="bound"),
        pytest.param(
            "kept = [home.resolve, functools.partial(home.resolve, 1)]",
            "1 container, 1 partial",
            id="two-kinds",
        ),
    ],
)
def test_other_holders_are_counted(
    armed: Armed,
    home: None,
    write: Write,
    caplog: pytest.LogCaptureFixture,
    source: str,
    found: str,
) -> None:
    """What else holds the original function is counted, reported and not touched."""
    (user,) = load(write, user=f"import functools, home, types\n{source}")
    original = importlib.import_module("home").resolve
    armed.wrap("home:resolve")
    armed.arm()
    text = f"not touched, with the original: {found}"
    assert armed.notes == [text]
    assert armed.events("rebind") == [f"rebind acme/p {text}"]
    assert [record.getMessage() for record in caplog.records] == [
        f"vllm-graft: patch 'acme/p': {text}"
    ]
    kept = getattr(user, "kept", None) or user.Kept.__dict__["f"]
    assert original in gc.get_referents(kept) or isinstance(kept, (list, type(lambda: 0)))


def test_holders_of_a_class_are_counted(armed: Armed, home: None, write: Write) -> None:
    """Subclasses, instances and containers that hold a replaced class are counted."""
    (user,) = load(
        write,
        user="""
        import home
        class Sub(home.Heir): pass
        class Direct(home.Made): pass
        instances = [home.Made(), home.Made(), Sub()]
        registry = {"made": home.Made}
        """,
    )
    original = sys.modules["home"].Made
    armed.patches.replace("home:Made", type("Other", (), {}), id="p", **REASONS)
    armed.arm()
    assert armed.notes == ["not touched, with the original: 1 container, 2 instances, 2 subclasses"]
    assert user.registry["made"] is original
    assert isinstance(user.instances[0], original)


def test_a_subclass_counts_nobody(
    armed: Armed, home: None, write: Write, no_sweep: set[str]
) -> None:
    """Who holds a class that a subclass stands in for gets the subclass, so nothing is counted."""
    (user,) = load(write, user="import home\nregistry = {'made': home.Made}")
    armed.patches.subclass("home:Made", lambda cls: type("S", (cls,), {}), id="p", **REASONS)
    armed.arm()
    assert type(user.registry["made"]()) is sys.modules["home"].Made
    assert armed.notes == []


def test_a_name_that_cannot_be_set(armed: Armed, home: None, write: Write) -> None:
    """A module that refuses its names to be set is reported, and activation goes on."""
    (user,) = load(
        write,
        user="""
        import sys, types
        from home import resolve
        class Closed(types.ModuleType):
            def __setattr__(self, name, value):
                raise TypeError("closed")
        sys.modules[__name__].__class__ = Closed
        """,
    )
    armed.wrap("home:resolve")
    armed.arm()
    assert user.resolve(1) == 1
    assert armed.notes == [
        "not touched, with the original: user:resolve, which cannot be set (closed)"
    ]


def test_chain_on_one_target(armed: Armed, home: None, write: Write) -> None:
    """With two patches on a target, names follow the one on top, and are told once."""
    (user,) = load(write, user="from home import resolve")
    armed.wrap("home:resolve", "inner", order=1)
    armed.wrap("home:resolve", "outer", order=2)
    armed.arm()
    assert user.resolve is sys.modules["home"].resolve
    assert user.resolve(1) == ("outer", ("inner", 1))
    assert armed.events("rebind") == ["rebind acme/inner user:resolve"]


def test_patch_on_top_of_one_that_landed_before(armed: Armed, home: None, write: Write) -> None:
    """Names taken from a target with a patch follow a second one that lands on top later."""
    armed.wrap("home:resolve", "inner", order=1)
    armed.wrap("home:resolve", "outer", order=2, process="worker")
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    assert user.resolve(1) == ("inner", 1)
    PROCESS.gain("worker")
    assert user.resolve(1) == ("outer", ("inner", 1))
    assert armed.events("rebind") == ["rebind acme/outer user:resolve"]


def test_patch_below_one_that_landed_before(armed: Armed, home: None, write: Write) -> None:
    """A patch that lands late goes to its place in the order, and names follow; told once each."""
    armed.wrap("home:resolve", "inner", order=0, process="worker")
    armed.wrap("home:resolve", "outer", order=1)
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    assert user.resolve(1) == ("outer", 1)
    PROCESS.gain("worker")
    home_now = sys.modules["home"].resolve
    assert user.resolve is home_now
    assert home_now(1) == ("outer", ("inner", 1))
    assert armed.events("apply", "rebind") == [
        "apply acme/outer",
        "apply acme/inner",
        "rebind acme/outer user:resolve",
    ]


def test_two_patches_below(armed: Armed, home: None, write: Write) -> None:
    """Names that were taken before follow when several patches land below at once."""
    for text, order in (("a", 0), ("b", 1)):
        armed.wrap("home:resolve", text, order=order, process="worker")
    armed.wrap("home:resolve", "top", order=2)
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    PROCESS.gain("worker")
    assert user.resolve(1) == ("top", ("b", ("a", 1)))
    assert armed.events("apply") == ["apply acme/top", "apply acme/a", "apply acme/b"]
    assert armed.notes == ["rebound user:resolve"]


def test_partial_name_on_time(armed: Armed, write: Write, no_sweep: set[str]) -> None:
    """A name taken in a circular import, before the patch, follows; others are not looked at."""
    write("circle_a.py", "def resolve(a):\n    return a\nimport circle_b\n")
    write("circle_b.py", "from circle_a import resolve\nimport circle_c\n")
    write("circle_c.py", "from circle_a import resolve as taken\n")
    armed.wrap("circle_a:resolve")
    armed.arm()
    importlib.import_module("circle_a")
    circle = [sys.modules[f"circle_{letter}"] for letter in "abc"]
    assert [circle[0].resolve(1), circle[1].resolve(1), circle[2].taken(1)] == [("p", 1)] * 3
    assert sorted(armed.events("rebind")) == [
        "rebind acme/p circle_b:resolve",
        "rebind acme/p circle_c:taken",
    ]
    assert no_sweep == {"circle_a", "circle_b", "circle_c"}


def test_name_left_in_an_older_module_on_time(armed: Armed, write: Write) -> None:
    """A module that puts its function into one imported long before is noticed, and followed."""
    (older,) = load(write, older="")
    write("newer.py", "import older\ndef resolve(a):\n    return a\nolder.taken = resolve\n")
    armed.wrap("newer:resolve")
    armed.arm()
    importlib.import_module("newer")
    assert older.taken(1) == ("p", 1)
    assert armed.events("rebind") == ["rebind acme/p older:taken"]


def test_holder_on_time(armed: Armed, write: Write) -> None:
    """A registry that a module puts its function into as it is executed is reported."""
    write(
        "newer.py",
        "REGISTRY = []\n@REGISTRY.append\ndef gone(): pass\ndef resolve(a): pass\n"
        "REGISTRY.append(resolve)\n",
    )
    armed.wrap("newer:resolve")
    armed.arm()
    importlib.import_module("newer")
    assert armed.notes == ["not touched, with the original: 1 container"]


@pytest.mark.parametrize(
    "target",
    [
        "resolve",
        "slow",
        "cached",
        "Made.method",
        "Made.static",
        "Made.cls",
        "Made.value",
        "Made.__init__",
        "Heir.method",
    ],
)
def test_no_sweep_on_time(armed: Armed, write: Write, no_sweep: set[str], target: str) -> None:
    """A module that is imported after its patch was armed costs no look at the whole process."""
    write(
        "newer.py",
        """
        import functools
        def resolve(a): return a
        async def slow(a): return a
        @functools.lru_cache(maxsize=None)
        def cached(a): return a
        class Made:
            def __init__(self): super().__init__()
            def method(self, a): return a
            @staticmethod
            def static(a): return a
            @classmethod
            def cls(cls, a): return a
            @property
            def value(self): return 1
        class Heir(Made): pass
        """,
    )
    armed.wrap(f"newer:{target}")
    armed.arm()
    importlib.import_module("newer")
    assert armed.events("apply") == ["apply acme/p"]
    assert no_sweep <= {"newer"}


def test_no_search_for_holders_where_names_explain_all(
    armed: Armed, home: None, write: Write, no_sweep: set[str]
) -> None:
    """A late patch whose original only modules have does not ask the garbage collector."""
    load(write, user="from home import resolve", other="import home\ng = home.resolve")
    armed.wrap("home:resolve")
    armed.arm()
    assert len(armed.events("rebind")) == 2


def test_one_pass_for_all(armed: Armed, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late patches share one pass through the modules, and so do those that waited for a role."""
    passes: list[int] = []
    real = aliases.sweep

    def sweep(landings: Any, executed: Any = None) -> Any:
        passes.append(len(landings))
        return real(landings, executed)

    monkeypatch.setattr(module_hook, "sweep", sweep)
    for number in range(4):
        load(write, **{f"home{number}": "def resolve(a):\n    return a\n"})
        armed.wrap(f"home{number}:resolve", f"now{number}")
        armed.wrap(f"home{number}:resolve", f"later{number}", process="worker", order=1)
    armed.arm()
    PROCESS.gain("worker")
    assert passes == [4, 4]


def test_patch_that_cannot_land_again(armed: Armed, home: None, write: Write) -> None:
    """Where what lands below leaves a patch no place on top, no name keeps that patch."""
    armed.wrap("home:resolve", "top", required=False)
    armed.patches.set("home:resolve", 3, id="below", process="worker", **REASONS)
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    assert user.resolve(1) == ("top", 1)
    PROCESS.gain("worker")
    assert [user.resolve, sys.modules["home"].resolve] == [3, 3]
    assert [each.state for each in armed.journal.status().patches] == ["applied", "failed"]


def test_revert(armed: Armed, home: None, write: Write) -> None:
    """Reverting a patch gives every name back what the target was before."""
    user, own = load(write, user="from home import resolve", own="from home import resolve")
    original = user.resolve
    armed.wrap("home:resolve", "inner", order=1)
    armed.wrap("home:resolve", "outer", order=2)
    armed.arm()
    own.resolve = mine = object()
    inner, outer = LANDINGS
    LANDINGS.revert(outer)
    assert user.resolve is sys.modules["home"].resolve
    assert user.resolve(1) == ("inner", 1)
    LANDINGS.revert(inner)
    assert user.resolve is sys.modules["home"].resolve is original
    assert own.resolve is mine


def test_revert_of_what_was_made_anew(armed: Armed, home: None, write: Write) -> None:
    """Names that followed a patch from place to place get the original back, and no dead patch."""
    armed.wrap("home:resolve", "inner", order=0, process="worker")
    armed.wrap("home:resolve", "outer", order=1)
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    PROCESS.gain("worker")
    for landing in reversed(tuple(LANDINGS)):
        LANDINGS.revert(landing)
    assert user.resolve(1) == sys.modules["home"].resolve(1) == 1
    assert user.resolve is sys.modules["home"].resolve


@pytest.mark.parametrize("top", [True, False], ids=["below-another", "on-top"])
def test_group_that_is_taken_out(armed: Armed, home: None, write: Write, top: bool) -> None:
    """Names that were taken from a patch lose it with its group, and keep the patches beside it."""
    armed.wrap("home:resolve", "bottom", order=0)
    armed.wrap("home:resolve", "member", order=1, together="group", required=False)
    if top:
        armed.wrap("home:resolve", "top", order=2)
    armed.wrap("other:gone", "failing", together="group", required=False)
    armed.arm()
    (user,) = load(write, user="from home import resolve")
    inside = ("member", ("bottom", 1))
    assert user.resolve(1) == (("top", inside) if top else inside)
    load(write, other="")
    assert user.resolve is sys.modules["home"].resolve
    assert user.resolve(1) == (("top", ("bottom", 1)) if top else ("bottom", 1))


def test_a_group_that_fails_in_one_pass(armed: Armed, home: None, write: Write) -> None:
    """A patch that is taken out before the names were looked for gets none of them."""
    (user,) = load(write, user="from home import resolve")
    original = user.resolve
    armed.wrap("home:resolve", "member", together="group", required=False)
    armed.wrap("home:gone", "failing", order=1, together="group", required=False)
    armed.arm()
    assert user.resolve is sys.modules["home"].resolve is original
    assert armed.events("rebind") == []


def test_odd_things_among_the_modules(
    armed: Armed, home: None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others put among the modules, like None or an object without names, does no harm."""
    (user,) = load(write, user="from home import resolve")
    for name, odd in (("odd_none", None), ("odd_object", object()), ("odd_class", Armed)):
        monkeypatch.setitem(sys.modules, name, odd)
    monkeypatch.setitem(sys.modules, "user_again", user)
    armed.wrap("home:resolve")
    armed.arm()
    assert armed.events("rebind") == ["rebind acme/p user:resolve"]


@pytest.mark.parametrize(
    ("later", "state"),
    [
        ("home.resolve = lambda a: None", "failed"),
        (
            "below = home.resolve\nhome.resolve = functools.wraps(below)(lambda a: below(a))",
            "applied",
        ),
    ],
    ids=["replaced", "wrapped"],
)
def test_what_others_put_there_later(
    armed: Armed, home: None, write: Write, later: str, state: str
) -> None:
    """A patch that others have replaced since counts as failed, unless they call it."""
    armed.wrap("home:resolve")
    armed.arm()
    load(write, later=f"import functools, home\n{later}")
    (found,) = armed.journal.status().patches
    assert found.state == state
    assert armed.journal.is_applied("acme/p") is (state == "applied")
    assert ("others have replaced it at home:resolve" in found.reason) is (state == "failed")
