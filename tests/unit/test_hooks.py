"""When patches land: real imports in real interpreters, with nothing armed but what is shown."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

Write = Callable[[str, str], Path]
Python = Callable[..., str]

ARMING = '''
"""Arms the patches of one set as activation does, and keeps a journal of it."""

import os

from vllm_graft import Environment, PatchSet
from vllm_graft.caches import switch_off
from vllm_graft.catalog import Catalog
from vllm_graft.hooks import arm
from vllm_graft.journal import Journal
from vllm_graft.plan import make_plan
from vllm_graft.settings import Settings
from vllm_graft.version import VllmVersion

REASONS = {"vllm": ">=0.27,<0.33", "why": "w", "how": "h", "upstream": "u", "remove": "r"}
patches = PatchSet("acme")
events = []

class Sink:
    def write(self, line):
        if line["event"] not in ("plan", "arm"):
            events.append(" ".join([line["event"], line.get("patch", line.get("module", ""))]))

switch_off(os.environ)  # as the journal does, with a warning, where the built-in sets are left out
journal = Journal()
journal.trace_to(Sink())

def around(original, *args, **kwargs):
    return ("around", original(*args, **kwargs))

def armed(settings=Settings(), version="0.32.0"):
    environment = Environment(VllmVersion(version, "a test"))
    plan = make_plan(Catalog((patches,), {}), environment, settings)
    assert not plan.problems, plan.problems
    journal.begin(plan)
    arm(plan, settings, journal)

def states():
    return {each.id.partition("/")[2]: each.state for each in journal.status().patches}
'''


@pytest.fixture
def script(write: Write, python: Python) -> Callable[..., list[str]]:
    """Return a function that runs a script which can arm patches, and returns what it printed."""
    write("arming.py", ARMING)
    write("engine.py", "LIMIT = 16\n\ndef resolve(a):\n    return a\n")

    def script(source: str) -> list[str]:
        return python("from arming import *\nimport sys\n" + source).splitlines()

    return script


Script = Callable[..., list[str]]


def test_a_hook_fires_once_when_the_module_is_imported(script: Script) -> None:
    """Nothing happens before the import; then the patch is in effect, once, however imported."""
    assert script("""
patches.wrap("engine:resolve", around, **REASONS)
armed()
print("engine" in sys.modules, states(), events)
import engine, importlib
from engine import resolve
importlib.import_module("engine")
print(resolve(1), engine.resolve(1), states(), events)
""") == [
        "False {'around': 'armed'} []",
        "('around', 1) ('around', 1) {'around': 'applied'} ['fire engine', 'apply acme/around']",
    ]


def test_a_module_that_is_imported_already_is_patched_at_once(script: Script) -> None:
    """Arming late still patches what is there."""
    assert script("""
import engine
patches.wrap("engine:resolve", around, **REASONS)
armed()
print(engine.resolve(1), states())
""") == ["('around', 1) {'around': 'applied'}"]


def test_a_module_under_execution_is_patched_at_its_end(script: Script, write: Write) -> None:
    """What a circular import sees half-made is patched when it is whole, and not overwritten."""
    write(
        "engine.py",
        """
        import activation
        def resolve(a):
            return a
        def helper():
            return "here"
        """,
    )
    write(
        "activation.py",
        """
        import sys
        from arming import *
        patches.wrap("engine:resolve", around, **REASONS)
        armed()
        print("inside", hasattr(sys.modules["engine"], "resolve"), states())
        """,
    )

    assert script("""
import engine
from activation import states, events
print("after", engine.resolve(1), states(), events)
print(type(engine.__spec__).__name__, engine.__spec__._initializing)
""") == [
        "inside False {'around': 'armed'}",
        "after ('around', 1) {'around': 'applied'} ['fire engine', 'apply acme/around']",
        "ModuleSpec False",
    ]


def test_a_module_whose_execution_failed_is_patched_when_it_succeeds(
    script: Script, write: Write
) -> None:
    """A hook that waited for the end of a failed import still fires at the next one."""
    write(
        "engine.py",
        """
        import arming
        if not arming.events and not arming.journal.status().patches:
            arming.patches.wrap("engine:resolve", arming.around, **arming.REASONS)
            arming.armed()
            raise RuntimeError("not this time")
        def resolve(a):
            return a
        """,
    )

    assert script("""
