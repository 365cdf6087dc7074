"""`VLLM_GRAFT_LOCK`: what is compared before patches are armed, with which lock, and what follows.

That it holds in every process of a run is in tests/startup/test_lock.py.
"""

import importlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_graft import PatchSet, SettingError
from vllm_graft.activation import current_plan
from vllm_graft.builtin import builtin_sets
from vllm_graft.catalog import Catalog
from vllm_graft.check import lock_file
from vllm_graft.check.lock import Lock
from vllm_graft.check.own_source import own_source
from vllm_graft.check.renewal import renewal
from vllm_graft.check.source import open_sources
from vllm_graft.check.survey import survey
from vllm_graft.cli import main
from vllm_graft.errors import LockError
from vllm_graft.journal import JOURNAL
from vllm_graft.lock_guard import lock_beside
from vllm_graft.locked import APPROVE, REVIEW
from vllm_graft.plan import Plan
from vllm_graft.settings import LockPolicy, Selection, Settings

from .conftest import Write

PATCHES = """
from vllm_graft import PatchSet

patches = PatchSet("guarded")
ABOUT = {"vllm": ">=0.30,<0.40", **dict.fromkeys(("why", "how", "upstream", "remove"), "words")}

@patches.wrap("vllm.first:limit", **ABOUT)
def limit(original):
    return original() + 1

@patches.wrap("vllm.first:most", required=False, **ABOUT)
def most(original):
    return original() + 1
"""
FIRST = "def limit():\n    return 1\n\ndef most():\n    return 5\n"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VLLM_VERSION", raising=False)


@pytest.fixture
def vllm(site: Path, write: Write) -> Path:
    """A stand-in for vLLM and a distribution with two patches, which have just been locked."""
    write("vllm/__init__.py", "raise ImportError('vLLM was imported')\n")
    write("vllm/_version.py", "__version__ = version = '0.32.0'\n")
    write("vllm/first.py", FIRST)
    write("guarded/__init__.py", "")
    write("guarded/patches.py", PATCHES)
    lock_again(site)
    return site


def declared() -> Catalog:
    for name in ("guarded", "guarded.patches"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    patches: PatchSet = importlib.import_module("guarded.patches").patches
    return Catalog((patches,), {"guarded": "a test"})


def lock_again(site: Path, *sets: PatchSet, file: str = "guarded/graft.lock") -> None:
    patches = [each for found in sets or declared().sets for each in found.patches]
    rows = survey(patches, open_sources([str(site)])).rows
    verdicts = [cell.verdict for row in rows for cell in row.cells if cell.verdict.fit == "ok"]
    lock_file.write(renewal(Lock(), patches, verdicts, own_source).after, site / file)


def plan(text: str = "require", *, select: str = "", strict: bool = False) -> Plan:
    settings = Settings(
        selection=Selection.parse(select),
        strict=strict,
        version=os.environ.get("VLLM_VERSION"),
        lock=LockPolicy.parse(text),
    )
    return current_plan(settings, declared())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("warn", LockPolicy("warn")),
        (" require\n", LockPolicy("require")),
        ("require:/etc/graft.lock", LockPolicy("require", "/etc/graft.lock")),
        ("warn:a:b", LockPolicy("warn", "a:b")),
    ],
)
def test_the_variable(text: str, expected: LockPolicy | None) -> None:
    assert Settings.read({"VLLM_GRAFT_LOCK": text}).lock == expected


@pytest.mark.parametrize("text", ["1", "on", "required", "require:", ":x", "WARN", "/etc/lock"])
def test_a_value_without_a_meaning_is_an_error(text: str) -> None:
    with pytest.raises(SettingError, match=r"VLLM_GRAFT_LOCK is .*Set it to 'warn' or 'require'"):
        Settings.read({"VLLM_GRAFT_LOCK": text})


