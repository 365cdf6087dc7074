"""`vllm_graft.testing`: patches in effect in a block, and the interpreter as it was afterwards."""

import dataclasses
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import (
    ConflictError,
    DeclarationError,
    PatchSet,
    TargetNotFoundError,
    UnknownVersionError,
    applied,
    status,
)
from vllm_graft.finder import FINDER
from vllm_graft.groups import VARIABLE
from vllm_graft.journal import JOURNAL
from vllm_graft.landing import LANDINGS
from vllm_graft.process import PROCESS
from vllm_graft.testing import armed
from vllm_graft.version import VllmVersion

Write = Callable[[str, str], Path]
Python = Callable[..., str]
REASONS: Any = {"vllm": ">=0.27", "why": "w", "how": "h", "upstream": "u", "remove": "r"}
PTH = Path(__file__).parents[2] / "src" / "vllm_graft.pth"
CACHES = ("VLLM_DISABLE_COMPILE_CACHE", "VLLM_USE_AOT_COMPILE")

SUBJECT = """
    from dataclasses import dataclass, field

    LIMIT = 1
    TABLE = {"a": 1}
    NAMES = ["a"]

    def f():
        return "original"

    def g():
        return "original"

    class C:
        attribute = "original"
        def method(self):
            return "original"
        @classmethod
        def of_class(cls):
            return "original"
        @staticmethod
        def static():
            return "original"
        @property
        def value(self):
            return "original"

    class Child(C):
        pass

    class D:
        def __init__(self):
            self.made = "original"

    @dataclass
    class Config:
        size: int = 1
        names: list = field(default_factory=list)
    """