try:
    import engine
except RuntimeError as error:
    print(error, states(), "engine" in sys.modules)
import engine
print(engine.resolve(1), states(), events)
""") == [
        "not this time {'around': 'armed'} False",
        "('around', 1) {'around': 'applied'} ['fire engine', 'apply acme/around']",
    ]


@pytest.mark.parametrize("already_executing", [False, True], ids=["before", "during execution"])
def test_a_required_failure_stops_the_import_each_time(
    script: Script, write: Write, already_executing: bool
) -> None:
    """Whoever catches the error and imports again meets it again; unpatched code never runs."""
    arming = (
        "import arming\n"
        "if not arming.journal.status().patches:\n"
        "    arming.patches.wrap('engine:gone', arming.around, **arming.REASONS)\n"
        "    arming.armed()\n"
    )
    write("engine.py", (arming if already_executing else "") + "def resolve(a):\n    return a\n")
    before = "" if already_executing else arming

    assert (
        script(f"""
{before}
for attempt in range(3):
    try:
        import engine
    except Exception as error:
        print(type(error).__name__, "engine" in sys.modules, states())
""")
        == ["TargetNotFoundError False {'around': 'failed'}"] * 3
    )


def test_a_required_failure_says_all_that_its_reader_needs(script: Script) -> None:
    """Patch, target, version, its source, range, declaration, process, reason and the way out."""
    printed = "\n".join(
        script("""
patches.wrap("engine:resolv", around, **REASONS)
armed()
try:
    import engine
except Exception as error:
    print(error)
""")
    )

    for part in (
        "patch 'acme/around' cannot be applied to engine:resolv",
        "engine has no 'resolv'. Did you mean 'resolve'?",
        "0.32.0 (from a test)",
        "the patch is for >=0.27,<0.33",
        "<string>:4",
        "MainProcess (main)",
        "VLLM_GRAFT_PATCHES=-acme/around",
    ):
        assert part in printed


def test_an_optional_failure_warns_and_goes_on(script: Script) -> None:
    """One warning; the module is imported, and the other patches of it are applied."""
    assert script("""
import logging
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
patches.wrap("engine:gone", around, id="gone", required=False, **REASONS)
patches.wrap("engine:resolve", around, **REASONS)
armed()
import engine
print(engine.resolve(1), states(), events[1:])
""")[::5] == [
        "WARNING vllm-graft: optional patch 'acme/gone' cannot be applied to engine:gone: "
        "engine:gone does not exist: engine has no 'gone'. Name the place that it has in this "
        "version, or narrow the versions of the patch.",
        "('around', 1) {'gone': 'failed', 'around': 'applied'} "
        "['fail acme/gone', 'apply acme/around']",
    ]


def test_strict_makes_an_optional_failure_stop_the_import(script: Script) -> None:
    """With VLLM_GRAFT_STRICT an optional patch counts as required."""
    assert script("""
patches.wrap("engine:gone", around, required=False, **REASONS)
armed(Settings(strict=True))
try:
    import engine
except Exception as error:
    print(type(error).__name__)
""") == ["TargetNotFoundError"]


def test_the_patches_of_a_module_are_applied_in_the_declared_order(script: Script) -> None:
    """One fire for the module; what replaces comes first, then order, then after."""
    assert script("""
def note(text):
    return lambda original, a: f"{text}({original(a)})"
