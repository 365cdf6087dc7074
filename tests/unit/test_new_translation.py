"""What old patch files become: declarations that do to vLLM what the files did."""

from pathlib import Path

import pytest

from vllm_graft.errors import NewPackageError

from .old_files import Workshop, changes


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VLLM_GRAFT", "0")  # nothing is armed but what a test arms
    return Workshop(tmp_path)


# Each: the old file, and the declarations that it becomes.
FILES = {
    "a function of a module, by an alias": (
        """
        import vllm.core as core
        def area(width, height=2): return "ours"
        core.area = area
        """,
        ["replace vllm.core:area"],
    ),
    "a function of a module, imported from its package": (
        """
        from vllm import core
        def area(width, height=2): return "ours"
        core.area = area
        """,
        ["replace vllm.core:area"],
    ),
    "a method of an imported class": (
        """
        from vllm.core import Engine
        def step(self, count=1): return f"ours {count}"
        Engine.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "a method by the whole path": (
        """
        import vllm.core
        def step(self, count=1): return f"ours {count}"
        vllm.core.Engine.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "setattr": (
        """
        from vllm.core import Engine
        def step(self, count=1): return "ours"
        setattr(Engine, "step", step)
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "a module by its name": (
        """
        import importlib, sys
        import vllm.other
        def area(width, height=2): return "ours"
        importlib.import_module("vllm.core").area = area
        sys.modules["vllm.other"].other = lambda: "ours"
        """,
        ["replace vllm.core:area", "replace vllm.other:other"],
    ),
    "an alias of the file": (
        """
        import vllm.core
        cls = vllm.core.Engine
        def step(self, count=1): return "ours"
        cls.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "descriptors": (
        """
        from vllm.core import Engine
        def pick(items): return "ours"
        def build(cls): return cls.__name__
        def size(self): return 11
        Engine.pick = staticmethod(pick)
        Engine.build = classmethod(build)
        Engine.size = property(size)
        """,
        [
            "replace vllm.core:Engine.pick",
            "replace vllm.core:Engine.build",
            "replace vllm.core:Engine.size",
        ],
    ),
    "a plain function where a static method was": (
        """
        from vllm.core import Engine
        def pick(self, items): return f"{self.name} {items}"
        Engine.pick = pick
        """,
        ["set vllm.core:Engine.pick"],
    ),
    "a property where a cached one was": (
        """
        from vllm.core import Engine
        def cached(self): return object()
        Engine.cached = property(cached)
        """,
        ["set vllm.core:Engine.cached"],
    ),
    "a class": (
        """
        import vllm.core
        class Plain:
            def who(self): return "ours"
        vllm.core.Plain = Plain
        """,
        ["replace vllm.core:Plain"],
    ),
    "a subclass": (
        """
        import vllm.core
        from vllm.core import Plain
        class Ours(Plain):
            def who(self): return "ours, " + super().who()
        vllm.core.Plain = Ours
        """,
        ["replace vllm.core:Plain"],
    ),
    "a subclass by the whole path": (
        """
        import vllm.core
        class Ours(vllm.core.Plain):
            def who(self): return "ours, " + super().who()
        vllm.core.Plain = Ours
        """,
        ["replace vllm.core:Plain"],
    ),
    "constants": (
        """
        import vllm.core as core
        core.LIMIT = 100
        core.Engine.slots = -8
        """,
        ["set vllm.core:LIMIT", "set vllm.core:Engine.slots"],
    ),
    "texts that look like references": (
        """
        import vllm.core as core
        core.TEXT = "host:port"
        """,
        ["add vllm.core:TEXT"],
    ),
    "values that are computed": (
        """
        import functools
        import vllm.core as core
        def area(scale, width, height=2): return scale * width
        core.area = functools.partial(area, 10)
        core.LIMIT = core.LIMIT + 1
        core.Engine.step = lambda self, count=1: (
            "lambda"
        )
        """,
        ["set vllm.core:area", "set vllm.core:LIMIT", "replace vllm.core:Engine.step"],
    ),
    "statements that share a line, in letters of several bytes": (
        """
        import vllm.core as core; name = "\u00fcber"; core.area = lambda width, height=2: name
        pi = "\u03c0"; core.LIMIT = 3; core.Engine.slots = len("\u00fc" + pi) ; # two
        """,
        ["replace vllm.core:area", "set vllm.core:LIMIT", "set vllm.core:Engine.slots"],
    ),
    "statements over several lines": (
        """
        from __future__ import annotations
        import vllm.core as core
        setattr(
            core.Engine,
            "step",
            (lambda self, count=1: (
                "ours"
            )),
        )
        core.LIMIT: int = (
            len("four")
        )
        core.area = (
            lambda width, height=2:
                "ours"
        )
        """,
        ["replace vllm.core:Engine.step", "set vllm.core:LIMIT", "replace vllm.core:area"],
    ),
    "a decorator that makes an object": (
        """
        import functools
        import vllm.core as core
        @functools.lru_cache
        def area(width, height=2): return "ours"
        core.area = area
        """,
        ["set vllm.core:area"],
    ),
    "a function that is defined under a condition": (
        """
        import sys
        import vllm.core as core
        if sys.version_info >= (3,):
            def area(width, height=2): return "ours"
        else:
            def area(width, height=2): return "for old ones"
        core.area = area
        """,
        ["set vllm.core:area"],
    ),
    "an import with a fallback": (
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from vllm.core import Plain
        try:
            from vllm.core import Engine
        except ImportError:
            from vllm.older import Engine
        def step(self, count=1) -> "Plain": return "ours"
        Engine.step = step
        """,
        ["replace vllm.core:Engine.step | vllm.older:Engine.step"],
    ),
    "an original that is called": (
        """
        from vllm.core import Engine
        _original_step = Engine.step
        def step(self, *args, **kwargs):
            return "ours, " + _original_step(self, *args, **kwargs)
        Engine.step = step
        """,
        ["wrap vllm.core:Engine.step"],
    ),
    "originals of every kind": (
        """
        import functools
        import vllm.core as core
        from vllm.core import Engine
        original_area = core.area
        original_pick = Engine.pick
        original_build = Engine.build.__func__
        original_size = Engine.size.fget
        original_fetch = core.fetch
        @functools.wraps(original_area)
        def area(width, height=2):
            return original_area(width, height) + 1
        def pick(items):
            return original_pick(items) + 1
        def build(cls):
            return original_build(cls) + "!"
        def size(self):
            return original_size(self) + 1
        async def fetch():
            return await original_fetch() + "!"
        core.area = area
        Engine.pick = staticmethod(pick)
        Engine.build = classmethod(build)
        Engine.size = property(size)
        core.fetch = fetch
        """,
        [
            "wrap vllm.core:area",
            "wrap vllm.core:Engine.pick",
            "wrap vllm.core:Engine.build",
            "wrap vllm.core:Engine.size",
            "wrap vllm.core:fetch",
        ],
    ),
    "a bound original of a class method": (
        """
        from vllm.core import Engine
        original_build = Engine.build
        def build(cls): return original_build() + "!"
        Engine.build = classmethod(build)
        """,
        ["replace vllm.core:Engine.build"],
    ),
    "an original that two functions use": (
        """
        from vllm.core import Engine
        _step = Engine.step
        def step(self, count=1): return twice(self)
        def twice(self): return _step(self) * 2
        Engine.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "an original that is kept on the class": (
        """
        from vllm.core import Engine
        Engine.kept_step = Engine.step
        def step(self, count=1): return "ours, " + self.kept_step(count)
        Engine.step = step
        """,
        ["add vllm.core:Engine.kept_step", "replace vllm.core:Engine.step"],
    ),
    "what has been patched, put elsewhere": (
        """
        from vllm.core import Base, Engine
        def step(self, count=1): return "ours"
        Engine.step = step
        Base.inherited = Engine.step
        """,
        ["set vllm.core:Base.inherited", "run vllm.core"],
    ),
    "a target that is wrapped twice": (
        """
        from vllm.core import Engine
        first_step = Engine.step
        def step(self, count=1): return "inner " + first_step(self, count)
        Engine.step = step
        second_step = Engine.step
        def outer(self, count=1): return "outer " + second_step(self, count)
        Engine.step = outer
        """,
        ["run vllm.core"],
    ),
    "names that vLLM does not have": (
        """
        import vllm.core as core
        def new_name(): return "new"
        def new_method(self): return "new method"
        core.new_name = new_name
        core.Engine.new_method = new_method
        """,
        ["add vllm.core:new_name", "add vllm.core:Engine.new_method"],
    ),
    "an inherited method": (
        """
        from vllm.core import Engine
        def inherited(self): return "ours"
        Engine.inherited = inherited
        """,
        ["replace vllm.core:Engine.inherited"],
    ),
    "a method of a class that is imported from elsewhere": (
        """
        from vllm.api import Engine
        def step(self, count=1): return "ours"
        Engine.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "one function under two names": (
        """
        import vllm.api, vllm.core
        def area(width, height=2): return "ours"
        vllm.api.area = area
        vllm.core.area = area
        """,
        ["replace vllm.core:area"],
    ),
    "a re-export that others have too": (
        """
        import vllm.api
        def used_here(): return "ours"
        vllm.api.used_here = used_here
        """,
        ["replace vllm.api:used_here"],
    ),
    "a re-export that nobody else has": (
        """
        import vllm.only
        def hidden(): return "ours"
        vllm.only.hidden = hidden
        """,
        ["replace vllm.hidden:hidden"],
    ),
    "several targets of one statement": (
        """
        import vllm.core, vllm.other
        vllm.core.LIMIT = vllm.other.STATE = 5
        """,
        ["set vllm.core:LIMIT", "set vllm.other:STATE"],
    ),
    "one target twice": (
        """
        import vllm.core as core
        core.LIMIT = 5
        core.LIMIT = 6
        """,
        ["set vllm.core:LIMIT"],
    ),
    "two modules, whose patches import each other's targets": (
        """
        import vllm.core
        import vllm.other
        from vllm.core import Engine
        def area(width, height=2): return vllm.other.other()
        def other(): return "ours"
        def step(self, count=1): return Engine.pick([1])
        vllm.core.area = area
        vllm.other.other = other
        Engine.step = step
        """,
        ["replace vllm.core:area", "replace vllm.other:other", "replace vllm.core:Engine.step"],
    ),
    "a function that applies, called by the file": (
        """
        import vllm.core as core
        def area(width, height=2): return "ours"
        def apply_patches():
            from vllm.core import Engine
            def step(self, count=1): return "inner"
            core.area = area
            Engine.step = step
            core.LIMIT = len("four")
        apply_patches()
        """,
        ["replace vllm.core:area", "replace vllm.core:Engine.step", "set vllm.core:LIMIT"],
    ),
    "optional, where the file goes on without": (
        """
        import vllm.core as core
        try:
            from vllm.gone import gone
        except ImportError:
            gone = None
        try:
            import vllm.other as other
            other.other = lambda: "ours"
        except ImportError:
            pass
        if hasattr(core, "area"):
            core.area = lambda width, height=2: "ours"
        """,
        ["replace vllm.other:other", "replace vllm.core:area"],
    ),
    "a loop": (
        """
        import vllm.core
        from vllm.core import Base, Engine
        def inherited(self): return "ours"
        for cls in (Base, Engine):
            cls.inherited = inherited
        vllm.core.LIMIT = 2
        """,
        ["set vllm.core:LIMIT", "run vllm.core"],
    ),
    "names that are only known at run time": (
        """
        import vllm.core
        def area(width, height=2): return "ours"
        for name in ("area", "used_here"):
            setattr(vllm.core, name, area)
        """,
        ["run vllm.core"],
    ),
    "what is changed in place": (
        """
        import vllm.core
        vllm.core.TABLE["b"] = 2
        vllm.core.TABLE.update(c=3)
        vllm.core.LIMIT += 1
        """,
        ["run vllm.core"],
    ),
    "a condition that only the file can ask": (
        """
        import vllm.core as core
        VERSION = (0, 32)
        if VERSION > (0, 30):
            core.LIMIT = 3
        else:
            core.LIMIT = 4
        """,
        ["run vllm.core"],
    ),
    "a module in the place of another": (
        """
        import sys, types
        import vllm.api
        ours = types.ModuleType("vllm.other")
        ours.other = lambda: "ours"
        ours.STATE = 1
        sys.modules["vllm.other"] = ours
        vllm.other = ours
        vllm.api.who = lambda: "ours"
        """,
        ["replace vllm.api:who", "run vllm.other"],
    ),
}


FILES |= {
    "functions that the file calls through another": (
        """
        import vllm.core as core
        def area(width, height=2): return "ours"
        def patch_area():
            core.area = area
        def patch_limit():
            core.LIMIT = 5
            core.TABLE["b"] = 2
        def patch_both():
            patch_limit()
            patch_area()
        def apply_all():
            patch_both()
        apply_all()
        """,
        ["set vllm.core:LIMIT", "replace vllm.core:area", "run vllm.core"],
    ),
    "a function that the file calls with arguments": (
        """
        import vllm.core
        def limit(value):
            from vllm import core
            core.LIMIT = value
        limit(7)
        """,
        ["run vllm.core"],
    ),
    "a function that the file calls under a condition": (
        """
        import sys
        def limit():
            from vllm import core
            core.LIMIT = 8
        if sys.version_info > (3,):
            limit()
        """,
        ["run vllm.core"],
    ),
    "what a star gives": (
        """
        from vllm.core import *
        from vllm.api import *
        def step(self, count=1): return f"ours {Plain().who()} {LIMIT}"
        Engine.step = step
        """,
        ["replace vllm.core:Engine.step"],
    ),
    "a method that the file calls": (
        """
        import vllm.core as core
        class Patches:
            @staticmethod
            def go():
                core.LIMIT = 9
        Patches.go()
        """,
        ["run vllm.core"],
    ),
}


@pytest.mark.parametrize("case", FILES, ids=str)
def test_a_translation_does_what_the_file_did(workshop: Workshop, case: str) -> None:
    text, declared = FILES[case]
    file = workshop.old(text)
    done = workshop.translated(file)
    assert [f"{each.operation} {each.target}" for each in done.declarations] == declared
    asked = workshop.run_old(file)
    assert workshop.run_new(done) == asked
    assert workshop.failed == []
    assert changes(asked, workshop.run_nothing())


def test_a_method_is_patched_before_its_class_is_replaced(workshop: Workshop) -> None:
    """`wrap` would come after `replace`, and so meet the class that takes the place of its own."""
    file = workshop.old("""
        import vllm.core
        from vllm.core import Plain

        _who = Plain.who

        class Ours(Plain):
            def who(self):
                return "ours, " + super().who()

        vllm.core.Plain = Ours

        def who(self):
            return "patched " + _who(self)

        Plain.who = who
        """)
    done = workshop.translated(file)
    assert [each.operation for each in done.declarations] == ["replace", "replace"]
    assert workshop.run_new(done) == workshop.run_old(file)
    assert workshop.run_old(file)["plain"] == repr("ours, patched plain")


def test_implementations_may_come_from_elsewhere(workshop: Workshop) -> None:
    """As most do in plugins; the copy imports them as the file did."""
    workshop.old(
        "def area(width, height=2): return 'ours'\n"
        "class Plain:\n    def who(self): return 'ours'\n",
        "ops.py",
    )
    file = workshop.old("""
        import vllm.core as core
        from ops import Plain, area
        core.area = area
        core.Plain = Plain
        """)
    done = workshop.translated(file)
    declared = [f"{each.operation} {each.target}" for each in done.declarations]
    assert declared == ["replace vllm.core:area", "replace vllm.core:Plain"]
    assert workshop.run_new(done) == workshop.run_old(file)


@pytest.mark.parametrize(
    ("text", "operations", "calls"),
    [
        ("    core.area = area\n", ["replace"], False),
        ("    inner = area\n    core.area = inner\n", ["set"], True),
        ("    core.area = area\n    core.TABLE['b'] = 2\n", ["replace", "run"], True),
    ],
)
def test_a_function_that_the_plugin_calls_is_taken_as_called(
    workshop: Workshop, text: str, operations: list[str], calls: bool
) -> None:
    """The copy calls it itself where something is left for it to do."""
    file = workshop.old(
        "import vllm.core as core\n\ndef area(width, height=2): return 'ours'\n\n"
        f"def register():\n{text}"
    )
    done = workshop.translated(file)
    assert [each.operation for each in done.declarations] == operations
    assert "The file does this when somebody calls register()." in done.declarations[0].comments
    (copy,) = done.copies.values()
    assert (copy.splitlines()[-1].strip() == "register()") == calls
    answers = workshop.run_new(done)
    file.write_text(f"{file.read_text()}\nregister()\n")
    assert answers == workshop.run_old(file)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("patch-core.py", "patch_core"),
        ("2nd.py", "_2nd"),
        ("import.py", "_import"),
        ("__init__.py", "plugin"),
        ("k\u00e4rn.py", "k_rn"),
    ],
)
def test_a_copy_has_the_name_of_its_file(workshop: Workshop, name: str, module: str) -> None:
    done = workshop.translated(workshop.old("import vllm.core\nvllm.core.LIMIT = 7\n", name))
    assert list(done.copies) == [f"src/acme_vllm/impl/{module}.py"]
    assert workshop.run_new(done)["LIMIT"] == "7"


# Each: the old file, and of what is not translated the line, the reason and whether it stays done.
LEFT = {
    "a loop": (
        """
        from vllm.core import Base, Engine
        for cls in (Base, Engine):
            cls.inherited = None
        """,
        [(4, "it is in `for cls in (Base, Engine)`", True)],
    ),
    "a loop over names": (
        """
        import importlib
        for name in ("vllm.core", "vllm.other"):
            module = importlib.import_module(name)
            module.LIMIT = 3
        """,
        [(5, "it is in `for name in ('vllm.core', 'vllm.other')`", True)],
    ),
    "a name that is only known at run time": (
        """
        import vllm.core
        which = "area"
        setattr(vllm.core, which, None)
        """,
        [(4, "the name is only known at run time", True)],
    ),
    "an object that is only known at run time": (
        """
        import vllm.core
        engine = vllm.core.Engine("a")
        engine.step = None
        """,
        [(4, "what `engine.step` is, is only known at run time", True)],
    ),
    "a container": (
        """
        import vllm.core
        vllm.core.TABLE["a"] = 2
        """,
        [(3, "it changes a container in place", True)],
    ),
    "a method that changes its object": (
        """
        import vllm.core
        vllm.core.TABLE.update(a=2)
        """,
        [(3, "it changes an object in place", True)],
    ),
    "a value in place": (
        """
        import vllm.core
        vllm.core.LIMIT += 2
        """,
        [(3, "it changes a value in place", True)],
    ),
    "a deletion": (
        """
        import vllm.core
        del vllm.core.LIMIT
        """,
        [(3, "it deletes a name", True)],
    ),
    "several at once": (
        """
        import vllm.core as core
        core.LIMIT, core.TABLE = 1, {}
        """,
        [(3, "it assigns several things at once", True)],
    ),
    "with a name of the file": (
        """
        import vllm.core as core
        mine = core.LIMIT = 1
        """,
        [(3, "it assigns several things at once", True)],
    ),
    "sys.modules": (
        """
        import sys
        sys.modules["vllm.core"] = object()
        """,
        [(3, "it puts another module in the place of one", True)],
    ),
    "a module": (
        """
        import vllm.core
        vllm.core = object()
        """,
        [(3, "it puts something in the place of a module", True)],
    ),
    "a name that torch makes": (
        """
        import torch, vllm.core
        torch.ops.vllm.area = None
        """,
        [(3, "torch makes this name at run time, when it is asked for", True)],
    ),
    "a relative import of nothing": (
        """
        import vllm.core
        from .ops import area
        vllm.core.area = area
        """,
        [(3, "it imports relatively, and the file is in no package: say from where", False)],
    ),
    "a call": (
        """
        import vllm.core
        vllm.core.register_something("a")
        """,
        [(3, "it is a call, and what that changes cannot be told", True)],
    ),
    "a tool for tests": (
        """
        from unittest import mock
        mock.patch("vllm.core.area").start()
        """,
        [(3, "it patches by a tool for tests", True)],
    ),
    "a decorator": (
        """
        from plugin_tools import patch_method
        from vllm.core import Engine
        @patch_method(Engine, "step")
        def step(self): ...
        """,
        [(4, "what this decorator does cannot be told: it may patch what it is given", True)],
    ),
    "a condition": (
        """
        import vllm.core, vllm.other
        if vllm.other.STATE:
            vllm.core.LIMIT = 2
        """,
        [(4, "it is under the condition `if vllm.other.STATE`", True)],
    ),
    "an except block": (
        """
        import vllm.core
        try:
            import gone
        except ImportError:
            vllm.core.LIMIT = 2
        """,
        [(6, "it is in an `except` block", True)],
    ),
    "a function with arguments": (
        """
        import vllm.core
        def apply(limit):
            vllm.core.LIMIT = limit
        vllm.core.TABLE = None
        """,
        [(4, "it is done whenever apply is called, and stays in the copy", False)],
    ),
    "what an implementation changes": (
        """
        import vllm.core
        def area():
            vllm.core.LIMIT = 5
        vllm.core.area = area
        """,
        [(4, "it is done whenever area is called, and stays in the copy", False)],
    ),
    "a target that is assigned again": (
        """
        import vllm.core
        vllm.core.LIMIT = 1
        vllm.core.LIMIT = 2
        """,
        [(3, "line 4 assigns the same target again", False)],
    ),
    "a star of something unknown": (
        """
        from plugin_tools import *
        Engine.step = None
        setattr(Engine, "size", None)
        """,
        [
            (
                3,
                "it may change what `from plugin_tools import *` gives",
                True,
            ),
            (
                4,
                "it may change what `from plugin_tools import *` gives",
                True,
            ),
        ],
    ),
    "a target under two conditions": (
        """
        import os
        import vllm.core
        if os.environ.get("A"):
            vllm.core.LIMIT = 1
        if os.environ.get("B"):
            vllm.core.LIMIT = 2
        """,
        [
            (5, "its target is assigned several times, under conditions", True),
            (7, "its target is assigned several times, under conditions", True),
        ],
    ),
}


@pytest.mark.parametrize("case", LEFT, ids=str)
def test_what_cannot_be_translated_is_listed(workshop: Workshop, case: str) -> None:
    """With its line and the reason; what stays done by the copy has a `run` that imports it."""
    text, left = LEFT[case]
    done = workshop.translated(workshop.old(text))
    remarks = [each for _, each in done.remarks]
    assert [(each.line, each.reason, each.stays) for each in remarks] == left
    assert all(
        f"old_patch.py:{line}:" in shown for (line, *_), shown in zip(left, done.left, strict=True)
    )
    runs = [each for each in done.declarations if each.operation == "run"]
    assert bool(runs) == any(stays for *_, stays in left)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm.core\nx = vllm.core.LIMIT\n", id="reads"),
        pytest.param("class A: pass\nA.b = 1\n", id="assigns to its own"),
        pytest.param("import os\nos.linesep = ''\n", id="assigns to Python's"),
        pytest.param("import vllm.core as core\ncore = 1\ncore.x = 2\n", id="has taken the name"),
        pytest.param("import vllm.a as a\ndef f(a):\n    a.x = 1\n", id="has an argument"),
        pytest.param("from vllm.logger import log\nlog.info('hello')\n", id="logs"),
    ],
)
def test_a_file_that_patches_nothing_is_refused(workshop: Workshop, text: str) -> None:
    with pytest.raises(NewPackageError, match=r"old_patch\.py' assigns nothing"):
        workshop.translated(workshop.old(text))


def test_nothing_of_the_file_is_executed(workshop: Workshop) -> None:
    file = workshop.old("raise SystemExit(3)\nimport vllm.core\nvllm.core.LIMIT = 3\n")
    assert len(workshop.translated(file).declarations) == 1