BODY = ("vllm/first.py", "return 1", "return 2", "the body of vllm.first:limit differs")
SIGNATURE = ("vllm/first.py", "limit()", "limit(x)", "it is called as (x), and was as ()")
GONE = ("vllm/first.py", "limit()", "limits()", "vllm.first:limit is not there, and has a")
SOURCE = (
    "guarded/patches.py",
    "original() + 1",
    "original() + 2",
    "the patch's own source differs",
)
VERSION = ("vllm/_version.py", "0.32.0", "0.33.0", "vLLM 0.33.0 is not in the lock; compared with")
PATCH = ("guarded/graft.lock", "guarded/limit", "guarded/other", "it is not in the lock")
NEWER = ("guarded/graft.lock", "format = 1", "format = 2", "written by a newer vllm-graft")
NO_LOCK = ("guarded/graft.lock", "format = 1", "= 1", "is not TOML")
MERGED = ("guarded/graft.lock", "format = 1", "<<<<<<< HEAD\nformat = 1", "conflict markers")
DIFFERENCES = pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [BODY, SIGNATURE, GONE, SOURCE, VERSION, PATCH, NEWER, NO_LOCK, MERGED],
    ids=["body", "signature", "gone", "source", "version", "patch", "newer", "no-lock", "merged"],
)


def edit(site: Path, name: str, before: str, after: str) -> None:
    file = site / name
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


@pytest.mark.parametrize("text", ["warn", "require"])
def test_what_is_as_it_was_locked_is_armed_without_a_word(vllm: Path, text: str) -> None:
    made = plan(text)
    assert [each.id for each in made.armed] == ["guarded/limit", "guarded/most"]
    assert (made.problems, made.warnings) == ((), ())
    assert not any(each.notes for each in made.decisions)
    edit(vllm, "vllm/first.py", "return 1\n", "return 1  # the least\n")
    again = plan(text)
    assert (again.problems, again.warnings) == ((), ())


@DIFFERENCES
def test_require_refuses_a_required_patch(
    vllm: Path, name: str, before: str, after: str, words: str
) -> None:
    edit(vllm, name, before, after)
    made = plan("require", select="guarded/limit")
    assert [type(each) for each in made.problems] == [LockError]
    text = str(made.problems[0])
    assert words in text
    for part in (
        "patch 'guarded/limit' does not run, as VLLM_GRAFT_LOCK=require asks",
        f"target: vllm.first:limit in vLLM {made.vllm.text} (from {vllm / 'vllm/_version.py'})",
        f"{vllm / 'guarded/graft.lock'}",
        f"declared at: {vllm / 'guarded/patches.py'}:7",
        "VLLM_GRAFT_PATCHES=-guarded/limit",
    ):
        assert part in text
    assert made.armed == ()


@pytest.mark.parametrize(
    ("difference", "remedy"),
    [
        *((each, REVIEW) for each in (BODY, SIGNATURE, GONE, SOURCE, VERSION)),
        (PATCH, APPROVE),
        (NEWER, "Install a newer vllm-graft, or write it anew: vllm-graft lock --anew "),
        (NO_LOCK, "Restore it, or write it anew: vllm-graft lock --anew "),
        (MERGED, "Take one side with 'git checkout --ours "),
    ],
)
def test_the_remedy_fits_what_is_wrong(
    vllm: Path, difference: tuple[str, str, str, str], remedy: str
) -> None:
    """Also where the answer is remembered. An error about the lock itself has its own."""
    edit(vllm, *difference[:3])
    for _ in range(2):
        text = str(plan("require", select="guarded/limit").problems[0])
        assert remedy in text
        others = {REVIEW, APPROVE} - {remedy}
        assert not any(each in text for each in others)


@DIFFERENCES
def test_warn_lets_it_run_and_tells(
    vllm: Path, name: str, before: str, after: str, words: str
) -> None:
    edit(vllm, name, before, after)
    made = plan("warn", select="guarded/limit")
    assert [each.id for each in made.armed] == ["guarded/limit"]
    assert made.problems == ()
    (warning,) = made.warnings
    assert "'guarded/limit': " in warning
    assert words in warning
    assert words in made.decisions[-1].notes[0]


