"""An interpreter that does not use vLLM starts as if the layer were not installed."""

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

OPTIONS = [
    pytest.param((), id="plain"),
    pytest.param(("-W", "error"), id="warnings-are-errors"),
    pytest.param(("-X", "dev"), id="development-mode"),
    pytest.param(("-bb",), id="bytes-warnings-are-errors"),
    pytest.param(("-I",), id="isolated"),
    pytest.param(("-O",), id="optimised"),
]
MODULES = "import sys\nanswer = sorted(sys.modules)"
FINDERS = """
import sys
answer = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
"""


@pytest.mark.parametrize("options", OPTIONS)
def test_imports_no_module(
    either: Interpreter, bare: Interpreter, options: tuple[str, ...]
) -> None:
    """The .pth line imports no module that the interpreter does not import by itself."""
    assert either.ask(MODULES, *options) == bare.ask(MODULES, *options)


@pytest.mark.parametrize("options", OPTIONS)
def test_adds_one_finder(either: Interpreter, bare: Interpreter, options: tuple[str, ...]) -> None:
    """One sentinel is first on sys.meta_path, though a venv processes its .pth files twice."""
    expected = ["VllmGraft", *bare.ask(FINDERS, *options)]
    assert either.ask(FINDERS, *options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_prints_nothing(either: Interpreter, options: tuple[str, ...]) -> None:
    """An interpreter start prints nothing on either stream."""
    done = either.execute("pass", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_leaves_no_names(either: Interpreter, bare: Interpreter) -> None:
    """The .pth line, which `site` executes in its own namespace, adds none but os and sys."""
    code = "import site\nanswer = sorted(vars(site))"
    added = set(either.ask(code)) - set(bare.ask(code))
    assert added <= {"os", "sys"}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import {}", id="import"),
        pytest.param("import {}.engine", id="import-submodule"),
        pytest.param("from {} import LLM", id="from-import"),
        pytest.param("import importlib; importlib.import_module('{}')", id="import-module"),
    ],
)
def test_absent_vllm(either: Interpreter, bare: Interpreter, code: str) -> None:
    """Where no vLLM is installed, importing it ends as in Python without the layer."""
    here, there = (each.execute(code.format("vllm"), "-I") for each in (either, bare))
    assert "ModuleNotFoundError: No module named 'vllm'" in there.stderr
    assert (here.returncode, here.stdout, here.stderr) == (
        there.returncode,
        there.stdout,
        there.stderr,
    )


def test_absent_vllm_is_an_answer(either: Interpreter) -> None:
    """Code that tries an optional import of vLLM goes on without it, as often as it tries."""
    answer = either.ask(
        """
        import importlib.util
        answer = []
        for _ in range(2):
            answer.append(importlib.util.find_spec("vllm"))
            try:
                import vllm
            except ModuleNotFoundError as error:
                answer.append(error.name)
        """
    )
    assert answer == [None, "vllm"] * 2


def test_vllm_installed_later(either: Interpreter, vllm: FakeVllm) -> None:
    """A vLLM that becomes importable after a failed import is patched when it is imported."""
    answer = either.ask(
        f"""
        import sys
        try:
            import vllm
        except ModuleNotFoundError:
            sys.path.insert(0, {str(vllm.folder)!r})
        import vllm
        answer = [vllm.NAME, vllm.limit()]
        """
    )
    assert answer == ["patched", 2]
