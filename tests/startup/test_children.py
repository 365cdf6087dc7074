"""The processes that vLLM starts: each is activated by itself, or inherits, and knows its role."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .fake_vllm import PATCHED, FakeVllm
from .interpreters import Interpreter

PROGRAM = """
    import multiprocessing, sys
    import report
    {before}

    def child():
        report.write()

    if __name__ == "__main__":
        context = multiprocessing.get_context({method!r})
        for name in {names!r}:
            process = context.Process(target=child, name=name)
            process.start()
            process.join()
            assert process.exitcode == 0
        report.write()
    """
ROLES = {
    "EngineCore": ["engine_core"],
    "EngineCore_DP1": ["engine_core"],
    "VllmWorker-0": ["worker"],
    "ApiServer_1": ["api_server"],
    "VLLM_DP_Coordinator": ["coordinator"],
    "Process-1": ["main"],
}
EVERYWHERE = {
    name: {"by": "pth", "process": name, "roles": roles, "effects": PATCHED, "failed": []}
    for name, roles in {"MainProcess": ["main"], **ROLES}.items()
}


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """The folder to which processes write what they are."""
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


def read_reports(folder: Path) -> dict[str, Any]:
    return {file.name: json.loads(file.read_text()) for file in folder.iterdir()}


def read_traces(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the trace lines of each process by its last name, one file a process."""
    found = {}
    for file in folder.iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert {line["pid"] for line in lines} == {int(file.stem.rpartition("-")[2])}
        found[lines[-1]["process"]] = lines
    return found


def events(lines: list[dict[str, Any]], *kinds: str) -> list[str]:
    """Return the lines of some kinds in short, those about the layer's own patches left out."""
    chosen = [line for line in lines if line["event"] in kinds]
    own = "vllm-graft/"
    return [
        f"{line['event']} {line.get('patch', '')}".strip()
        for line in chosen
        if not line.get("patch", "").startswith(own)
    ]


@pytest.mark.parametrize(
    ("method", "before"),
    [
        pytest.param("spawn", "", id="spawn"),
        pytest.param("forkserver", "", id="forkserver"),
        pytest.param("fork", "", id="fork-before-import"),
        pytest.param("fork", "import vllm.user", id="fork-after-import"),
        pytest.param("fork", "import vllm.late", id="fork-after-all-imports"),
    ],
)
def test_children(
    installed: Interpreter, vllm: FakeVllm, reports: Path, method: str, before: str
) -> None:
    """Whatever the start method, a child has its own role, and each patch in effect once."""
    source = PROGRAM.format(method=method, before=before, names=list(ROLES))
    program = vllm.write("program.py", source)
    done = installed.start(program, path=vllm.path, REPORTS=str(reports))
    assert (done.returncode, done.stderr) == (0, "")
    assert read_reports(reports) == EVERYWHERE


def test_preloaded_forkserver(installed: Interpreter, vllm: FakeVllm, reports: Path) -> None:
    """A child of a fork server that has imported vLLM already has its own role and the patches."""
    before = "multiprocessing.set_forkserver_preload(['vllm.user'])"
    source = PROGRAM.format(method="forkserver", before=before, names=["VllmWorker-0"])
    done = installed.start(vllm.write("program.py", source), path=vllm.path, REPORTS=str(reports))
    assert (done.returncode, done.stderr) == (0, "")
    assert read_reports(reports)["VllmWorker-0"] == EVERYWHERE["VllmWorker-0"]