patches.wrap("engine:resolve", note("c"), id="c", after="b", **REASONS)
patches.wrap("engine:resolve", note("b"), id="b", order=2, **REASONS)
patches.wrap("engine:resolve", note("a"), id="a", order=1, **REASONS)
patches.replace("engine:resolve", lambda a: "mine", id="r", order=9, **REASONS)
armed()
import engine
print(engine.resolve(1), events)
""") == [
        "c(b(a(mine))) ['fire engine', 'apply acme/r', 'apply acme/a', 'apply acme/b', "
        "'apply acme/c']"
    ]


def test_a_patch_for_a_role_waits_until_the_process_has_it(script: Script) -> None:
    """It is applied once when the role is gained, to a module imported long before."""
    assert script("""
from vllm_graft.process import PROCESS
patches.wrap("engine:resolve", around, process="worker", **REASONS)
patches.set("engine:LIMIT", 32, process=("main", "worker"), **REASONS)
armed()
import engine
print(engine.resolve(1), engine.LIMIT, states())
PROCESS.gain("engine_core")
print(engine.resolve(1), states())
PROCESS.gain("worker")
PROCESS.gain("worker")
PROCESS.gain("api_server")
print(engine.resolve(1), states(), events[1:])
""") == [
        "1 32 {'limit': 'applied', 'around': 'armed'}",
        "1 {'limit': 'applied', 'around': 'armed'}",
        "('around', 1) {'limit': 'applied', 'around': 'applied'} "
        "['apply acme/limit', 'apply acme/around']",
    ]


def test_a_role_that_is_gained_before_the_import_waits_for_it(script: Script) -> None:
    """Gaining a role imports nothing."""
    assert script("""
from vllm_graft.process import PROCESS
patches.wrap("engine:resolve", around, process="worker", **REASONS)
armed()
PROCESS.gain("worker")
print("engine" in sys.modules, states())
import engine
print(engine.resolve(1))
""") == ["False {'around': 'armed'}", "('around', 1)"]


def test_a_vllm_without_the_module_is_found_out_when_arming(script: Script, write: Write) -> None:
    """A module that this vLLM lacks fails its patches before vLLM starts, and imports nothing."""
    # A fake vLLM: the case needs a package that lacks what a patch names.
    for file in ("__init__.py", "v1/__init__.py", "v1/core.py"):
        write(f"vllm/{file}", "raise SystemExit('imported')")

    assert script("""
import arming, logging
logging.disable()
for target, required in (
    ("vllm.gone:f", True),
    ("vllm.v1.gone.deeper:f", True),
    ("vllm.v1.core.gone:f", True),
    ("vllm.gone:f", False),
    ("vllm.v1.core:f", True),
    ("no_such_package.module:f", True),
):
    arming.patches = PatchSet("acme")
    arming.patches.wrap(target, around, id="it", required=required, **REASONS)
    try:
        armed()
    except Exception as error:
        print(target, type(error).__name__, str(error.__cause__)[:43])
    else:
        print(target, states())
print([name for name in sys.modules if name.partition(".")[0] == "vllm"])
""") == [
        "vllm.gone:f TargetNotFoundError this vLLM has no module 'vllm.gone'. Name t",
        "vllm.v1.gone.deeper:f TargetNotFoundError this vLLM has no module 'vllm.v1.gone.deepe",
        "vllm.v1.core.gone:f TargetNotFoundError this vLLM has no module 'vllm.v1.core.gone'",
        "vllm.gone:f {'it': 'failed'}",
        "vllm.v1.core:f {'it': 'armed'}",
        "no_such_package.module:f {'it': 'armed'}",
        "[]",
    ]


def test_a_forked_child_neither_loses_nor_reapplies(script: Script) -> None:
    """The child has what its parent applied, and applies what its parent had not imported yet."""
    assert script("""
