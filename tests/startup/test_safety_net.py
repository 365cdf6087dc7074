"""The entry point of `vllm.general_plugins`: late activation where nothing else ran."""

from pathlib import Path

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

LATE = """
import vllm.user  # takes vllm.first:limit under a name of its own
from vllm.plugins import load_general_plugins
for _ in range(2):
    load_general_plugins()
import vllm.late
from vllm_graft import status
print(status().activated_by, vllm.NAME, vllm.user.ask(), vllm.late.late())
"""
WARNING = "vllm-graft: activated late"


@pytest.fixture(params=["target-install", "no-site"])
def without_activation(
    request: pytest.FixtureRequest, bare: Interpreter, installed: Interpreter, target: Path
) -> tuple[Interpreter, list[str], list[Path]]:
    """The ways to have the package without `.pth` processing: interpreter, options, path."""
    if request.param == "target-install":
        return bare, [], [target]
    return installed, ["-S"], [installed.site_packages]


def test_activates_late(
    without_activation: tuple[Interpreter, list[str], list[Path]], vllm: FakeVllm
) -> None:
    """Where neither .pth nor stub ran, vLLM's plugin loader activates, with one warning."""
    interpreter, options, path = without_activation
    done = interpreter.execute(LATE, *options, path=[*path, *vllm.path])
    assert done.returncode == 0
    assert done.stdout == "plugin patched 2 late patched\n"
    assert done.stderr.count(WARNING) == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("remedy", ["vllm-graft doctor", "vllm-graft run -- COMMAND"])
def test_names_remedy(bare: Interpreter, target: Path, vllm: FakeVllm, remedy: str) -> None:
    """The warning names what to do about it."""
    done = bare.execute(LATE, path=[target, *vllm.path])
    assert remedy in done.stderr


def test_nothing_before_the_plugins(bare: Interpreter, target: Path, vllm: FakeVllm) -> None:
    """Without .pth and stub, the layer is not there before vLLM loads its plugins."""
    code = "import sys, vllm\nanswer = [vllm.NAME, 'vllm_graft' in sys.modules]"
    assert bare.ask(code, path=[target, *vllm.path]) == ["vllm", False]


def test_silent_when_active(either: Interpreter, vllm: FakeVllm) -> None:
    """Where the .pth line has activated, the entry point neither warns nor does anything twice."""
    assert either.run(LATE, path=vllm.path) == "pth patched 2 late patched\n"


def test_silent_with_stub(bare: Interpreter, target: Path, stub: Path, vllm: FakeVllm) -> None:
    """Where the stub has activated, the entry point neither warns nor does anything twice."""
    answer = bare.run(LATE, path=[stub, target, *vllm.path])
    assert answer == "sitecustomize patched 2 late patched\n"


def test_late_required_failure(bare: Interpreter, target: Path, vllm: FakeVllm) -> None:
    """A required patch that cannot land stops vLLM when it is activated late as well."""
    vllm.declare("patches.wrap('vllm.first:absent', int, id='missing', **ABOUT)\n")
    done = bare.execute(LATE, path=[target, *vllm.path])
    assert (done.returncode, done.stdout) == (1, "")
    assert "TargetNotFoundError: patch 'acme/missing'" in done.stderr


def test_late_failure_again(bare: Interpreter, target: Path, vllm: FakeVllm) -> None:
    """A program that catches that error and loads the plugins again meets it again."""
    vllm.declare("raise RuntimeError('broken')\n")
    code = """
        from vllm.plugins import load_general_plugins
        for _ in range(2):
            try:
                load_general_plugins()
            except Exception as error:
                print(type(error).__name__)
        """
    done = bare.execute(code, path=[target, *vllm.path])
    assert done.stdout == "BrokenSetError\n" * 2


def test_finder_that_answers_first(installed: Interpreter, vllm: FakeVllm) -> None:
    """Where another tool's finder keeps vLLM from the sentinel, the safety net says so."""
    code = """
        import importlib.machinery, sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "vllm":
                    return importlib.machinery.PathFinder.find_spec(name, path, target)
        sys.meta_path.insert(0, Finder())
        """
    done = installed.execute(f"{code}\n{_indent(LATE)}", path=vllm.path)
    assert (done.returncode, done.stdout) == (0, "plugin patched 2 late patched\n")
    assert done.stderr.count(WARNING) == 1


def _indent(code: str) -> str:
    return "\n".join(f"        {line}" for line in code.splitlines())
