"""Where a target that is gone may be: the same name, and a similar body."""

from pathlib import Path

import pytest

from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.example import Example
from vllm_graft.check.moved import moves
from vllm_graft.check.resolution import Move
from vllm_graft.check.resolve import Resolver
from vllm_graft.check.tree import FolderTree
from vllm_graft.target import Target

from .vllm_trees import write_tree

BODY = """
    def split(self, blocks, size):
        for block in blocks:
            yield [block[i : i + size] for i in range(0, len(block), size)]
"""
UNLIKE = "    def split(self, text): return text.split()\n"
FUNCTION = (
    "def merge(a, b):\n    for each in a:\n        b.append(each * 2 + 1)\n    return sorted(b)\n"
)

OLD = {
    "old.py": f"{FUNCTION}\nclass Cache:{BODY}\nclass Unique:\n    def forward(self): return 1\n",
}


def find(root: Path, target: str, new: dict[str, str], *, example: bool = True) -> list[Move]:
    parsed = Target.parse(target)
    before = CachedResolver(FolderTree(write_tree(root / "before", OLD)), root / "cache")
    resolver = Resolver(FolderTree(write_tree(root / "after", new)))
    assert resolver.resolve(parsed).state == "missing"
    return moves(resolver, parsed, Example(before, before.resolve(parsed)) if example else None)


@pytest.mark.parametrize("example", [True, False])
@pytest.mark.parametrize(
    ("target", "new", "where"),
    [
        ("vllm.old:merge", {"new.py": FUNCTION}, "vllm.new:merge"),
        ("vllm.old:Cache", {"old/deep.py": f"class Cache:{BODY}"}, "vllm.old.deep:Cache"),
        ("vllm.old:Cache.split", {"new.py": f"class Cache:{BODY}"}, "vllm.new:Cache.split"),
        ("vllm.old:Unique.forward", {"a.py": OLD["old.py"]}, "vllm.a:Unique.forward"),
    ],
)
def test_the_same_name_in_another_module(
    tmp_path: Path, target: str, new: dict[str, str], where: str, example: bool
) -> None:
    (move,) = find(tmp_path, target, new, example=example)
    assert (str(move.target), move.is_likely) == (where, True)
    assert move.path.startswith("vllm/")
    assert move.line > 0


def test_of_several_the_similar_one_comes_first(tmp_path: Path) -> None:
    new = {"a.py": f"class Cache:\n{UNLIKE}", "b.py": f"class Cache:{BODY}"}
    first, second = find(tmp_path, "vllm.old:Cache.split", new)
    assert (str(first.target), first.is_likely) == ("vllm.b:Cache.split", True)
    assert (str(second.target), second.is_likely) == ("vllm.a:Cache.split", False)


@pytest.mark.parametrize("backwards", [False, True])
def test_of_several_that_are_as_good_the_first_by_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """In whatever order a folder or an archive has its files."""
    files = FolderTree.files
    monkeypatch.setattr(
        FolderTree, "files", lambda tree: iter(sorted(files(tree), reverse=backwards))
    )
    new = {"b.py": FUNCTION, "z.py": FUNCTION, "c.py": FUNCTION}
    found = [str(each.target) for each in find(tmp_path, "vllm.old:merge", new)]
    assert found == ["vllm.b:merge", "vllm.c:merge", "vllm.z:merge"]


@pytest.mark.parametrize("example", [True, False])
def test_for_a_module_no_other_is_named(tmp_path: Path, example: bool) -> None:
    assert find(tmp_path, "vllm.old", {"new.py": OLD["old.py"]}, example=example) == []


def test_of_several_without_an_example_none_is_likely(tmp_path: Path) -> None:
    new = {"a.py": FUNCTION, "b.py": FUNCTION}
    found = find(tmp_path, "vllm.old:merge", new, example=False)
    assert [each.is_likely for each in found] == [False, False]


def test_a_method_may_be_in_another_class(tmp_path: Path) -> None:
    (move,) = find(tmp_path, "vllm.old:Cache.split", {"a.py": f"class Renamed:{BODY}"})
    assert (str(move.target), move.is_likely) == ("vllm.a:Renamed.split", True)


@pytest.mark.parametrize("example", [True, False])
def test_without_an_example_a_function_moves_only_between_modules_called_alike(
    tmp_path: Path, example: bool
) -> None:
    new = {"entrypoints/api_router.py": FUNCTION}
    (move,) = find(tmp_path, "vllm.old:merge", new, example=example)
    assert move.is_likely == example


@pytest.mark.parametrize(
    ("target", "new"),
    [
        ("vllm.old:Cache.split", {"a.py": f"class Other:\n{UNLIKE}"}),
        ("vllm.old:Unique.forward", {"a.py": "class A:\n    def forward(self): return 1\n"}),
        ("vllm.old:merge", {"a.py": "from b import merge\nmerge(1)\n# def merge():\n"}),
        ("vllm.old:merge", {"a.py": "def merge_all(): pass\n"}),
    ],
    ids=["unlike", "name without meaning", "only used", "longer name"],
)
def test_what_only_looks_like_it_is_not_found(
    tmp_path: Path, target: str, new: dict[str, str]
) -> None:
    assert find(tmp_path, target, new) == []


def test_a_module_that_is_not_python_is_passed_over(tmp_path: Path) -> None:
    new = {"a.py": f"{FUNCTION}\n", "broken.py": "def merge(:\n"}
    (move,) = find(tmp_path, "vllm.old:merge", new)
    assert str(move.target) == "vllm.a:merge"
