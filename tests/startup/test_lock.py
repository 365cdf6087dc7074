"""`VLLM_GRAFT_LOCK` in real processes: what was locked runs, what has changed since does not."""

import json
from pathlib import Path

import pytest

from .fake_vllm import PATCHED, FakeVllm
from .interpreters import Interpreter

ALONE = {
    "VLLM_GRAFT_PATCHES": "acme/*,-vllm-graft/*",
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    "VLLM_USE_AOT_COMPILE": "0",
}
"""The patches of `acme` without those of the layer, which do not fit what stands in for vLLM here;
and the compile cache off, which the layer would switch off, and warn."""

PROGRAM = """
    import multiprocessing
    import report

    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        for name in ("EngineCore", "VllmWorker-0"):
            process = context.Process(target=report.write, name=name)
            process.start()
            process.join()
        report.write()
    """
PROCESSES = {"MainProcess", "EngineCore", "VllmWorker-0"}

EDITS = {
    "body": ("vllm/first.py", "return 1", "return 1 + 0", "the body of vllm.first:limit differs"),
    "signature": (
        "vllm/first.py",
        "limit():",
        "limit() -> int:",
        "it is called as () -> int, and was as ()",
    ),
    "patch": (
        "acme_patches.py",
        "original() + 1",
        "1 + original()",
        "the patch's own source differs",
    ),
    "version": ("vllm/_version.py", "0.32.0", "0.33.0", "vLLM 0.33.0 is not in the lock"),
    "not-in-the-lock": ("graft.lock", "acme/limit", "acme/other", "it is not in the lock"),
    "newer": ("graft.lock", "format = 1", "format = 2", "written by a newer vllm-graft"),
}


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture
def locked(installed: Interpreter, vllm: FakeVllm, cache: str) -> FakeVllm:
    """A stand-in for vLLM whose patches the command has locked."""
    file = vllm.folder / "graft.lock"
    done = installed.start(
        *("-m", "vllm_graft", "lock", vllm.folder, "--select", "acme/*", "--output", file),
        path=vllm.path,
        XDG_CACHE_HOME=cache,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert file.is_file()
    return vllm


def edit(vllm: FakeVllm, name: str, before: str, after: str) -> None:
    file = vllm.folder / name
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def start(
    installed: Interpreter, vllm: FakeVllm, folder: Path, lock: str, **variables: str
) -> tuple[int, str, dict[str, list[object]]]:
    """Run a program with three processes; return its exit code, stderr and their effects."""
    reports = folder / "reports"
    reports.mkdir(exist_ok=True)
    done = installed.start(
        vllm.write("program.py", PROGRAM),
        path=vllm.path,
        REPORTS=str(reports),
        VLLM_GRAFT_LOCK=lock,
        XDG_CACHE_HOME=str(folder / "cache"),
        **ALONE | variables,
    )
    effects = {file.name: json.loads(file.read_text())["effects"] for file in reports.iterdir()}
    return done.returncode, done.stderr, effects


def remember(installed: Interpreter, vllm: FakeVllm, folder: Path) -> None:
    """Have answers on disk that an edit must outdate."""
    cache = folder / "cache"
    variables = ALONE | {"VLLM_GRAFT_LOCK": "require", "XDG_CACHE_HOME": str(cache)}
    assert installed.run("import vllm", path=vllm.path, **variables) == ""
    assert list(cache.rglob("locked-*.json"))


@pytest.mark.parametrize("lock", ["warn", "require"])
def test_what_was_locked_runs_in_every_process_without_a_word(
    installed: Interpreter, locked: FakeVllm, tmp_path: Path, lock: str
) -> None:
    expected = (0, "", dict.fromkeys(PROCESSES, PATCHED))
    assert start(installed, locked, tmp_path, lock) == expected
    assert start(installed, locked, tmp_path, lock) == expected  # now from memory


@pytest.mark.parametrize(("name", "before", "after", "words"), EDITS.values(), ids=EDITS)
def test_warn_tells_in_every_process_and_patches(
    installed: Interpreter,
    locked: FakeVllm,
    tmp_path: Path,
    name: str,
    before: str,
    after: str,
    words: str,
) -> None:
    remember(installed, locked, tmp_path)
    edit(locked, name, before, after)
    code, stderr, effects = start(installed, locked, tmp_path, "warn")
    assert (code, effects) == (0, dict.fromkeys(PROCESSES, PATCHED))
    warnings = [line for line in stderr.splitlines() if words in line and "'acme/limit'" in line]
    assert len(warnings) == len(PROCESSES)


@pytest.mark.parametrize(("name", "before", "after", "words"), EDITS.values(), ids=EDITS)
def test_require_stops_vllm_with_what_differs(
    installed: Interpreter,
    locked: FakeVllm,
    tmp_path: Path,
    name: str,
    before: str,
    after: str,
    words: str,
) -> None:
    remember(installed, locked, tmp_path)
    edit(locked, name, before, after)
    done = installed.execute(
        "import vllm",
        path=locked.path,
        VLLM_GRAFT_LOCK="require",
        VLLM_GRAFT_PATCHES="acme/limit,-vllm-graft/*",
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert done.returncode == 1
    assert "vllm_graft.errors.LockError: patch 'acme/limit' does not run" in done.stderr
    for part in (
        words,
        "target: vllm.first:limit in vLLM 0.3",
        f"(from {locked.folder / 'vllm' / '_version.py'})",
        f"{locked.folder / 'graft.lock'}",
        f"declared at: {locked.folder / 'acme_patches.py'}:",
        "vllm-graft lock",
        "VLLM_GRAFT_PATCHES=-acme/limit",
    ):
        assert part in done.stderr


def test_an_optional_patch_is_left_out_and_traced(
    installed: Interpreter, locked: FakeVllm, tmp_path: Path
) -> None:
    locked.declare("patches.set('vllm:ADDED', 2, id='optional', required=False, **ABOUT)\n")
    trace = tmp_path / "trace"
    code, stderr, effects = start(
        installed, locked, tmp_path, "require", VLLM_GRAFT_TRACE=str(trace)
    )
    assert (code, effects) == (0, dict.fromkeys(PROCESSES, PATCHED))
    assert stderr.count("'acme/optional': it is not in the lock") == len(PROCESSES)
    lines = [json.loads(x) for file in trace.iterdir() for x in file.read_text().splitlines()]
    skipped = [x["detail"] for x in lines if x["event"] == "skip" and x["patch"] == "acme/optional"]
    assert len(skipped) == len(PROCESSES)
    assert all("it is not in the lock" in detail for detail in skipped)


def test_the_trace_says_what_a_patch_runs_in_spite_of(
    installed: Interpreter, locked: FakeVllm, tmp_path: Path
) -> None:
    edit(locked, "vllm/first.py", "return 1", "return 1 + 0")
    trace = tmp_path / "trace"
    start(installed, locked, tmp_path, "warn", VLLM_GRAFT_TRACE=str(trace))
    lines = [json.loads(x) for file in trace.iterdir() for x in file.read_text().splitlines()]
    notes = [x["detail"] for x in lines if x["event"] == "plan" and x.get("patch") == "acme/limit"]
    assert len(notes) == len(PROCESSES)
    assert all("the body of vllm.first:limit differs" in each for each in notes)


def test_what_ships_with_the_layer_never_stops_vllm(
    installed: Interpreter, locked: FakeVllm, tmp_path: Path
) -> None:
    """None of it is as it was locked here; it is left out, and the patches of others run."""
    code, stderr, effects = start(
        installed, locked, tmp_path, "require", VLLM_GRAFT_PATCHES="", VLLM_GRAFT_STRICT="1"
    )
    assert (code, effects) == (0, dict.fromkeys(PROCESSES, PATCHED))
    assert "'vllm-graft/compile-factors'" in stderr


def test_a_value_without_a_meaning_stops_vllm(
    installed: Interpreter, locked: FakeVllm, tmp_path: Path
) -> None:
    code, stderr, effects = start(installed, locked, tmp_path, "yes")
    assert (code, effects) == (1, {})
    assert "SettingError: VLLM_GRAFT_LOCK is 'yes'" in stderr


def test_a_lock_in_the_package_is_found_where_it_is_installed(
    installed: Interpreter, vllm: FakeVllm, tmp_path: Path
) -> None:
    """A wheel may bring its lock along, among the modules of its package."""
    patches = (vllm.folder / "acme_patches.py").read_text()
    (vllm.folder / "acme_patches.py").unlink()
    (vllm.folder / "acme").mkdir()
    (vllm.folder / "acme" / "__init__.py").touch()
    (vllm.folder / "acme" / "patches.py").write_text(patches)
    edit(vllm, "acme-1.0.dist-info/entry_points.txt", "acme_patches:", "acme.patches:")
    done = installed.start(
        *("-m", "vllm_graft", "lock", vllm.folder, "--select", "acme/*"),
        *("--output", vllm.folder / "acme" / "graft.lock"),
        path=vllm.path,
    )
    assert done.returncode == 0, done.stderr
    code, stderr, effects = start(installed, vllm, tmp_path, "require")
    assert (code, stderr, effects) == (0, "", dict.fromkeys(PROCESSES, PATCHED))
    (vllm.folder / "acme" / "graft.lock").rename(vllm.folder / "graft.lock")
    code, stderr, _ = start(installed, vllm, tmp_path, "require")
    assert code == 1
    assert "there is no graft.lock for it beside" in stderr
