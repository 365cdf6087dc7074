"""Patches that belong together, in the processes of one run: what fails in one fails in all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

GROUP = """
    OPTIONS = {{**ABOUT, "together": "kv", "required": {required}}}

    def instead():
        return "patched"

    patches.replace("vllm.early:f", instead, id="early", **OPTIONS)
    patches.replace("vllm.final:f", instead, id="final", **OPTIONS)
    patches.replace("vllm.fails:f", instead, id="culprit", **OPTIONS)
    """
MODULES = {
    "vllm/early.py": "def f():\n    return 'original'\n",
    "vllm/final.py": "def f():\n    return 'original'\n",
    # What the culprit is for is missing in one process: a fault that no plan can know of.
    "vllm/fails.py": """
        import multiprocessing
        if multiprocessing.current_process().name != {culprit!r}:
            def f():
                return "original"
        """,
    # What a process finds, written under its name; modules are imported in the order given.
    "told.py": """
        import json, multiprocessing, os, pathlib, sys

        def tell(when, *names):
            import vllm
            from vllm_graft import applied, status
            for name in names:
                try:
                    __import__(f"vllm.{name}")
                except Exception as error:
                    print(type(error).__name__)
            mine = [each for each in status().patches if each.id in (
                "acme/early", "acme/final", "acme/culprit")]
            answer = {
                "effects": [
                    sys.modules[f"vllm.{name}"].f()
                    for name in ("early", "final") if f"vllm.{name}" in sys.modules
                ],
                "states": [each.state for each in mine],
                "applied": [each.id for each in mine if applied(each.id)],
                "reasons": [each.reason for each in mine],
                "run": os.environ.get("VLLM_GRAFT_RUN"),
                "pid": os.getpid(),
            }
            file = f"{multiprocessing.current_process().name}-{when}"
            pathlib.Path(os.environ["REPORTS"], file).write_text(json.dumps(answer))
        """,
}
PROGRAM = """
    import multiprocessing, os, sys
    import told

    def child(names):
        told.tell("then", *names)
        {in_child}

    if __name__ == "__main__":
        told.tell("first", {before})
        {before_child}
        context = multiprocessing.get_context({method!r})
        process = context.Process(target=child, args=({names!r},), name="EngineCore")
        process.start()
        process.join()
        {before_last}
        told.tell("last", {after})
        sys.exit(process.exitcode)
    """
FAILED = ["failed"] * 3


class Run:
    """The fake vLLM with the group, and what the processes of a program have told."""

    def __init__(self, installed: Interpreter, vllm: FakeVllm, reports: Path) -> None:
        self._installed, self._vllm, self._reports = installed, vllm, reports

    def __call__(
        self,
        culprit: str,
        *,
        method: str = "spawn",
        before: tuple[str, ...] = (),
        names: tuple[str, ...] = (),
        after: tuple[str, ...] = (),
        before_child: str = "",
        in_child: str = "",
        before_last: str = "",
        required: bool = False,
        **variables: str,
    ) -> dict[str, Any]:
        """Run a program whose culprit is of one process; return what each one told, by name."""
        for path, text in MODULES.items():
            self._vllm.write(path, text.replace("{culprit!r}", repr(culprit)))
        self._vllm.declare(GROUP.format(required=required))
        source = PROGRAM.format(
            method=method,
            names=names,
            before=", ".join(map(repr, before)),
            after=", ".join(map(repr, after)),
            before_child=before_child,
            in_child=in_child,
            before_last=before_last,
        )
        self.done = self._installed.start(
            self._vllm.write("program.py", source),
            path=self._vllm.path,
            REPORTS=str(self._reports),
            **variables,
        )
        assert self.done.returncode == 0, self.done.stderr
        return {file.name: json.loads(file.read_text()) for file in self._reports.iterdir()}


@pytest.fixture
def run(installed: Interpreter, vllm: FakeVllm, tmp_path: Path) -> Run:
    """A program and its processes."""
    reports = tmp_path / "reports"
    reports.mkdir()
    return Run(installed, vllm, reports)


METHODS = ["spawn", "fork", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
def test_parent_sees_failure_of_child(run: Run, method: str) -> None:
    """What fails in a child counts as failed in the parent, and lands there no more."""
    told = run(
        "EngineCore", method=method, before=("early",), names=("early", "fails"), after=("final",)
    )
    first, then, last = (
        told[name] for name in ("MainProcess-first", "EngineCore-then", "MainProcess-last")
    )
    assert (first["effects"], first["states"]) == (["patched"], ["applied", "armed", "armed"])
    assert first["applied"] == ["acme/early"]
    assert (then["effects"], then["states"], then["applied"]) == (["original"], FAILED, [])
    assert (last["states"], last["applied"]) == (FAILED, [])
    assert last["effects"] == ["patched", "original"]
    for reason in (last["reasons"][0], last["reasons"][1], then["reasons"][0]):
        for part in ("'acme/culprit'", f"EngineCore, pid {then['pid']}", "vllm.fails:f"):
            assert part in reason


@pytest.mark.parametrize("method", METHODS)
def test_child_sees_failure_of_parent(run: Run, method: str) -> None:
    """What has failed in the parent lands in no child, spawned or forked."""
    told = run("MainProcess", method=method, before=("early", "fails"), names=("early", "final"))
    first, then = told["MainProcess-first"], told["EngineCore-then"]
    assert (first["effects"], first["states"]) == (["original"], FAILED)
    assert (then["effects"], then["states"]) == (["original", "original"], FAILED)
    assert then["applied"] == []
    assert f"MainProcess, pid {first['pid']}" in then["reasons"][0]


def test_parent_sees_what_a_child_skips(run: Run) -> None:
    """What the plan of one process leaves out counts in no other process of the run."""
    told = run(
        "nobody",
        before=("early",),
        before_child="os.environ['VLLM_GRAFT_PATCHES'] = '-acme/culprit'",
        names=("early",),
        after=("final",),
    )
    then, last = told["EngineCore-then"], told["MainProcess-last"]
    assert (then["effects"], then["states"]) == (["original"], ["skipped"] * 3)
    assert (last["states"], last["applied"]) == (FAILED, [])
    assert last["effects"][1] == "original"
    assert f"'acme/culprit' is skipped (EngineCore, pid {then['pid']})" in last["reasons"][0]


@pytest.mark.parametrize("method", METHODS)
def test_without_failure(run: Run, method: str) -> None:
    """A group that lands everywhere is applied everywhere, and nothing is written for it."""
    names = ("early", "fails", "final")
    told = run("nobody", method=method, before=names, names=names)
    for each in told.values():
        assert each["applied"] == ["acme/early", "acme/final", "acme/culprit"]
        assert each["effects"] == ["patched", "patched"]
        assert not Path(each["run"]).exists()


def test_started_takes_back(run: Run) -> None:
    """A process that has started takes back what landed before another one's failure, and warns."""
    started = "import vllm_graft.builtin.inside as inside; inside.started(lambda: None)"
    told = run("EngineCore", before=("early",), names=("fails",), before_last=started)
    assert told["MainProcess-first"]["effects"] == ["patched"]
    assert told["MainProcess-last"]["effects"] == ["original"]
    assert "vllm-graft: patch 'acme/early' is not in effect here: " in run.done.stderr


