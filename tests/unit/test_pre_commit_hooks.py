"""The hooks for pre-commit, run as it runs them: the entry and the arguments, no file names."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from vllm_graft.cli import main

from .vllm_trees import write_tree

FILE = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load(FILE.read_text(encoding="utf-8"))
}
ARGUMENTS = {"vllm-graft-docs": ["--output", "PATCHES.md"]}

PATCHES = """
    from vllm_graft import PatchSet

    patches = PatchSet("acme")
    patches.set("vllm.a:LIMIT", 1, id="limit", vllm=">=0.32,<0.33", why="w", how="h",
                upstream="u", remove="r")
    """
TABLE = """
    [project.entry-points."vllm_graft.patches"]
    acme = "acme_hooks.patches:patches"
    [tool.vllm-graft]
    vllm = ["vllm-0.32"]
    """

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command line in a project and returns its exit code."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path / "src")
    for module in ("acme_hooks", "acme_hooks.patches"):  # of another run
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "vllm-0.32", {"a.py": "LIMIT = 2\n"}, "0.32.0")
    for path, text in (("pyproject.toml", TABLE), ("src/acme_hooks/patches.py", PATCHES)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    return lambda *arguments: CliRunner().invoke(main, arguments).exit_code


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_passes_until_vllm_changes(run: Run, hook: str) -> None:
    command, *entry = HOOKS[hook]["entry"].split()
    arguments = [*entry, *ARGUMENTS.get(hook, [])]
    if "--check" in arguments:
        assert run(*arguments) == 1, "nothing is written yet"
        assert run(*(each for each in arguments if each != "--check")) == 0
    assert (command, run(*arguments)) == ("vllm-graft", 0)
    Path("vllm-0.32/vllm/a.py").write_text("MAXIMUM = 2\n", encoding="utf-8")
    assert run(*arguments) == 1


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_of_the_project_and_not_of_files(hook: str) -> None:
    """pre-commit would pass names, and run the hook several times side by side."""
    assert HOOKS[hook]["pass_filenames"] is False
    assert HOOKS[hook]["language"] == "python"


@pytest.mark.parametrize(
    ("file", "runs"),
    [
        ("pyproject.toml", True),
        ("packages/acme/pyproject.toml", True),
        ("src/acme/patches.py", True),
        ("graft.lock", True),
        ("uv.lock", False),
        ("docs/index.rst", False),
    ],
)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_runs_where_its_answer_can_have_changed(hook: str, file: str, runs: bool) -> None:
    assert bool(re.search(HOOKS[hook]["files"], file)) == runs
