"""What becomes of a patch on a vLLM: the verdict is that which applying it would come to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import Patch
from vllm_graft.check import calls
from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.example import Example
from vllm_graft.check.tree import FolderTree
from vllm_graft.check.verdicts import Verdict, judge
from vllm_graft.target import Target

from .vllm_trees import write_tree

Declare = Callable[..., Patch]

FILES = {
    "a.py": """
        import torch
        from contextlib import contextmanager
        from dataclasses import dataclass
        from .b import moved_in
        from torch import softmax

        def f(x, y=1): pass
        async def coroutine(x): pass
        def generator(x): yield x
        @contextmanager
        def manager(x): yield x
        LIMIT = 1
        MADE = make()
        @triton.jit
        def kernel(x): pass

        class Base:
            def inherited(self, x): pass

        class C(Base):
            attribute = 1
            def __init__(self, size): pass
            def method(self, x, y=1): pass
            @staticmethod
            def static(x): pass
            @classmethod
            def of_class(cls, x): pass
            @property
            def prop(self): pass

        @dataclass
        class Config:
            size: int = 1

        instance = C(1)
        for name in (): globals()[name] = 1
        """,
    "b.py": "def moved_in(x): pass\n",
    "lazy.py": """
        _TABLE = {"f": "vllm.b:moved_in"}
        def __getattr__(name):
            if name in _TABLE: return load(_TABLE[name])
            raise AttributeError(name)
        """,
    "computed.py": """
        variables = {"PORT": lambda: 1}
        def __getattr__(name):
            if name in variables: return variables[name]()
            raise AttributeError(name)
        """,
    "clean.py": "def g(): pass\n",
}


def take(*args: Any, **kwargs: Any) -> Any: ...
def take_original(original: Any, *args: Any, **kwargs: Any) -> Any: ...
def x_y(x: Any, y: Any = 1) -> Any: ...
def self_x_y(self: Any, x: Any, y: Any = 1) -> Any: ...
def original_x_y(original: Any, x: Any, y: Any = 1) -> Any: ...
def original_self_x_y(original: Any, self: Any, x: Any, y: Any = 1) -> Any: ...
def only_x(x: Any) -> Any: ...
async def take_async(*args: Any, **kwargs: Any) -> Any: ...
def take_generator(*args: Any, **kwargs: Any) -> Any:
    yield


class Replacement:
    def __init__(self, size: int) -> None: ...


class ReplacementWithoutSize:
    def __init__(self) -> None: ...


@pytest.fixture
def check(tmp_path: Path, declare: Declare) -> Callable[..., Verdict]:
    """Return a function that declares a patch and judges it on the tree of `FILES`."""
    write_tree(tmp_path / "tree", FILES)
    resolver = CachedResolver(FolderTree(tmp_path / "tree"), tmp_path / "cache")

    def check(operation: str, target: str, given: Any, **options: Any) -> Verdict:
        return judge(declare(operation, target, given, **options), resolver)

    return check


@pytest.mark.parametrize(
    ("operation", "target", "given", "fit"),
    [
        ("replace", "vllm.a:f", x_y, "ok"),
        ("replace", "vllm.a:f", take, "ok"),
        ("replace", "vllm.a:f", only_x, "signature"),
        ("replace", "vllm.a:f", take_async, "kind"),
        ("replace", "vllm.a:coroutine", take_async, "ok"),
        ("replace", "vllm.a:coroutine", take, "kind"),
        ("replace", "vllm.a:generator", take_generator, "ok"),
        ("replace", "vllm.a:generator", take, "kind"),
        ("replace", "vllm.a:manager", take, "ok"),
        ("replace", "vllm.a:manager", take_generator, "kind"),
        ("replace", "vllm.a:LIMIT", take, "kind"),
        ("replace", "vllm.a:MADE", take, "unknown"),
        ("replace", "vllm.a:kernel", take, "kind"),
        ("replace", "vllm.a:torch", take, "kind"),
        ("replace", "vllm.a:softmax", take, "ok"),
        ("replace", "vllm.a:C.method", self_x_y, "ok"),
        ("replace", "vllm.a:C.method", x_y, "signature"),
        ("replace", "vllm.a:C.static", x_y, "ok"),
        ("replace", "vllm.a:C.of_class", lambda cls, x: None, "ok"),
        ("replace", "vllm.a:C.of_class", only_x, "signature"),
        ("replace", "vllm.a:C.prop", lambda self: None, "ok"),
        ("replace", "vllm.a:C.attribute", take, "kind"),
        ("replace", "vllm.a:C.inherited", lambda self, x: None, "ok"),
        ("replace", "vllm.a:Config.size", take, "kind"),
        ("replace", "vllm.a:instance.method", take, "kind"),
        ("replace", "vllm.a:C", Replacement, "ok"),
        ("replace", "vllm.a:C", ReplacementWithoutSize, "signature"),
        ("replace", "vllm.a:C", take, "kind"),
        ("replace", "vllm.a:moved_in", take, "ok"),
        ("wrap", "vllm.a:f", original_x_y, "ok"),
        ("wrap", "vllm.a:f", take_original, "ok"),
        ("wrap", "vllm.a:f", x_y, "signature"),
        ("wrap", "vllm.a:coroutine", take_original, "ok"),
        ("wrap", "vllm.a:C.method", original_self_x_y, "ok"),
        ("wrap", "vllm.a:C.method", original_x_y, "signature"),
        ("wrap", "vllm.a:C", take_original, "kind"),
        ("wrap", "vllm.a:C.absent", take_original, "missing"),
        ("set", "vllm.a:LIMIT", 2, "ok"),
        ("set", "vllm.a:C.attribute", 2, "ok"),
        ("set", "vllm.a:Config.size", 2, "ok"),
        ("set", "vllm.a:absent", 2, "unknown"),
        ("set", "vllm.clean:absent", 2, "missing"),
        ("add", "vllm.clean:absent", 2, "ok"),
        ("add", "vllm.a:C.absent", 2, "ok"),
        ("add", "vllm.a:LIMIT", 2, "kind"),
        ("add", "vllm.a:C.inherited", 2, "kind"),
        ("add", "vllm.a:Absent.name", 2, "unknown"),
        ("add", "vllm.clean:Absent.name", 2, "missing"),
        ("add", "vllm.absent:name", 2, "missing"),
        ("subclass", "vllm.a:C", lambda Original: Original, "ok"),
        ("subclass", "vllm.a:f", lambda Original: Original, "kind"),
        ("subclass", "vllm.a:MADE", lambda Original: Original, "unknown"),
        ("run", "vllm.a", take, "ok"),
        ("run", "vllm.absent", take, "missing"),
    ],
)
def test_the_verdict_is_what_applying_would_come_to(
    check: Callable[..., Verdict], operation: str, target: str, given: Any, fit: str
) -> None:
    verdict = check(operation, target, given)
    assert (verdict.fit, verdict.state) == (fit, fit)
    assert bool(verdict.reason) == (fit != "ok")


def test_both_signatures_are_shown_with_the_call_that_fails(check: Callable[..., Verdict]) -> None:
    verdict = check("replace", "vllm.a:f", only_x)
    assert verdict.signatures == ("(x, y=1)", "only_x(x: Any) -> Any")
    assert "it fails" in verdict.reason


def test_a_range_without_this_version_comes_before_everything(
    check: Callable[..., Verdict],
) -> None:
    verdict = check("replace", "vllm.a:f", x_y, vllm=">=0.20,<0.30")
    assert (verdict.state, verdict.fit, verdict.in_range) == ("out-of-range", "ok", False)


def test_an_unknown_version_is_in_no_range(tmp_path: Path, declare: Declare) -> None:
    write_tree(tmp_path, FILES, version="dev")
    verdict = judge(
        declare("set", "vllm.a:LIMIT", 1), CachedResolver(FolderTree(tmp_path), tmp_path)
    )
    assert (verdict.in_range, verdict.state) == (None, "ok")


@pytest.mark.parametrize(
    ("target", "chosen"),
    [
        ("vllm.absent:f | vllm.a:f", "vllm.a:f"),
        ("vllm.a:f <0.30 | vllm.a:coroutine", "vllm.a:coroutine"),
        ("vllm.a:f | vllm.a:coroutine", "vllm.a:f"),
        ("vllm.absent:f | vllm.gone:f", "vllm.absent:f"),
    ],
)
def test_of_candidates_the_first_for_the_version_that_exists(
    check: Callable[..., Verdict], target: str, chosen: str
) -> None:
    assert str(check("set", target, 1).target) == chosen


def test_re_exports_and_inheritance_are_told(check: Callable[..., Verdict]) -> None:
    assert check("set", "vllm.a:moved_in", 1).notes == ("re-exported via vllm.a",)
    assert check("set", "vllm.a:C.inherited", 1).notes == ("inherited from vllm.a:Base",)


def test_what_a_module_computes_has_no_place_for_a_patch(check: Callable[..., Verdict]) -> None:
    verdict = check("set", "vllm.computed:PORT", 1)
    assert (verdict.fit, verdict.reason) == (
        "kind",
        "vllm.computed computes 'PORT' each time it is asked, so there is nothing to put anything "
        "in the place of. Use `run` on 'vllm.computed' and change variables['PORT'] there",
    )


def test_what_is_provided_lazily_is_told_as_such(check: Callable[..., Verdict]) -> None:
    verdict = check("replace", "vllm.lazy:f", take)
    assert verdict.fit == "ok"
    assert verdict.notes == ("provided lazily by vllm.lazy",)


def test_a_target_that_has_moved_names_the_place(
    tmp_path: Path, declare: Declare, check: Callable[..., Verdict]
) -> None:
    before = CachedResolver(FolderTree(tmp_path / "tree"), tmp_path / "cache")
    files = {"new.py": "def g(): pass\n", "a.py": "def f(): return g\n"}
    after = CachedResolver(FolderTree(write_tree(tmp_path / "after", files)), tmp_path / "cache")

    def example(target: Target) -> Example:
        return Example(before, before.resolve(target))

    verdict = judge(declare("replace", "vllm.clean:g", take), after, example)
    assert verdict.fit == "moved"
    assert [str(each.target) for each in verdict.moves] == ["vllm.new:g"]
    assert "there is no module vllm.clean; it is at vllm.new:g" in verdict.reason


def test_what_is_called_alike_is_compared_once(
    tmp_path: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one release to the next annotations and defaults change more often than calls do."""
    compared = []
    monkeypatch.setattr(calls, "obstacle", lambda *pair: compared.append(pair))
    calls._refused.cache_clear()
    patch = declare("replace", "vllm.a:f", take)
    for number, text in enumerate(["def f(x, y=1): pass", "def f(x: int, y=2) -> None: return"]):
        tree = FolderTree(write_tree(tmp_path / str(number), {"a.py": text}))
        assert judge(patch, CachedResolver(tree, tmp_path / "cache")).fit == "ok"
    assert len(compared) == 1
    other = FolderTree(write_tree(tmp_path / "other", {"a.py": "def f(x, y): pass"}))
    assert judge(patch, CachedResolver(other, tmp_path / "cache")).fit == "ok"
    assert len(compared) == 2
    calls._refused.cache_clear()


LAZY_IMPLEMENTATION = """
import torch_that_is_not_here
def right(original, x, y=1): pass
def wrong(original, x): pass
class Made: pass
"""


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("right", "ok"),
        ("wrong", "signature"),
    ],
)
def test_a_lazy_implementation_is_read_and_not_imported(
    check: Callable[..., Verdict],
    write: Callable[[str, str], Path],
    name: str,
    fit: str,
) -> None:
    write("acme_impl.py", LAZY_IMPLEMENTATION)
    verdict = check("wrap", "vllm.a:f", f"acme_impl:{name}")
    assert verdict.fit == fit


def test_a_lazy_implementation_without_source_is_not_judged(check: Callable[..., Verdict]) -> None:
    verdict = check("wrap", "vllm.a:f", "math:lcm")
    assert verdict.fit == "ok"
    assert "it has no source here" in verdict.notes[0]
