"""Names that a module only provides through its `__getattr__` are patched where they are."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import PatchSet, provided
from vllm_graft.provided import provided_by
from vllm_graft.target import Target
from vllm_graft.testing import armed

from .vllm_trees import write_tree

FILES = {
    "__init__.py": """
        TABLE = {"LLM": ".entrypoints.llm:LLM"}
        here = 1
        def __getattr__(name):
            from importlib import import_module
            if name in TABLE:
                module, name = TABLE[name].split(":")
                return getattr(import_module(module, __package__), name)
            raise AttributeError(name)
        """,
    "entrypoints/llm.py": "class LLM:\n    def generate(self): pass\n",
    "plain.py": "def f(): pass\n",
    "broken.py": "def __getattr__(name):\n",
}


@pytest.fixture(autouse=True)
def vllm(site: Path) -> None:
    write_tree(site, FILES)


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("vllm:LLM", "vllm.entrypoints.llm:LLM"),
        ("vllm:LLM.generate", "vllm.entrypoints.llm:LLM.generate"),
        ("vllm:here", "vllm:here"),
        ("vllm:Absent", "vllm:Absent"),
        ("vllm", "vllm"),
        ("vllm.plain:f", "vllm.plain:f"),
        ("vllm.broken:f", "vllm.broken:f"),
        ("vllm.absent:f", "vllm.absent:f"),
        ("json:dumps", "json:dumps"),
    ],
)
def test_a_target_is_followed_to_where_it_is(target: str, where: str) -> None:
    assert str(provided_by(Target.parse(target))) == where


def test_a_module_without_getattr_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following a name costs more than the rest of a plan: few patches may have to pay."""
    monkeypatch.setattr(provided, "package_folder", pytest.fail)
    assert str(provided_by(Target.parse("vllm.plain:f"))) == "vllm.plain:f"


def test_the_patch_is_in_effect_for_who_asks_the_module() -> None:
    patches = PatchSet("acme")
    words: Any = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
    patches.replace("vllm:LLM.generate", lambda self: "ours", vllm=">=0.30", **words)
    patches.add("vllm:Added", 1, vllm=">=0.30", **words)
    patches.add("vllm:LLM.added", 2, id="in-class", vllm=">=0.30", **words)
    with armed(patches):
        vllm = importlib.import_module("vllm")
        assert "vllm.entrypoints.llm" not in sys.modules
        assert vllm.LLM().generate() == "ours"
        assert vllm.Added == 1
        assert vllm.LLM.added == 2
