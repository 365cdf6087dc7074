"""Roles: what a process is to vLLM, in real processes under every start method."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.process import Process

pytestmark = pytest.mark.processes

Write = Callable[[str, str], Path]
Python = Callable[..., str]

NAMES = {
    "EngineCore": "engine_core",
    "EngineCore_DP0": "engine_core",
    "VllmWorker-3": "worker",
    "ApiServer_1": "api_server",
    "APIServer_DPRank_0": "api_server",
    "VLLM_DP_Coordinator": "coordinator",
    "Process-1": "main",
}

ASKING = """
import json, multiprocessing, sys
from vllm_graft.process import PROCESS

def answer(queue):
    early = sorted(PROCESS.roles)
    PROCESS.gain("worker")
    queue.put((PROCESS.name, early, sorted(PROCESS.roles)))

def ask(method, names):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    PROCESS.gain("api_server")
    children = [context.Process(target=answer, args=(queue,), name=name) for name in names]
    [child.start() for child in children]
    answers = [queue.get(timeout=50) for _ in children]
    [child.join() for child in children]
    answers.append((PROCESS.name, sorted(PROCESS.roles), sorted(PROCESS.roles)))
    print(json.dumps(answers))
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_roles_in_children_of_every_start_method(python: Python, write: Write, method: str) -> None:
    """A child has the role of its name and what it gains itself, and nothing of its parent's."""
    write("asking.py", ASKING)
    script = f"import asking\nif __name__ == '__main__':\n    asking.ask({method!r}, {list(NAMES)})"

    answers = {name: (early, late) for name, early, late in json.loads(python(script))}

    assert answers == {
        **{name: ([role], sorted({role, "worker"})) for name, role in NAMES.items()},
        "MainProcess": (["api_server", "main"], ["api_server", "main"]),
    }


def test_the_inspection_subprocess_is_known_by_its_command(python: Python, write: Write) -> None:
    """What vLLM starts with `python -m` to look at a model is neither main nor worker."""
    # A fake module of that name: only the command line counts.
    for package in ("vllm", "vllm/model_executor", "vllm/model_executor/models"):
        write(f"{package}/__init__.py", "")
    write(
        "vllm/model_executor/models/registry.py",
        """
        import sys
        from vllm_graft.process import PROCESS
        print(sorted(PROCESS.roles))
        """,
    )

    assert (
        python("""
        import subprocess, sys
        command = [sys.executable, "-m", "vllm.model_executor.models.registry"]
        subprocess.run(command, check=True)
        """)
        == "['inspection']"
    )


@pytest.fixture
def process() -> Process:
    """Return the roles of a process that has gained none yet."""
    return Process()


def test_roles_are_gained_and_never_lost(process: Process) -> None:
    """With the in-process executors, one process is main, engine core and worker."""
    assert process.roles == {"main"}

    process.gain("engine_core")
    process.gain("worker")

    assert process.roles == {"main", "engine_core", "worker"}
    assert process.name == "MainProcess"


def test_watchers_are_told_of_each_role_once(process: Process) -> None:
    """What watches is called when a role is gained, in the order of watching."""
    told: list[Any] = []
    process.watch(lambda role: told.append(("first", role)))
    process.watch(lambda role: told.append(("second", role)))

    for role in ("worker", "worker", "engine_core"):
        process.gain(role)

    assert told == [
        ("first", "worker"),
        ("second", "worker"),
        ("first", "engine_core"),
        ("second", "engine_core"),
    ]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (None, True),
        (frozenset({"main"}), True),
        (frozenset({"main", "worker"}), True),
        (frozenset({"worker"}), False),
        (frozenset({"engine_core"}), True),
    ],
)
def test_holding_one_of_several_roles_is_enough(
    process: Process, roles: frozenset[str] | None, expected: bool
) -> None:
    """A patch without roles is for every process."""
    process.gain("engine_core")

    assert process.holds(roles) is expected


def test_a_forked_child_tells_its_watchers_anew(python: Python) -> None:
    """A role that the parent gained is gained again by the child, and its watchers are told."""
    assert python("""
        import os
        from vllm_graft.process import PROCESS
        PROCESS.watch(lambda role: print(role, sorted(PROCESS.roles), flush=True))
        PROCESS.gain("worker")
        child = os.fork()
        if child == 0:
            print(sorted(PROCESS.roles), flush=True)
            PROCESS.gain("worker")
            os._exit(0)
        os.waitpid(child, 0)
        print(sorted(PROCESS.roles))
        """).splitlines() == [
        "worker ['main', 'worker']",
        "['main']",
        "worker ['main', 'worker']",
        "['main', 'worker']",
    ]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_the_end_is_told_in_every_process(python: Python, write: Write, method: str) -> None:
    """A callback for the exit is called once in the parent, and once in a forked child."""
    write(
        "ending.py",
        """
        import multiprocessing, os
        from vllm_graft.process import PROCESS, at_exit
        def register():
            at_exit(lambda: print("end of", PROCESS.name, flush=True))
        def work():
            pass
        """,
    )

    printed = python(f"""
        import ending, multiprocessing
        if __name__ == "__main__":
            ending.register()
            child = multiprocessing.get_context({method!r}).Process(
                target=ending.work, name="EngineCore"
            )
            child.start()
            child.join()
        """).splitlines()

    forked = ["end of EngineCore"] if method == "fork" else []
    assert printed == [*forked, "end of MainProcess"]


def test_asking_for_the_role_does_not_import_multiprocessings_process(python: Python) -> None:
    """Where nobody uses multiprocessing, the process has no name but the usual."""
    assert (
        python("""
        import sys
        from vllm_graft.process import PROCESS
        sys.modules.pop("multiprocessing.process", None)
        print(PROCESS.name, sorted(PROCESS.roles), "multiprocessing.process" in sys.modules)
        """)
        == "MainProcess ['main'] False"
    )