@DIFFERENCES
def test_nobody_looks_who_is_not_asked_to(
    vllm: Path, name: str, before: str, after: str, words: str
) -> None:
    edit(vllm, name, before, after)
    made = plan("", select="guarded/limit")
    assert [each.id for each in made.armed] == ["guarded/limit"]
    assert (made.problems, made.warnings) == ((), ())


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("guarded/patches.py", "made(1)", "made(2)"), ("guarded/tools.py", "x + 1", "x + 2")],
)
def test_require_refuses_after_an_edit_of_a_helper_or_of_what_a_factory_is_given(
    vllm: Path, write: Write, name: str, before: str, after: str
) -> None:
    write(
        "guarded/tools.py",
        """
        def helper(x):
            return x + 1

        def made(size):
            return lambda original: helper(size)
        """,
    )
    about = PATCHES[PATCHES.index("ABOUT") : PATCHES.index("@patches")]
    write(
        "guarded/patches.py",
        "from vllm_graft import PatchSet\nfrom guarded.tools import made\n"
        f"patches = PatchSet('guarded')\n{about}"
        "patches.wrap('vllm.first:limit', made(1), **ABOUT)\n",
    )
    sys.modules.pop("guarded.tools", None)
    lock_again(vllm)
    assert plan("require").problems == ()
    edit(vllm, name, before, after)
    sys.modules.pop("guarded.tools", None)
    (problem,) = plan("require").problems
    assert "the patch's own source differs" in str(problem)


def test_both_signatures_are_shown(vllm: Path) -> None:
    edit(vllm, "vllm/first.py", "limit()", "limit(a, b=2)")
    assert "it is called as (a, b=2), and was as ()" in str(plan().problems[0])


def test_an_optional_patch_is_left_out_with_the_reason(vllm: Path) -> None:
    edit(vllm, "vllm/first.py", "return 5", "return 6")
    made = plan()
    assert made.problems == ()
    assert [each.id for each in made.armed] == ["guarded/limit"]
    (left_out,) = (each for each in made.decisions if not each.armed)
    assert (left_out.patch.id, left_out.cause) == ("guarded/most", "lock")
    assert "the body of vllm.first:most differs" in left_out.reason
    (warning,) = made.warnings
    assert "'guarded/most'" in warning
    assert "left out" in warning
    assert [type(each) for each in plan(strict=True).problems] == [LockError]


