"""The command line starts as quickly as the command that is asked for."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_graft.check.prepare import cores
from vllm_graft.cli import COMMANDS, main

from .vllm_trees import write_tree

pytestmark = pytest.mark.processes

PATCHES = """
from vllm_graft import PatchSet
patches = PatchSet("acme")
words = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
patches.wrap("vllm.a:f", lambda original, x: 7, id="f", vllm=">=0.30,<0.34", **words)
"""

CHECK = """
import sys
from vllm_graft.cli import main
try:
    main(["check", "--json", "--vllm", sys.argv[1]])
finally:
    print(*sys.modules, file=sys.stderr)
"""


without_sets = pytest.mark.skipif(
    bool(metadata.entry_points(group="vllm_graft.patches")), reason="there are patch sets to load"
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """What a check imports that knows no answers, and then one that knows them all."""
    root = tmp_path_factory.mktemp("project")
    write_tree(root / "tree", {"a.py": "def f(x): ..."})
    (root / "acme_light.py").write_text(PATCHES)
    (root / "pyproject.toml").write_text('[tool.vllm-graft]\nsets = ["acme_light:patches"]\n')
    return [_modules(root) for _ in ("cold", "warm")]


def _modules(root: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(root / "tree")],
        cwd=root,
        env={**os.environ, "XDG_CACHE_HOME": str(root / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "module",
    [
        "rich",
        "multiprocessing",
        "difflib",
        "logging",
        "tarfile",
        pytest.param("importlib.metadata", marks=without_sets),
        "packaging.requirements",
        "vllm_graft.hooks",
        "vllm_graft.module_hook",
        "vllm_graft.check.drift",
        "vllm_graft.check.download",
        "vllm_graft.check.own_source",
        "vllm_graft.check.revision",
    ],
)
def test_a_check_for_scripts_imports_only_what_it_uses(
    imported: list[set[str]], module: str
) -> None:
    """Not tables, other processes, other commands, and what a lock or a clone would need."""
    assert all(module not in modules for modules in imported)


def test_a_check_that_knows_the_answers_does_not_import_what_finds_them(
    imported: list[set[str]],
) -> None:
    """Reading sources is for a check that has to."""
    cold, warm = imported
    assert {"vllm_graft.check.resolve", "hashlib"} <= cold - warm


ENDING = """
import atexit, os

class Held:
    def __del__(self):
        os.write(2, b"taken down")

held = Held()
atexit.register(os.write, 2, b"told")
"""


@pytest.mark.parametrize("command", [["check"], ["lock", "--check"]])
def test_a_command_that_reads_ends_without_taking_objects_down(
    tmp_path: Path, command: list[str]
) -> None:
    """What was registered for the end is called, and all output is there."""
    write_tree(tmp_path / "tree", {"a.py": "def f(x): ..."})
    (tmp_path / "acme_ending.py").write_text(PATCHES + ENDING)
    (tmp_path / "pyproject.toml").write_text('[tool.vllm-graft]\nsets = ["acme_ending:patches"]\n')
    done = subprocess.run(
        [sys.executable, "-m", "vllm_graft", *command, "--vllm", "tree"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "acme/f" in done.stdout + done.stderr
    assert done.returncode == (0 if command == ["check"] else 1)
    assert done.stderr.endswith("told")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no such file")
@pytest.mark.parametrize("command", ["check --vllm tree", "check --vllm tree --json", "list"])
def test_output_that_cannot_be_written_is_no_verdict(tmp_path: Path, command: str) -> None:
    """It ends as other wrong usage does, not as a check that something falls short of."""
    write_tree(tmp_path / "tree", {"a.py": "def f(x): ..."})
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vllm_graft", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("vllm-graft: the output cannot be written: ")
    assert "Traceback" not in done.stderr


def test_without_an_output_nothing_is_printed(tmp_path: Path) -> None:
    """With `>&-` the exit code alone is asked for."""
    command = f"exec {sys.executable} -m vllm_graft list >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=dict(os.environ), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_by_its_name(name: str) -> None:
    """The table of commands names modules that exist, and commands in them."""
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"main {name} " in result.output


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such thing")
def test_no_more_processes_than_cores_that_may_be_used() -> None:
    """Who is given one core of many by the system has one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(before)])
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