def test_spawned_traces(
    installed: Interpreter, vllm: FakeVllm, reports: Path, tmp_path: Path
) -> None:
    """Each spawned process plans and applies by itself, and traces into a file of its own."""
    names = ["EngineCore", "VllmWorker-0"]
    source = PROGRAM.format(method="spawn", before="", names=names)
    done = installed.start(
        vllm.write("program.py", source),
        path=vllm.path,
        REPORTS=str(reports),
        VLLM_GRAFT_TRACE=str(tmp_path / "trace"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    traces = read_traces(tmp_path / "trace")
    assert sorted(traces) == ["EngineCore", "MainProcess", "VllmWorker-0"]
    for name, lines in traces.items():
        assert sorted(events(lines, "boot", "activate", "apply", "fork", "exit")) == [
            "activate",
            "apply acme/late",
            "apply acme/limit",
            "apply acme/name",
            "boot",
            "exit",
        ]
        assert all(line["roles"] == EVERYWHERE[name]["roles"] for line in lines)


def test_forked_traces(
    installed: Interpreter, vllm: FakeVllm, reports: Path, tmp_path: Path
) -> None:
    """A forked child applies nothing again, and what fires after the fork it applies itself."""
    source = PROGRAM.format(method="fork", before="import vllm.user", names=["EngineCore"])
    done = installed.start(
        vllm.write("program.py", source),
        path=vllm.path,
        REPORTS=str(reports),
        VLLM_GRAFT_TRACE=str(tmp_path / "trace"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    child = read_traces(tmp_path / "trace")["EngineCore"]
    assert child[0]["event"] == "fork"
    kinds = ("boot", "activate", "plan", "arm", "apply", "exit")
    assert events(child, *kinds) == ["apply acme/late", "exit"]


def test_subprocess(installed: Interpreter, vllm: FakeVllm, reports: Path) -> None:
    """A program that a vLLM process starts is activated like any other."""
    installed.run(
        """
        import subprocess, sys, vllm
        subprocess.run([sys.executable, "-c", "import report; report.write()"], check=True)
        """,
        path=vllm.path,
        REPORTS=str(reports),
    )
    assert read_reports(reports) == {"MainProcess": EVERYWHERE["MainProcess"]}


def test_run_as_module(installed: Interpreter, vllm: FakeVllm, reports: Path) -> None:
    """vLLM's model inspection, a module run by `python -m`, is activated and knows its role."""
    done = installed.start(
        "-m", "vllm.model_executor.models.registry", path=vllm.path, REPORTS=str(reports)
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected: Mapping[str, Any] = EVERYWHERE["MainProcess"] | {"roles": ["inspection"]}
    assert read_reports(reports) == {"MainProcess": expected}


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_patch_for_one_role(
    installed: Interpreter, vllm: FakeVllm, reports: Path, method: str
) -> None:
    """A patch for one role is in effect in the processes that hold it by name, in no other."""
    vllm.write("acme_role.py", "def never(original):\n    return 'never'\n")
    vllm.declare(
        "patches.wrap('vllm.late:late', 'acme_role:never', id='role',"
        " process='worker', order=1, **ABOUT)\n"
    )
    names = ["EngineCore", "VllmWorker-0"]
    source = PROGRAM.format(method=method, before="", names=names)
    done = installed.start(vllm.write("program.py", source), path=vllm.path, REPORTS=str(reports))
    assert (done.returncode, done.stderr) == (0, "")
    effects = {name: found["effects"][2] for name, found in read_reports(reports).items()}
    expected = {"MainProcess": "late patched", "EngineCore": "late patched"}
    assert effects == {**expected, "VllmWorker-0": "never"}


@pytest.mark.parametrize("umask", ["0", "0o22", "0o77"])
def test_trace_permissions(
    installed: Interpreter, vllm: FakeVllm, tmp_path: Path, umask: str
) -> None:
    """The trace folder is for its owner only, and so are its files, whatever the umask."""
    folder = tmp_path / "new" / "trace"
    code = f"import os; os.umask({umask})\nimport vllm"
    installed.run(code, path=vllm.path, VLLM_GRAFT_TRACE=str(folder))
    (file,) = folder.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]


def test_trace_cannot_be_written(installed: Interpreter, vllm: FakeVllm, tmp_path: Path) -> None:
    """A trace that cannot be written is one warning, and vLLM runs on with its patches."""
    occupied = tmp_path / "occupied"
    occupied.write_text("a file where the folder should be")
    code = "import vllm\nprint(vllm.NAME, vllm.limit())"
    done = installed.execute(code, path=vllm.path, VLLM_GRAFT_TRACE=str(occupied))
    assert (done.returncode, done.stdout) == (0, "patched 2\n")
    assert done.stderr.count("\n") == 1
    assert "vllm-graft: tracing ends here" in done.stderr