def test_the_version_is_the_one_that_activation_goes_by(
    vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_VERSION", "0.31.0")
    assert "vLLM 0.31.0 is not in the lock" in str(plan().problems[0])
    edit(vllm, "vllm/_version.py", "0.32.0", "dev")
    monkeypatch.setenv("VLLM_VERSION", "0.32.0")
    assert plan().problems == ()


def test_only_what_would_be_armed_is_looked_at(vllm: Path) -> None:
    edit(vllm, "guarded/patches.py", ">=0.30,<0.40", ">=0.30,<0.32")
    edit(vllm, "vllm/first.py", "return 1", "return 2")
    made = plan()
    assert {each.cause for each in made.decisions} == {"version"}
    assert made.problems == ()


def test_what_belongs_together_is_left_out_together(vllm: Path) -> None:
    for name in ("limit", "most"):
        edit(vllm, "guarded/patches.py", f'first:{name}", ', f"first:{name}\", together='x', ")
    edit(vllm, "guarded/patches.py", "required=False, ", "")
    edit(vllm, "guarded/patches.py", "**ABOUT)", "required=False, **ABOUT)")
    edit(vllm, "vllm/first.py", "return 5", "return 6")
    made = plan()
    assert {each.patch.id: each.cause for each in made.decisions} == {
        "guarded/limit": "together",
        "guarded/most": "lock",
    }


# Which lock.


def test_without_a_lock_nothing_runs_or_one_warning_says_so(vllm: Path) -> None:
    (vllm / "guarded/graft.lock").unlink()
    (warning,) = plan("warn").warnings
    assert "'guarded/limit', 'guarded/most': there is no graft.lock" in warning
    assert str(vllm / "guarded/patches.py") in warning
    made = plan("require")
    assert made.armed == ()
    assert [type(each) for each in made.problems] == [LockError]
    assert f"\n  {APPROVE}\n" in str(made.problems[0])


def test_a_lock_that_is_named_serves_instead(vllm: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.lock"
    shutil.move(vllm / "guarded/graft.lock", named)
    assert plan(f"require:{named}").problems == ()
    (problem,) = plan(f"require:{named}.gone").problems
    assert f"the lock {named}.gone cannot be read" in str(problem)
    assert f"Write it with: vllm-graft lock --output {named}.gone" in str(problem)
    assert REVIEW not in str(problem)


@pytest.mark.parametrize(
    ("lock", "others", "is_found"),
    [
        ("lib/acme/sub/graft.lock", [], True),
        ("lib/acme/graft.lock", [], True),
        ("lib/graft.lock", [], False),
        ("graft.lock", [], False),
        ("lib/graft.lock", ["pyproject.toml"], True),
        ("graft.lock", ["pyproject.toml"], True),
        ("graft.lock", ["lib/pyproject.toml"], False),
        ("graft.lock", ["pyproject.toml", "lib/other-1.0.dist-info/METADATA"], False),
        ("lib/graft.lock", ["pyproject.toml", "lib/other-1.0.dist-info/METADATA"], False),
    ],
)
def test_a_lock_is_looked_for_in_the_package_and_the_checkout(
    tmp_path: Path, lock: str, others: list[str], is_found: bool
) -> None:
    files = ["lib/acme/__init__.py", "lib/acme/sub/__init__.py", "lib/acme/sub/patches.py"]
    for name in (*files, lock, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = tmp_path / lock if is_found else None
    assert lock_beside(tmp_path / "lib/acme/sub/patches.py") == expected


@pytest.mark.parametrize(
    ("lock", "others", "is_found"),
    [
        ("lib/graft.lock", [], True),
        ("lib/graft.lock", ["lib/other-1.0.dist-info/METADATA"], True),
        ("graft.lock", ["pyproject.toml"], True),
        ("graft.lock", ["pyproject.toml", "lib/other-1.0.dist-info/METADATA"], False),
        ("graft.lock", ["lib/pyproject.toml"], False),
    ],
)
def test_a_module_without_a_package_has_it_beside_itself(
    tmp_path: Path, lock: str, others: list[str], is_found: bool
) -> None:
    for name in ("lib/patches.py", lock, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = tmp_path / lock if is_found else None
    assert lock_beside(tmp_path / "lib/patches.py") == expected


def test_what_ships_with_the_layer_has_a_lock_of_its_own_and_never_stops_vllm(
    vllm: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("vllm/envs.py", "environment_variables = {}\ndef compile_factors():\n    return {}\n")
    layer = builtin_sets()[0]
    lock_again(vllm, layer, file="shipped.lock")
    monkeypatch.setattr("vllm_graft.lock_guard.SHIPPED", vllm / "shipped.lock")
    catalog = Catalog((layer,), {layer.name: "the layer"})
    named = LockPolicy("require", str(vllm / "guarded/graft.lock"))
    settings = Settings(
        selection=Selection.parse("-vllm-graft/model*,-vllm-graft/*-*-*"), strict=True, lock=named
    )
    armed = {each.id for each in current_plan(settings, catalog).armed}
    assert "vllm-graft/compile-factors" in armed
    edit(vllm, "vllm/envs.py", "return {}", "return {1: 2}")
    made = current_plan(settings, catalog)
    assert made.problems == ()
    assert "vllm-graft/compile-factors" not in {each.id for each in made.armed}
    assert any("left out" in each and "compile_factors" in each for each in made.warnings)


# Where it is told.


def test_the_journal_warns_and_keeps_it_with_the_patch(
    vllm: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(vllm, "vllm/first.py", "return 1", "return 2")
    made = plan("warn")
    with JOURNAL.set_aside(), caplog.at_level(logging.WARNING, "vllm.graft"):
        JOURNAL.begin(made)
        armed = {each.id: each.notes for each in JOURNAL.status().patches}
        JOURNAL.applied(made.armed[0], 1.0, ["rebound x"])
        applied = {each.id: each.notes for each in JOURNAL.status().patches}
    assert "the body of vllm.first:limit differs" in caplog.text
    assert armed["guarded/most"] == ()
    (note,) = armed["guarded/limit"]
    assert applied["guarded/limit"] == (note, "rebound x")


def test_status_and_doctor_show_it(
    vllm: Path, install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("guarded", "1.0", sets={"guarded": "guarded.patches:patches"})
    monkeypatch.setenv("VLLM_GRAFT_PATCHES", "guarded/*,-vllm-graft/*")
    monkeypatch.setenv("VLLM_GRAFT_LOCK", "require")

    def doctor() -> dict[str, str]:
        found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
        return {each["check"]: f"{each['state']}: {each['detail']}" for each in found}

    assert doctor()["lock"].startswith("ok: VLLM_GRAFT_LOCK=require: every armed patch")
    edit(vllm, "vllm/first.py", "return 1", "return 2")
    shown = CliRunner().invoke(main, ["status"])
    assert shown.exit_code == 1
    assert "the body of vllm.first:limit differs" in shown.output
    assert doctor()["lock"].startswith("problem: ")
    monkeypatch.setenv("VLLM_GRAFT_LOCK", "warn")
    shown = CliRunner().invoke(main, ["status", "--json"])
    patches = {each["id"]: each for each in json.loads(shown.output)["patches"]}
    assert shown.exit_code == 0
    assert patches["guarded/limit"]["state"] == "armed"
    assert "the body of vllm.first:limit differs" in patches["guarded/limit"]["notes"][0]
    assert doctor()["lock"].startswith("warning: ")


# What is remembered.


def test_the_next_process_compares_nothing_anew(
    vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan().problems == ()

    def compare(*_: object) -> None:
        raise AssertionError("compared again")

    monkeypatch.setattr("vllm_graft.check.comparison.Comparison.__call__", compare)
    assert plan().problems == ()
    edit(vllm, "guarded/patches.py", "original() + 1", "original() + 3")
    with pytest.raises(AssertionError, match="compared again"):
        plan()


@pytest.mark.parametrize(
    ("operation", "target", "implementation"),
    [
        ("replace", "limit", "lambda: 1"),
        ("replace", "limit", "Made"),
        ("replace", "limit", "made_with(1)"),
        ("replace", "limit", "'guarded.lazy:limit'"),
        ("set", "SIZE", "3"),
        ("set", "SIZE", "Value('a:b')"),
        ("set", "SIZE", "None"),
        ("run", "", "'guarded.lazy'"),
    ],
)
def test_whatever_is_given_is_remembered(
    vllm: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    target: str,
    implementation: str,
) -> None:
    write("vllm/first.py", FIRST + "SIZE = 2\n")
    write("guarded/lazy.py", "def limit():\n    return 3\n")
    where = f"vllm.first:{target}".rstrip(":")
    write(
        "guarded/patches.py",
        f"""
        from vllm_graft import PatchSet, Value
        class Made:
            pass
        def made_with(size):
            def made():
                return size
            return made
        patches = PatchSet("guarded")
        words = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
        patches.{operation}({where!r}, {implementation}, id="it", vllm=">=0.30,<0.40", **words)
        """,
    )
    lock_again(vllm)
    assert plan("warn").warnings == ()

    def compare(*_: object) -> None:
        raise AssertionError("compared again")

    monkeypatch.setattr("vllm_graft.check.comparison.Comparison.__call__", compare)
    assert plan("warn").warnings == ()


@pytest.mark.parametrize("name", ["vllm/first.py", "guarded/patches.py"])
def test_an_edit_that_leaves_time_and_size_alone_is_seen(vllm: Path, name: str) -> None:
    assert plan().problems == ()
    before = (vllm / name).stat()
    edit(vllm, name, "1", "2")
    os.utime(vllm / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    shutil.rmtree(vllm / "guarded/__pycache__", ignore_errors=True)
    after = (vllm / name).stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert [type(each) for each in plan().problems] == [LockError]


def test_a_lock_that_is_renewed_is_seen(vllm: Path) -> None:
    edit(vllm, "vllm/first.py", "return 1", "return 2")
    assert plan().problems
    lock_again(vllm)
    assert plan().problems == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"code": 1}'])
def test_a_broken_memory_is_none(vllm: Path, tmp_path: Path, content: str) -> None:
    plan()
    (file,) = (tmp_path / "cache/vllm-graft/check").glob("locked-*.json")
    file.write_text(content)
    assert plan().problems == ()


def test_a_user_without_a_cache_folder_is_served(
    vllm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert plan().problems == ()
    monkeypatch.delenv("XDG_CACHE_HOME")

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert plan().problems == ()


def test_neither_vllm_nor_torch_is_imported(vllm: Path) -> None:
    edit(vllm, "vllm/first.py", "return 1", "return 2")
    before = set(sys.modules)
    assert plan().problems
    assert not {"vllm", "torch"} & (set(sys.modules) - before)
