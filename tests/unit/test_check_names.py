"""Which modules define a name: found once, and read again where a file has changed."""

import os
from pathlib import Path

import pytest

from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.names import names_of
from vllm_graft.check.opening import open_tree
from vllm_graft.check.tree import FolderTree
from vllm_graft.target import Target

from .vllm_trees import write_tree

FILES = {
    "a.py": "def f(): pass\nclass A:\n    def m(self): pass\n    async def n(self): pass\nf2 = 1\n",
    "b/__init__.py": "class f: pass\n",
    "b/c.py": "import os\nLIMIT: int = 1\nif x == 2: y = f(b = 3)\n",
}


class Watched(FolderTree):
    """A tree that says which files were read of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def read(self, path: str) -> bytes:
        self.opened.append(path)
        return super().read(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree", FILES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tree.names"


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("f", {"vllm.a", "vllm.b"}),
        ("A", {"vllm.a"}),
        ("m", {"vllm.a"}),
        ("n", {"vllm.a"}),
        ("f2", {"vllm.a"}),
        ("LIMIT", {"vllm.b.c"}),
        ("y", set()),
        ("vllm", set()),
        ("é", set()),
    ],
)
def test_the_modules_that_define_a_name(
    root: Path, file: Path, name: str, modules: set[str], kept: bool
) -> None:
    if kept:
        names_of(FolderTree(root), file)
    assert set(names_of(FolderTree(root), file).modules(name)) == modules


def test_modules_come_in_order_whatever_that_of_the_files_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["vllm/b/__init__.py", "vllm/a.py"]
    for order in (paths, paths[::-1]):
        monkeypatch.setattr(FolderTree, "files", lambda _, order=order: iter(order))
        assert names_of(FolderTree(root)).modules("f") == ["vllm.a", "vllm.b"]


def test_what_is_kept_is_not_read_again(root: Path, file: Path) -> None:
    first, second = Watched(root), Watched(root)
    names_of(first, file)
    assert names_of(second, file).modules("LIMIT") == ["vllm.b.c"]
    assert "vllm/a.py" in first.opened
    assert second.opened == []


def test_only_files_that_have_changed_are_read_again(root: Path, file: Path) -> None:
    names_of(FolderTree(root), file)
    (root / "vllm/a.py").write_text("def other(): pass\n")
    (root / "vllm/b/c.py").unlink()
    (root / "vllm/new.py").write_text("class New: pass\n")
    tree = Watched(root)
    names = names_of(tree, file)
    assert sorted(tree.opened) == ["vllm/a.py", "vllm/new.py"]
    found = [names.modules(name) for name in ("other", "A", "LIMIT", "New", "f")]
    assert found == [["vllm.a"], [], [], ["vllm.new"], ["vllm.b"]]


@pytest.mark.parametrize("content", [b"", b"x", b"names of modules, 0"])
def test_a_file_that_cannot_be_used_is_none(root: Path, file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    assert names_of(FolderTree(root), file).modules("A") == ["vllm.a"]


def test_a_file_of_another_tree_is_none(root: Path, file: Path, tmp_path: Path) -> None:
    other = write_tree(tmp_path / "other", {"z.py": "class A: pass\n"})
    os.utime(root / "vllm/__init__.py", (1, 1))
    names_of(FolderTree(root), file)
    assert names_of(FolderTree(other), file).modules("A") == ["vllm.z"]


def test_where_it_cannot_be_kept_it_is_made_anew(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert names_of(FolderTree(root), tmp_path / "file" / "x").modules("A") == ["vllm.a"]


def test_it_is_kept_beside_the_answers(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    resolver = CachedResolver(open_tree(str(root)), cache)
    (move,) = resolver.moves(Target.parse("vllm.gone:A"))
    resolver.save()
    assert str(move.target) == "vllm.a:A"
    assert sorted(each.suffix for each in cache.iterdir()) == [".json", ".names"]
