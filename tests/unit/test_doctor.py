"""`vllm-graft doctor` about programs: patches on names that `python -m` does not reach."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import PatchSet
from vllm_graft.builtin import builtin_sets
from vllm_graft.catalog import Catalog
from vllm_graft.cli.doctor import Finding

Write = Callable[[str, str], Path]
REASONS: Any = {"vllm": ">=0.27", "why": "w", "how": "h", "upstream": "u", "remove": "r"}
DOCTOR = importlib.import_module("vllm_graft.cli.doctor")
GUARD = "\nif __name__ == '__main__':\n    f()\n"
SOURCE = "def f():\n    return 1\n"


@pytest.fixture
def about(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Finding]]:
    """Return a function that examines the plan for sets with one patch for each target."""

    def about(*targets: str, **options: Any) -> list[Finding]:
        patches = PatchSet("acme")
        for target in targets:
            patches.wrap(
                target,
                "acme:f",
                id=target.replace(":", "-"),
                **{**REASONS, **options},
            )
        monkeypatch.setenv("VLLM_VERSION", "0.32.0")
        monkeypatch.delenv("VLLM_GRAFT_PATCHES", raising=False)
        catalog = Catalog((*builtin_sets(), patches), {})
        return [each for each in DOCTOR._plan(catalog) if each.check.startswith("module ")]

    return about


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        (SOURCE + GUARD, True),
        (SOURCE + GUARD.replace("__name__ == '__main__'", "'__main__' == __name__"), True),
        (SOURCE, False),
        (SOURCE + "NAME = '__main__'\n", False),
        (SOURCE + "if True:\n    f()\n", False),
        ("def f(:\n", False),
    ],
)
def test_a_module_that_is_a_program_is_a_warning(
    about: Callable[..., list[Finding]], write: Write, tmp_path: Path, source: str, warned: bool
) -> None:
    """Run with `python -m` it is not reached; the finding says how to start it instead."""
    name = tmp_path.name
    write(f"{name}.py", source)

    found = about(f"{name}:f", f"{name}:g")

    assert [(each.check, each.state) for each in found] == [(f"module {name}", "warning")] * warned
    for each in found:
        assert f"`python -m {name}` runs it as __main__" in each.detail
        assert "a command that imports it" in each.remedy


def test_a_module_is_not_imported_to_find_out(
    about: Callable[..., list[Finding]], write: Write
) -> None:
    """Its source is read, and that of its package is not run."""
    write("acme_program/__init__.py", "raise SystemExit('imported')\n")
    write("acme_program/server.py", SOURCE + GUARD)

    assert len(about("acme_program.server:f")) == 1


def test_what_is_not_armed_is_not_looked_at(
    about: Callable[..., list[Finding]], write: Write
) -> None:
    """A patch that is skipped reaches nothing anyway."""
    write("skipped_program.py", SOURCE + GUARD)

    assert about("skipped_program:f", requires="no-such-distribution") == []


def test_built_in_patches_are_no_news(about: Callable[..., list[Finding]], write: Write) -> None:
    """vLLM runs its registry as a program, which the layer knows."""
    for package in ("vllm", "vllm/model_executor", "vllm/model_executor/models"):
        write(f"{package}/__init__.py", "")
    write("vllm/model_executor/models/registry.py", SOURCE + GUARD)

    assert about() == []