@pytest.mark.parametrize("required", [True, False])
def test_required_member(run: Run, required: bool) -> None:
    """Where the group is required, the failure of one raises in its process; else it warns."""
    told = run("EngineCore", names=("early", "fails"), required=required)
    assert told["EngineCore-then"]["states"] == FAILED
    assert run.done.stdout == ("TargetNotFoundError\n" if required else "")
    assert ("vllm-graft: optional patch 'acme/culprit'" in run.done.stderr) is not required


@pytest.mark.parametrize("method", METHODS)
def test_folder_of_run(run: Run, method: str) -> None:
    """All processes have one folder, for their owner alone; at the end of the run it is gone."""
    look = "found = os.stat(os.environ['VLLM_GRAFT_RUN']); print(oct(found.st_mode), found.st_uid)"
    told = run("EngineCore", method=method, names=("fails",), in_child=look)
    (folder,) = {each["run"] for each in told.values()}
    assert run.done.stdout == f"0o40700 {os.getuid()}\n"
    assert Path(folder).parent == Path(tempfile.gettempdir())
    assert not Path(folder).exists()
    assert told["MainProcess-last"]["states"] == FAILED  # it was there after the child's end


def test_child_that_exits_leaves_the_folder(run: Run) -> None:
    """A forked child that ends as Python does, with its exit functions, removes nothing."""
    fork = "pid = os.fork()\n        if not pid: sys.exit()\n        os.waitpid(pid, 0)"
    told = run("EngineCore", names=("fails",), in_child=fork)
    assert told["MainProcess-last"]["states"] == FAILED


def test_run_of_its_own(run: Run, tmp_path: Path) -> None:
    """A folder that the starter of the run names is used, and left to the starter."""
    folder = tmp_path / "run"
    told = run("EngineCore", names=("fails",), VLLM_GRAFT_RUN=str(folder))
    assert {each["run"] for each in told.values()} == {str(folder)}
    assert [file.name for file in folder.iterdir()] == ["acme@kv.json"]


@pytest.mark.parametrize("content", ["", "{}", "no JSON", "[1]"])
def test_broken_folder(run: Run, tmp_path: Path, content: str) -> None:
    """What is in the folder and is not of ours changes nothing."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "acme@kv.json").write_text(content)
    names = ("early", "fails", "final")
    told = run("nobody", before=names, names=names, VLLM_GRAFT_RUN=str(folder))
    for each in told.values():
        assert each["applied"] == ["acme/early", "acme/final", "acme/culprit"]


def test_two_runs(installed: Interpreter, vllm: FakeVllm) -> None:
    """Programs that are not each other's children know nothing of each other."""
    vllm.declare(
        "patches.wrap('vllm.late:late', lambda it: it(), id='it', together='kv', **ABOUT)\n"
    )
    code = "import os, vllm\nanswer = os.environ['VLLM_GRAFT_RUN']"
    assert installed.ask(code, path=vllm.path) != installed.ask(code, path=vllm.path)


def test_no_group(installed: Interpreter, vllm: FakeVllm) -> None:
    """Where no patch belongs to a group, the environment of children is as it was."""
    code = "import os, vllm\nanswer = os.environ.get('VLLM_GRAFT_RUN')"
    assert installed.ask(code, path=vllm.path) is None
