"""An offline engine: each patch is applied where its target lives, and changes the answer."""

from pathlib import Path

import pytest

from .conftest import Outcome, Vllm

MAIN, CORE, WORKER = "MainProcess", "EngineCore", "VllmWorker-0"


def empty_cache(vllm: Vllm) -> dict[str, str]:
    """Return the environment for a cache that no start of another test module has filled."""
    return {"VLLM_CACHE_ROOT": str(vllm.folder / "empty")}


@pytest.fixture(scope="module")
def plain(vllm: Vllm) -> Outcome:
    """vLLM with the layer switched off."""
    return vllm.ask("plain", {"VLLM_GRAFT": "0", **empty_cache(vllm)})


@pytest.fixture(scope="module")
def patched(vllm: Vllm, plain: Outcome) -> Outcome:
    """vLLM with the patches of `acme`, where the cache of model information is from without."""
    assert plain.code == 0
    return vllm.ask("patched", empty_cache(vllm))


@pytest.fixture(scope="module")
def tensor_parallel(vllm: Vllm) -> Outcome:
    """The same with two workers."""
    return vllm.ask("tensor-parallel", {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}, tensor_parallel_size=2)


def test_switched_off_there_is_no_trace_of_the_layer(plain: Outcome) -> None:
    """Under VLLM_GRAFT=0 no process has a finder, a hook or a log line of ours."""
    assert plain.code == 0, plain.log[-6000:]
    assert plain.trace == []
    assert "vllm-graft" not in plain.log
    assert plain.answer["status"]["activated_by"] is None
    assert len(plain.answer["tokens"]) == 8
    assert set(plain.answer["tokens"]) != {7}
    assert plain.answer["stop_reason"] is None


def test_every_patch_changes_the_answer(patched: Outcome) -> None:
    """The worker's patch makes the tokens 7, EngineCore's stops at four, the main one signs."""
    assert patched.code == 0, patched.log[-6000:]
    assert patched.answer["tokens"] == [7, 7, 7, 7]
    assert patched.answer["stop_reason"] == "acme"


@pytest.mark.parametrize(
    ("patch", "processes"),
    [
        ("acme/signed-answers", {MAIN}),
        ("acme/short-answers", {CORE}),
        ("acme/always-seven", {WORKER, "inspection"}),
        ("acme/inspected", {"inspection"}),
        ("acme/world-size", {WORKER}),
        ("acme/for-old-releases", set()),
        ("vllm-graft/env-variables", {MAIN, CORE, WORKER, "inspection"}),
    ],
)
def test_each_patch_is_applied_where_its_target_is_imported(
    patched: Outcome, patch: str, processes: set[str]
) -> None:
    """A patch is applied in the processes that import its target, and in no other."""
    assert patched.processes("apply", patch) == processes


def test_no_patch_is_applied_twice_in_a_process(patched: Outcome) -> None:
    """Each process applies each patch once."""
    applied = [(line["pid"], line["patch"]) for line in patched.trace if line["event"] == "apply"]
    assert len(applied) == len(set(applied))


def test_the_inspection_subprocess_is_patched(vllm: Vllm, patched: Outcome) -> None:
    """What the inspection subprocess finds, and vLLM caches, is the patched answer.

    The answer from before the patches, which vLLM has cached for the same source file, is not
    taken for it, and stays as it is for a start without them.
    """
    assert patched.code == 0
    cached = (vllm.folder / "empty" / "modelinfos").glob("*-LlamaForCausalLM*.json")
    before, after = sorted(cached, key=lambda path: len(path.name))
    assert after.name.startswith(f"{before.stem}-")
    assert '"CLS"' in after.read_text()
    assert '"CLS"' not in before.read_text()


def test_roles_are_learned(patched: Outcome) -> None:
    """Each process knows its role from its first line on."""
    first: dict[int, tuple[str, list[str]]] = {}
    for line in patched.trace:
        first.setdefault(line["pid"], (line["process"], line["roles"]))
    assert {
        (MAIN, "main"),
        (CORE, "engine_core"),
        (WORKER, "worker"),
        (MAIN, "inspection"),
    } <= {(process, roles[0]) for process, roles in first.values()}


def test_a_skip_is_traced_with_its_reason(patched: Outcome) -> None:
    """A patch whose range does not hold this vLLM is traced as skipped, with the versions."""
    skips = [
        line["detail"]
        for line in patched.trace
        if line["event"] == "skip" and line["patch"] == "acme/for-old-releases"
    ]
    assert skips
    assert all("is outside >=0.18,<0.20" in detail for detail in skips)


@pytest.mark.parametrize("role", ["main", "engine_core", "worker"])
def test_each_process_logs_one_summary(patched: Outcome, role: str) -> None:
    """Once it has started, a process logs one line of counts among vLLM's own."""
    summaries = [line for line in patched.log.splitlines() if "waiting for an import" in line]
    assert len([line for line in summaries if f"({role})" in line]) == 1
    assert all("0 failed" in line and "INFO" in line for line in summaries)


def test_the_program_can_ask(patched: Outcome) -> None:
    """`status()` in the main process says what the trace says."""
    states = {each["id"]: each["state"] for each in patched.answer["status"]["patches"]}
    assert states["acme/signed-answers"] == "applied"
    assert states["acme/for-old-releases"] == "skipped"
    assert patched.answer["status"]["activated_by"] == "pth"


def test_vllm_knows_the_variables(patched: Outcome) -> None:
    """vLLM warns of none of the layer's environment variables."""
    assert "Unknown vLLM environment variable" not in patched.log


@pytest.mark.once
def test_both_workers_of_tensor_parallelism_are_patched(tensor_parallel: Outcome) -> None:
    """With tensor parallelism of two, both workers are patched, and the answer is changed."""
    assert tensor_parallel.code == 0, tensor_parallel.log[-6000:]
    workers = tensor_parallel.processes("apply", "acme/always-seven") - {"inspection"}
    assert workers == {"VllmWorker-0", "VllmWorker-1"}
    assert tensor_parallel.answer["tokens"] == [7, 7, 7, 7]


@pytest.mark.once
def test_forked_processes_keep_what_they_inherit(vllm: Vllm) -> None:
    """Started by fork, EngineCore and worker have the patches, and apply none again."""
    forked = vllm.ask(
        "forked",
        {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"},
        fork=True,
    )
    assert forked.code == 0, forked.log[-6000:]
    assert forked.answer["start_method"] == "fork"
    assert forked.answer["tokens"] == [7, 7, 7, 7]
    assert forked.answer["stop_reason"] == "acme"
    children = {line["process"] for line in forked.trace if line["event"] == "role"}
    assert {CORE, WORKER} <= children
    booted = {line["pid"] for line in forked.trace if line["event"] == "boot"}
    forks = {line["pid"] for line in forked.trace if line["event"] == "fork"}
    assert forks
    assert not booted & forks
    assert forked.processes("apply", "vllm-graft/env-variables") <= {MAIN, "inspection"}
    assert forked.processes("apply", "acme/world-size") == {WORKER}


def test_one_trace_file_a_process(vllm: Vllm, patched: Outcome) -> None:
    """Each process writes a file of its own, that only its owner can read."""
    folder: Path = vllm.folder / "patched" / "trace"
    files = list(folder.iterdir())
    assert len(files) == len({line["pid"] for line in patched.trace})
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
