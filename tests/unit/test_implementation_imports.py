"""Implementations that import vLLM as old patch files do: modules of it, and their own targets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Write

pytestmark = pytest.mark.processes

DECLARED = """
from vllm_graft import PatchSet

patches = PatchSet("acme")
ABOUT = {"vllm": ">=0.1", "why": "w", "how": "h", "upstream": "u", "remove": "r"}
patches.replace("vllm.first:f", "implementation:first", **ABOUT)
patches.replace("vllm.second:f", "implementation:second", **ABOUT)
"""

ASK = """
import importlib, sys
from declared import patches
from vllm_graft.testing import armed

with armed(patches, vllm="0.32.0") as status:
    try:
        importlib.import_module({module!r})
        import vllm.first, vllm.second
        print(vllm.first.f(), vllm.second.f(), status().counts["applied"])
    except Exception as error:
        print(type(error).__name__, error)
        print("first" in vars(sys.modules["vllm"]), "vllm.first" in sys.modules)
"""


@pytest.fixture
def ask(write: Write, python: Callable[..., str]) -> Callable[..., str]:
    """Return a function that says what two patched modules do, the given one imported first."""
    write("vllm/__init__.py", "")
    write("vllm/first.py", "class Base: ...\n\ndef f(): return 'first'\n")
    write("vllm/second.py", "def f(): return 'second'\n")
    write("declared.py", DECLARED)

    def ask(implementation: str, module: str = "vllm.first") -> str:
        write("implementation.py", implementation)
        return python(ASK.format(module=module))

    return ask


@pytest.mark.parametrize("module", ["vllm.first", "vllm.second"])
@pytest.mark.parametrize(
    "imports",
    [
        pytest.param("import vllm.first\nimport vllm.second\n", id="modules"),
        pytest.param("from vllm import first, second\n", id="from their package"),
        pytest.param("from vllm.first import f\nfrom vllm.second import f as g\n", id="targets"),
        pytest.param("import vllm.first\nclass A(vllm.first.Base): ...\n", id="by the whole path"),
    ],
)
def test_an_implementation_may_import_its_targets(
    ask: Callable[..., str], imports: str, module: str
) -> None:
    """The import of one target leads to the other, whose implementation is not there yet."""
    functions = "def first(): return 'ours'\ndef second(): return 'ours too'\n"
    assert ask(imports + functions, module) == "ours ours too 2"


def test_an_implementation_keeps_the_originals_that_it_has_imported(
    ask: Callable[..., str],
) -> None:
    """They are what it was written to call; rebound, it would call itself for ever."""
    source = "from vllm.first import f as original\nfrom vllm.second import f as other\n"
    source += "def first(): return original() + '!'\ndef second(): return other() + '?'\n"
    assert ask(source) == "first! second? 2"


def test_an_implementation_that_never_has_the_name_fails(ask: Callable[..., str]) -> None:
    answer = ask("import vllm.second\ndef first(): return 'ours'\n")
    assert answer.startswith("ImplementationError patch 'acme/first' cannot be applied")
    assert "has no attribute 'second'" in answer


def test_a_failed_import_leaves_no_module_in_its_package(ask: Callable[..., str]) -> None:
    answer = ask("raise ValueError('no')\n")
    assert "ValueError: no" in answer
    assert answer.splitlines()[-1] == "False False"


def test_other_modules_are_rebound_as_ever(
    ask: Callable[..., str], write: Write, site: Path
) -> None:
    """A module that took the original meanwhile, while the implementation was imported."""
    write("vllm/user.py", "from vllm.second import f\n\ndef use(): return f()\n")
    write(
        "implementation.py",
        "import vllm.user\ndef first(): return vllm.user.use()\ndef second(): return 'ours'\n",
    )
    answer: Any = ask((site / "implementation.py").read_text())
    assert answer == "ours ours 2"
