"""The diff of a target's definition between two vLLMs."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.difference import difference
from vllm_graft.check.tree import FolderTree, Tree
from vllm_graft.target import Target

from .vllm_trees import write_tree

BEFORE = """
import os


class C:
    size = 1

    def first(self):
        return 1

    @decorate
    def run(self, x):
        # Look.
        total = x
        return total

    def last(self):
        return 1
"""

Open = Callable[[str, str], Tree]


@pytest.fixture
def tree(tmp_path: Path) -> Open:
    def tree(version: str, text: str) -> Tree:
        return FolderTree(write_tree(tmp_path / version, {"a.py": text}, version))

    return tree


def test_a_property_is_shown_with_its_setter(tree: Open) -> None:
    text = """
class C:
    @property
    def size(self):
        return self.x

    @size.setter
    def size(self, value):
        self.x = value

    def after(self): pass
"""
    old, new = tree("0.31.0", text), tree("0.32.0", text.replace("= value", "= value + 1"))
    shown = difference(old, Target("vllm.a", "C.size"), new, Target("vllm.a", "C.size"))
    assert "-    self.x = value\n+    self.x = value + 1\n" in shown
    assert "after" not in shown


def test_a_method_is_shown_whole_with_its_decorators_and_places(tree: Open) -> None:
    old = tree("0.31.0", BEFORE)
    new = tree("0.32.0", "\n\n" + BEFORE.replace("total = x", "total = x + 1"))
    target = Target("vllm.a", "C.run")
    expected = dedent(
        """\
        --- a/vllm/a.py:11 (vLLM 0.31.0)
        +++ b/vllm/a.py:13 (vLLM 0.32.0)
        @@ -11,5 +13,5 @@
         @decorate
         def run(self, x):
             # Look.
        -    total = x
        +    total = x + 1
             return total
        """
    )
    assert difference(old, target, new, target) == expected


def test_of_a_class_only_what_differs(tree: Open) -> None:
    many = "".join(f"\n    def f{n}(self):\n        return {n}\n" for n in range(40))
    old = tree("0.31.0", BEFORE + many)
    new = tree("0.32.0", BEFORE + many.replace("return 20", "return -20"))
    shown = difference(old, Target("vllm.a", "C"), new, Target("vllm.a", "C"))
    assert "-        return 20\n+        return -20\n" in shown
    assert "f10" not in shown
    line = BEFORE.count("\n") + 3 * 20  # of the first line that is shown, in the file
    assert f"@@ -{line},7 +{line},7 @@" in shown


@pytest.mark.parametrize(
    ("target", "before", "after", "is_shown"),
    [
        ("vllm.a:C.run", "size = 1", "size = 2", False),
        ("vllm.a:C.size", "size = 1", "size = 2", True),
        ("vllm.a:C.run", "# Look.", "# See.", True),
        ("vllm.a:C.run", "@decorate", "@other", True),
        ("vllm.a:C", "import os", "import sys", False),
        ("vllm.a", "import os", "import sys", True),
    ],
)
def test_it_is_empty_where_the_definition_is_the_same(
    tree: Open, target: str, before: str, after: str, is_shown: bool
) -> None:
    assert before in BEFORE
    old, new = tree("0.31.0", BEFORE), tree("0.32.0", BEFORE.replace(before, after))
    where = Target.parse(target)
    assert bool(difference(old, where, new, where)) is is_shown


def test_what_is_gone_is_taken_away_line_by_line(tree: Open) -> None:
    old, new = tree("0.31.0", BEFORE), tree("0.32.0", BEFORE.replace("run", "go"))
    target = Target("vllm.a", "C.run")
    shown = difference(old, target, new, target).splitlines()
    assert shown[1] == "+++ /dev/null vllm.a:C.run (vLLM 0.32.0)"
    assert {line[0] for line in shown[3:]} == {"-"}
    assert len(shown) == 8


def test_a_moved_definition_is_compared_across_modules_and_indentation(tree: Open) -> None:
    old = tree("0.31.0", "class C:\n    def f(x):\n        return x\n")
    new = tree("0.32.0", "def f(x):\n    return x\n")
    assert difference(old, Target("vllm.a", "C.f"), new, Target("vllm.a", "f")) == ""


def test_answers_from_a_cache_will_do(tree: Open, tmp_path: Path) -> None:
    target = Target("vllm.a", "C.run")
    trees = tree("0.31.0", BEFORE), tree("0.32.0", BEFORE.replace("total = x", "total = 3"))
    resolvers = [CachedResolver(each, tmp_path / "cache") for each in trees]
    for each in resolvers:
        each.resolve(target)
        each.save()
    warm = [CachedResolver(each, tmp_path / "cache") for each in trees]
    found = difference(warm[0], target, warm[1], target)
    assert found == difference(trees[0], target, trees[1], target)
    assert "+    total = 3" in found