import os
patches.wrap("engine:resolve", around, id="early", **REASONS)
patches.wrap("engine:resolve", around, id="other", **{**REASONS, "vllm": "<0.1"})
patches.wrap("colorsys:rgb_to_hsv", around, id="late", **REASONS)
armed()
import engine
sys.stdout.flush()
child = os.fork()
if child == 0:
    import engine, colorsys
    print(engine.resolve(1), colorsys.rgb_to_hsv(0, 0, 0), states(), events[1:], flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(engine.resolve(1), states())
""") == [
        "('around', 1) ('around', (0.0, 0.0, 0)) {'other': 'skipped', 'early': 'applied', "
        "'late': 'applied'} ['fire engine', 'apply acme/early', 'fire colorsys', "
        "'apply acme/late']",
        "('around', 1) {'other': 'skipped', 'early': 'applied', 'late': 'armed'}",
    ]


def test_a_forked_child_gains_roles_of_its_own(script: Script) -> None:
    """What waited for a role in the parent is applied in the child that takes it, there alone."""
    assert script("""
import multiprocessing
from vllm_graft.process import PROCESS
patches.wrap("engine:resolve", around, process="engine_core", **REASONS)
armed()
import engine
def child():
    PROCESS.gain("engine_core")
    print(engine.resolve(1), states(), flush=True)
process = multiprocessing.get_context("fork").Process(target=child, name="EngineCore")
process.start()
process.join()
print(engine.resolve(1), states())
""") == ["('around', 1) {'around': 'applied'}", "1 {'around': 'armed'}"]


def test_a_module_that_puts_another_in_its_place_is_patched_there(
    script: Script, write: Write
) -> None:
    """What importing gives is what is patched, as with lazy module classes."""
    write(
        "engine.py",
        """
        import sys, types
        class Lazy(types.ModuleType):
            def resolve(self, a):
                return a
        lazy = Lazy(__name__)
        lazy.resolve = lambda a: a
        sys.modules[__name__] = lazy
        """,
    )

    assert script("""
patches.wrap("engine:resolve", around, **REASONS)
armed()
import engine
print(engine.resolve(1), type(engine).__name__)
""") == ["('around', 1) Lazy"]


def test_threads_that_import_together_see_the_patch_only(script: Script, write: Write) -> None:
    """No thread gets the module between its execution and its patches."""
    write("engine.py", "import time\ntime.sleep(0.05)\ndef resolve(a):\n    return a\n")

    assert script("""
import threading
patches.wrap("engine:resolve", around, **REASONS)
armed()
seen = []
def ask():
    from engine import resolve
    seen.append(resolve(1))
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(set(seen), len(seen), events)
""") == ["{('around', 1)} 8 ['fire engine', 'apply acme/around']"]


def test_a_reloaded_module_is_patched_again(script: Script) -> None:
    """Executing a module anew makes new functions, and its patches belong on those."""
    assert script("""
import importlib
patches.wrap("engine:resolve", around, **REASONS)
armed()
import engine
importlib.reload(engine)
print(engine.resolve(1))
del sys.modules["engine"]
import engine
print(engine.resolve(1))
""") == ["('around', 1)", "('around', 1)"]


def test_a_reload_does_not_patch_twice_what_it_does_not_make_anew(
    script: Script, write: Write
) -> None:
    """A class that a module only imports is the same one after a reload, and is patched once."""
    write("home.py", "class Home:\n    def resolve(self, a):\n        return a\n")
    write("engine.py", "from home import Home\n")

    assert script("""
import importlib
def more(original, self, a):
    return original(self, a) + 10
patches.wrap("engine:Home.resolve", more, **REASONS)
armed()
import engine
print(engine.Home().resolve(1))
importlib.reload(engine)
print(engine.Home().resolve(1))
""") == ["11", "11"]


def test_a_failure_beside_what_landed_stops_every_import(script: Script, write: Write) -> None:
    """Trying again does not take the patch that landed for the one beside it that failed."""
    write("home.py", "class Home:\n    def resolve(self, a):\n        return a\n")
    write("engine.py", "from home import Home\n")

    assert (
        script("""
patches.wrap("engine:Home.resolve", around, **REASONS)
patches.subclass("engine:Home.resolve", around, id="nonsense", **REASONS)
armed()
for _ in range(2):
    try:
        import engine
        print("imported")
    except Exception as error:
        print(type(error).__name__)
""")
        == ["TargetKindError"] * 2
    )