@pytest.fixture(autouse=True)
def subjects(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the module that is patched, and modules that take names from it."""
    for name in (*CACHES, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    write("subject.py", SUBJECT)
    write("other.py", "def h():\n    return 'original'\n")
    for name in ("user", "late_user"):
        write(f"{name}.py", "from subject import C, Config, D, f as taken\n")


def constant(*_args: Any, **_kwargs: Any) -> str:
    """Stand for an implementation that does not need the original."""
    return "patched"


def patched_d(original: Any) -> Any:
    """Return a subclass whose instances show it."""

    class D(original):  # type: ignore[misc]  # known at run time
        def __init__(self) -> None:
            super().__init__()
            self.made = "patched"

    return D


def change(module: Any) -> None:
    """Change a module in all the ways that are remembered."""
    module.LIMIT = 3
    module.TABLE["b"] = 2
    module.NAMES.append("b")
    module.added = 1
    del module.g
    module.C.static = staticmethod(constant)
    module.C.added = 1


def everything() -> PatchSet:
    """Return a set that changes the subject by every operation."""
    patches = PatchSet("acme")
    patches.run("subject", change, id="run", **REASONS)
    patches.wrap("subject:f", constant, id="f", **REASONS)
    patches.replace("subject:C.method", lambda self: "patched", id="method", **REASONS)
    patches.wrap("subject:C.of_class", constant, id="of-class", **REASONS)
    patches.wrap("subject:C.value", constant, id="value", **REASONS)
    patches.set("subject:C.attribute", "patched", id="attribute", **REASONS)
    patches.wrap("subject:Child.method", constant, id="inherited", **REASONS)
    patches.set("subject:Config.size", 2, id="size", **REASONS)
    patches.subclass("subject:D", patched_d, id="d", **REASONS)
    patches.add("subject:new", constant, id="new", **REASONS)
    return patches


def single(target: str = "subject:f", implementation: Any = constant, **options: Any) -> PatchSet:
    """Return a set with one patch."""
    patches = PatchSet(options.pop("set_name", "acme"))
    patches.wrap(target, implementation, **{"id": "it", **REASONS, **options})
    return patches


def effects(module: Any) -> dict[str, Any]:
    """Return all that patches change, as somebody sees it who uses the module."""
    return {
        "f": module.f(),
        "g": hasattr(module, "g"),
        "method": module.C().method(),
        "of_class": (module.C.of_class(), module.Child.of_class()),
        "static": module.C.static(),
        "value": module.C().value,
        "attribute": (module.C.attribute, module.Child.attribute),
        "size": (module.Config().size, module.Config.size),
        "fields": [field.default for field in dataclasses.fields(module.Config)][:1],
        "made": module.D().made,
        "new": hasattr(module, "new"),
        "constants": (module.LIMIT, dict(module.TABLE), list(module.NAMES)),
        "added": (hasattr(module, "added"), hasattr(module.C, "added")),
    }


ORIGINAL = {
    "f": "original",
    "g": True,
    "method": "original",
    "of_class": ("original", "original"),
    "static": "original",
    "value": "original",
    "attribute": ("original", "original"),
    "size": (1, 1),
    "fields": [1],
    "made": "original",
    "new": False,
    "constants": (1, {"a": 1}, ["a"]),
    "added": (False, False),
}
PATCHED = {
    "f": "patched",
    "g": False,
    "method": "patched",
    "of_class": ("patched", "patched"),
    "static": "patched",
    "value": "patched",
    "attribute": ("patched", "patched"),
    "size": (2, 2),
    "fields": [2],
    "made": "patched",
    "new": True,
    "constants": (3, {"a": 1, "b": 2}, ["a", "b"]),
    "added": (True, True),
}


def identities(module: ModuleType) -> dict[str, Any]:
    """Return the very objects that a module and its classes have."""
    found = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    for name, value in tuple(found.items()):
        if isinstance(value, type):
            found |= {f"{name}.{key}": each for key, each in vars(value).items() if key[0] != "_"}
    return found


def memory() -> dict[str, Any]:
    """Return what the layer and the process remember."""
    return {
        "journal": dict(vars(JOURNAL)),
        "landings": list(LANDINGS),
        "runs": LANDINGS.remember_runs,
        "hooks": dict(FINDER.hooks),
        "roles": PROCESS.roles,
        "watchers": list(PROCESS._watchers),
        "environment": {name: os.environ.get(name) for name in (*CACHES, VARIABLE)},
        "sentinels": [each for each in sys.meta_path if each is not FINDER],
    }


@pytest.mark.parametrize("before", [True, False], ids=["imported before", "imported in the block"])
@pytest.mark.parametrize("raising", [True, False], ids=["raising", "not raising"])
def test_patches_are_in_effect_in_the_block_alone(before: bool, raising: bool) -> None:
    """Whatever a patch changes is as it was, whoever imported it, and however the block ends."""
    original = identities(__import__("subject")) if before else {}

    with suppress(KeyError), armed(everything(), vllm="0.32.0") as inside:
        subject = __import__("subject")
        found = effects(subject)
        counts = inside().counts
        if raising:
            raise KeyError("in the block")

    assert found == PATCHED
    assert counts["applied"] == 10
    assert effects(subject) == ORIGINAL
    if before:
        now = identities(subject)
        assert now.keys() == original.keys()
        assert [name for name, value in original.items() if now[name] is not value] == []


@pytest.mark.parametrize("raising", [True, False], ids=["raising", "not raising"])
def test_the_layer_remembers_nothing_of_a_block(raising: bool) -> None:
    """Journal, landings, hooks, roles, watchers and variables are what they were."""
    __import__("wrapt").register_post_import_hook(lambda _: None, "no_such_module")
    before = memory()

    with suppress(KeyError), armed(everything(), vllm="0.32.0", roles=["worker"]):
        __import__("subject")
        during = memory()
        if raising:
            raise KeyError("in the block")

    assert memory() == before
    assert all(during[name] != before[name] for name in before if name != "sentinels")
    assert "acme/f" not in {each.id for each in status().patches}


def test_names_in_other_modules_follow() -> None:
    """Those that were taken before the block, and those that are taken in it, are originals."""
    user = __import__("user")
    subject = __import__("subject")
    original = (subject.f, subject.C, subject.Config, subject.D)

    with armed(everything(), vllm="0.32.0"):
        late = __import__("late_user")
        for module in (user, late):
            assert module.taken() == module.C().method() == module.D().made == "patched"
            assert module.Config().size == 2

    for module in (user, late):
        found = (module.taken, module.C, module.Config, module.D)
        assert all(one is other for one, other in zip(found, original, strict=True))
        assert module.taken() == module.C().method() == module.D().made == "original"
        assert module.Config().size == 1


def test_names_that_are_taken_in_the_block_alone() -> None:
    """A name that the block itself takes from a module that it imports is none of ours."""
    with armed(everything(), vllm="0.32.0"):
        late = __import__("late_user")
    subject = __import__("subject")

    assert late.taken is subject.f
    assert late.taken() == "original"
    assert (late.D, late.Config) == (subject.D, subject.Config)


def test_status_and_applied_answer_in_the_block() -> None:
    """For the sets of the block alone, by what is yielded and by the public functions."""
    patches = single()
    patches.wrap("other:h", constant, id="waiting", **REASONS)
    patches.wrap("other:h", constant, id="skipped", **{**REASONS, "vllm": "<0.30"})

    with armed(patches, vllm="0.32.0") as inside:
        assert not applied("acme/it")
        __import__("subject")
        assert applied("acme/it")
        assert {each.id: each.state for each in status().patches} == {
            "acme/it": "applied",
            "acme/waiting": "armed",
            "acme/skipped": "skipped",
        }
        assert inside() == status()
        assert (inside().vllm, inside().activated_by) == ("0.32.0", None)
        assert not applied("acme/waiting")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "patched original"),
        ({"vllm": "0.30.0"}, "patched original"),
        ({"vllm": "0.30.0", "roles": ["worker"]}, "patched patched"),
        ({"vllm": "0.30.0", "roles": ["engine_core"]}, "patched original"),
        ({"vllm": "0.30.0", "select": "-acme/it"}, "original original"),
        ({"vllm": "0.30.0", "select": "other/*", "roles": ["worker"]}, "original patched"),
        ({"vllm": "0.40.0", "roles": ["worker"]}, "original original"),
    ],
)
def test_the_block_says_what_would_be_in_the_environment(
    options: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version, selection and roles decide as they do in activation.

    Of the environment the version counts, where none is given.
    """
    monkeypatch.setenv("VLLM_VERSION", "0.30.0")
    monkeypatch.setenv("VLLM_GRAFT_PATCHES", "nobody/*")
    optional: Any = {"vllm": "==0.30.*", "required": False}
    sets = (
        single(**optional),
        single("other:h", set_name="other", process="worker", **optional),
    )

    with armed(*sets, **options):
        subject, other = __import__("subject"), __import__("other")
        assert f"{subject.f()} {other.h()}" == expected
    assert PROCESS.roles == {"main"}


def test_a_role_that_is_gained_in_the_block_is_forgotten() -> None:
    """Patches for it land when it is gained, and are taken back."""
    with armed(single(process="worker"), vllm="0.32.0"):
        subject = __import__("subject")
        before = subject.f()
        PROCESS.gain("worker")
        assert (before, subject.f()) == ("original", "patched")
    assert subject.f() == "original"
    assert PROCESS.roles == {"main"}


def test_a_module_that_is_imported_after_the_block_is_not_patched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The hooks of a block that has ended do nothing, and say nothing."""
    with armed(single("subject:gone"), single("other:h", set_name="other"), vllm="0.32.0"):
        pass
    caplog.clear()

    assert __import__("subject").f() == "original"
    assert __import__("other").h() == "original"
    assert caplog.messages == []


def test_two_blocks_in_a_row() -> None:
    """Each has its own patches, on what the one before has left as it was."""
    subject = __import__("subject")
    for word in ("one", "two", "one"):
        with armed(
            single(implementation=lambda original, word=word: f"{word} {original()}"), vllm="0.32.0"
        ) as inside:
            assert subject.f() == f"{word} original"
            assert inside().counts["applied"] == 1
    assert subject.f() == "original"


@pytest.mark.parametrize("module", ["subject imported", ""])
def test_nested_blocks(module: str) -> None:
    """The inner one stands on the outer one, and ends without it."""
    if module:
        __import__("subject")
    outer = single(implementation=lambda original: f"outer {original()}")
    inner = single(implementation=lambda original: f"inner {original()}", set_name="inner")

    with armed(outer, vllm="0.32.0") as outside:
        with armed(inner, vllm="0.32.0") as inside:
            subject = __import__("subject")
            assert subject.f() == "inner outer original"
            assert [each.id for each in inside().patches] == ["inner/it"]
        assert subject.f() == "outer original"
        assert [(each.id, each.state) for each in outside().patches] == [("acme/it", "applied")]
        assert (applied("acme/it"), applied("inner/it")) == (True, False)
    assert subject.f() == "original"


def test_what_run_changes_after_an_inner_block_is_taken_back() -> None:
    """An inner block's end does not let the outer one forget."""
    with armed(everything(), vllm="0.32.0"):
        with armed(single("other:h", set_name="inner"), vllm="0.32.0"):
            pass
        subject = __import__("subject")
        assert effects(subject) == PATCHED
    assert effects(subject) == ORIGINAL


def test_a_block_in_a_block_with_the_same_set() -> None:
    """What is in effect is in effect, and ends with the block that brought it."""
    patches = single()
    subject = __import__("subject")

    with armed(patches, vllm="0.32.0"):
        with armed(patches, vllm="0.32.0"):
            assert (subject.f(), applied("acme/it")) == ("patched", True)
        assert (subject.f(), applied("acme/it")) == ("patched", True)
    assert subject.f() == "original"


def replacing(name: str) -> PatchSet:
    """Return a set that claims a target for itself."""
    patches = PatchSet(name)
    patches.replace("subject:f", lambda: "patched", id="it", **REASONS)
    return patches


def unfinished() -> PatchSet:
    """Return a set with a declaration that has no implementation."""
    patches = PatchSet("acme")
    patches.replace("subject:f", id="it", **REASONS)
    return patches


@pytest.mark.parametrize("target", ["subject:f", "other:h"])
def test_two_patches_with_one_id_are_not_in_effect_at_once(target: str) -> None:
    """The error names both declarations, and the patch of the outer block stays."""
    subject, other = __import__("subject"), __import__("other")

    with armed(single(), vllm="0.32.0"):
        with (
            pytest.raises(ConflictError, match="'acme/it' is in effect already, declared at"),
            armed(single(target, lambda original: "inner"), vllm="0.32.0"),
        ):
            raise AssertionError("entered")
        assert (subject.f(), other.h()) == ("patched", "original")
    assert (subject.f(), other.h()) == ("original", "original")


BLOCKED: dict[str, tuple[Callable[[], list[PatchSet]], str, type[Exception]]] = {
    "missing target": (lambda: [single("subject:gone")], "0.32.0", TargetNotFoundError),
    "unknown version": (lambda: [single(vllm="<0.40")], "dev", UnknownVersionError),
    "condition": (lambda: [single(when=lambda env: 1 / 0)], "0.32.0", DeclarationError),
    "after nobody": (lambda: [single(after="gone")], "0.32.0", DeclarationError),
    "unfinished": (lambda: [unfinished()], "0.32.0", DeclarationError),
    "conflict": (lambda: [replacing("acme"), replacing("other")], "0.32.0", ConflictError),
}


@pytest.mark.parametrize(("sets", "version", "error"), BLOCKED.values(), ids=BLOCKED)
def test_what_would_stop_vllm_is_raised(
    sets: Callable[[], list[PatchSet]],
    version: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The block is not entered, and everything is as it was."""
    subject = __import__("subject")
    before, found = memory(), identities(subject)
    if version == "dev":
        monkeypatch.setattr("vllm_graft.version._override", lambda _: VllmVersion("dev", ""))

    with pytest.raises(error), armed(*sets(), vllm=version):
        raise AssertionError("entered")

    assert memory() == before
    assert identities(subject) == found


def test_an_optional_failure_is_in_the_status() -> None:
    """What would not stop vLLM does not stop the block."""
    __import__("subject")
    with armed(single("subject:gone", required=False), vllm="0.32.0") as inside:
        assert inside().counts["failed"] == 1
        assert "subject:gone does not exist" in inside().patches[0].reason


def test_a_required_failure_in_the_block_is_raised_by_the_import() -> None:
    """As in vLLM, and the module can be imported after the block."""
    with armed(single("subject:gone"), vllm="0.32.0"):
        for _ in range(2):
            with pytest.raises(TargetNotFoundError, match="acme/it"):
                __import__("subject")
    assert __import__("subject").f() == "original"


@pytest.mark.parametrize("given", [None, "0", "2"])
def test_no_compile_cache_is_used_in_a_block(
    given: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is compiled with a test's patches stays out of the caches, without a warning."""
    for name in CACHES:
        monkeypatch.delenv(name, raising=False)
        if given is not None:
            monkeypatch.setenv(name, given)

    with armed(single(), vllm="0.32.0"):
        assert [os.environ.get(name) for name in CACHES] == ["1", "0"]

    assert [os.environ.get(name) for name in CACHES] == [given, given]
    assert caplog.messages == []


def test_failures_of_groups_are_forgotten() -> None:
    """A group that fails in one block is whole in the next."""
    options: Any = {**REASONS, "together": "kv", "required": False}
    for gone in (True, False):
        patches = PatchSet("acme")
        patches.wrap("subject:f", constant, id="one", **options)
        patches.wrap(f"other:{'gone' if gone else 'h'}", constant, id="two", **options)
        with armed(patches, vllm="0.32.0") as inside:
            subject = __import__("subject")
            __import__("other")
            assert inside().counts["applied"] == (0 if gone else 2)
        assert subject.f() == "original"


BESIDE = """
import sys
from vllm_graft import PatchSet, applied, status
from vllm_graft.testing import armed, undo

reasons = dict(vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
def around(word):
    return lambda original: f"{word} {original()}"
layer = PatchSet("layer")
layer.wrap("subject:f", around("layer"), id="f", **reasons)
layer.wrap("other:h", around("layer"), id="h", **reasons)
layer.run("other", lambda module: setattr(module, "ran", True), id="run", **reasons)
patches = PatchSet("acme")
patches.wrap("subject:f", around("acme"), id="f", **reasons)
patches.wrap("other:h", around("acme"), id="h", **reasons)

def activate(*sets):
    from vllm_graft.catalog import Catalog
    from vllm_graft.hooks import arm
    from vllm_graft.journal import JOURNAL
    from vllm_graft.plan import Environment, make_plan
    from vllm_graft.settings import Settings
    from vllm_graft.version import VllmVersion
    plan = make_plan(Catalog(sets, {}), Environment(VllmVersion("0.32.0", "a test")), Settings())
    JOURNAL.begin(plan)
    arm(plan, Settings(), JOURNAL)

def states():
    return " ".join(f"{each.id}={each.state}" for each in status().patches)
"""


@pytest.fixture
def beside(python: Python) -> Callable[[str], list[str]]:
    """Return a function that runs a script in an interpreter that can activate a set."""
    return lambda script: python(BESIDE + script).splitlines()


def test_beside_an_activated_layer(beside: Callable[[str], list[str]]) -> None:
    """What the layer has in effect stays, and what it brings into effect in the block too."""
    assert beside("""
activate(layer)
import subject
with armed(patches, vllm="0.32.0"):
    import other
    print(subject.f(), "|", other.h(), "|", states())
print(subject.f(), "|", other.h(), "|", states())
del sys.modules["other"]
import other
print(subject.f(), "|", other.h(), "|", states(), applied("layer/f"))
""") == [
        "acme layer original | acme layer original | acme/f=applied acme/h=applied",
        "layer original | layer original | layer/f=applied layer/h=applied layer/run=applied",
        "layer original | layer original | layer/f=applied layer/h=applied layer/run=applied True",
    ]


def test_the_set_that_is_activated_already(beside: Callable[[str], list[str]]) -> None:
    """What is in effect by the layer counts as applied in the block, and stays."""
    assert beside("""
activate(patches)
import subject
with armed(patches, vllm="0.32.0"):
    print(subject.f(), states())
print(subject.f(), states())
""") == [
        "acme original acme/f=applied acme/h=armed",
        "acme original acme/f=applied acme/h=armed",
    ]


@pytest.mark.parametrize("by", ["install", "pth"])
def test_importing_vllm_in_the_block_does_not_activate_the_layer(
    beside: Callable[[str], list[str]], write: Write, by: str
) -> None:
    """The block has its own sets alone; what waits for vLLM is there again afterwards."""
    write("vllm/__init__.py", "def f():\n    return 'original'\n")
    waiting = PTH.read_text(encoding="utf-8") if by == "pth" else "boot.install()\n"
    assert beside(f"""
import os
from vllm_graft import boot
os.environ.pop("VLLM_GRAFT")
{waiting}
patches.wrap("vllm:f", around("acme"), id="it", **reasons)
with armed(patches, vllm="0.32.0") as inside:
    import vllm
    print(vllm.f(), boot.installed(), boot._outcome, inside().activated_by)
print(vllm.f(), boot.installed(), sys.meta_path[0].__name__)
""") == ["acme original False [] None", "original True VllmGraft"]


def test_undo_takes_back_everything(beside: Callable[[str], list[str]]) -> None:
    """Targets, names in other modules and hooks; only what a `run` did stays, and status says."""
    assert beside("""
layer.wrap("later:f", around("layer"), id="later", **reasons)
activate(layer)
import other, subject, user
undo()
sys.modules.pop("late_user", None)
import late_user
print(subject.f(), user.taken(), late_user.taken(), other.h(), other.ran)
print(user.taken is subject.f)
print({each.reason for each in status().patches}, states())
print(applied("layer/f"))
for name in ("subject", "other"):
    del sys.modules[name]
import other, subject
print(subject.f(), other.h(), hasattr(other, "ran"))
""") == [
        "original original original original True",
        "True",
        "{'taken back'} layer/f=skipped layer/h=skipped layer/run=skipped layer/later=skipped",
        "False",
        "original original False",
    ]


def test_undo_twice_and_a_block_after_it(beside: Callable[[str], list[str]]) -> None:
    """There is nothing to take back any more, and a block can arm the same patches."""
    assert beside("""
activate(patches)
import subject
undo()
undo()
print(subject.f())
with armed(patches, vllm="0.32.0"):
    print(subject.f(), states())
print(subject.f(), states())
""") == [
        "original",
        "acme original acme/f=applied acme/h=armed",
        "original acme/f=skipped acme/h=skipped",
    ]


def test_undo_in_a_block(beside: Callable[[str], list[str]]) -> None:
    """It takes back the block's patches too, and those of `run` as well there."""
    assert beside("""
import other
with armed(layer, vllm="0.32.0") as inside:
    before = other.h(), other.ran
    undo()
    print(before, other.h(), hasattr(other, "ran"), inside().counts)
print(other.h(), status().patches)
""") == [
        "('layer original', True) original False "
        "{'applied': 0, 'skipped': 3, 'failed': 0, 'armed': 0}",
        "original ()",
    ]
