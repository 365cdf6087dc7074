"""Revisions as git writes them, in clones whose path may have an `@`."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_graft.check.opening import expanded, open_tree
from vllm_graft.check.project import Project
from vllm_graft.check.revision_name import split
from vllm_graft.errors import SourceError

from .vllm_trees import write_tree


@pytest.mark.parametrize(
    ("source", "clone", "revision"),
    [
        ("clone@v1", "clone", "v1"),
        ("clone@HEAD@{1}", "clone", "HEAD@{1}"),
        ("clone@main@{yesterday}", "clone", "main@{yesterday}"),
        ("clone@main@{2 days ago}", "clone", "main@{2 days ago}"),
        ("clone@@{u}", "clone", "@{u}"),
        ("clone@{u}", "clone", "@{u}"),
        ("clone@@", "clone", "@"),
        ("clone@HEAD@{3}..HEAD@{1}", "clone", "HEAD@{3}..HEAD@{1}"),
        ("clone@a@b", "clone", "a@b"),
        ("me@here/clone@v1", "me@here/clone", "v1"),
        ("me@here/clone@HEAD@{1}", "me@here/clone", "HEAD@{1}"),
        ("me@here/clone@{u}", "me@here/clone", "@{u}"),
        ("me@here@v1", "me@here", "v1"),
        ("absent@v1", "absent", "v1"),
        ("absent@HEAD@{1}", "absent", "HEAD@{1}"),
        ("clone", None, None),
        ("clone@", None, None),
        ("@v1", None, None),
    ],
)
def test_what_is_the_path_and_what_the_revision(
    tmp_path: Path, source: str, clone: str | None, revision: str | None
) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "me@here" / "clone").mkdir(parents=True)
    assert split(source, tmp_path) == (clone and (clone, revision))


@pytest.fixture(params=["clone", "me@here"])
def clone(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a clone that follows another one, and has been at two commits."""
    root = tmp_path / str(request.param)
    git = git_in(write_tree(root, {"plain.py": "A = 1\n"}))
    git("init", "-q", "-b", "main")
    for number in (1, 2):
        (root / "vllm" / "plain.py").write_text(f"A = {number}\n")
        git("add", ".")
        git("commit", "-q", "-m", str(number))
    git("branch", "upstream", "HEAD~1")
    git("branch", "-q", "--set-upstream-to", "upstream")
    return root


def git_in(root: Path) -> Callable[..., None]:
    options = ["-C", str(root), "-c", "user.name=me", "-c", "user.email=me@here"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", *options, *arguments], check=True, capture_output=True)

    return git


@pytest.mark.parametrize(
    ("revision", "number"),
    [("HEAD", 2), ("HEAD@{1}", 1), ("main@{0}", 2), ("@{u}", 1), ("main@{u}", 1), ("@", 2)],
)
def test_a_revision_of_the_reflog_is_read(clone: Path, revision: str, number: int) -> None:
    tree = open_tree(f"{clone}@{revision}")
    assert tree.read("vllm/plain.py") == f"A = {number}\n".encode()


def test_both_ends_of_a_range_may_be_of_the_reflog(clone: Path) -> None:
    ends = expanded(f"{clone}@HEAD@{{1}}..HEAD@{{0}}")
    assert ends == [f"{clone}@HEAD@{{1}}", f"{clone}@HEAD@{{0}}"]
    assert [open_tree(each).read("vllm/plain.py") for each in ends] == [b"A = 1\n", b"A = 2\n"]


def test_what_the_reflog_does_not_have_is_told(clone: Path) -> None:
    with pytest.raises(SourceError, match=r"the clone has no revision 'HEAD@\{99\}'"):
        open_tree(f"{clone}@HEAD@{{99}}")


def test_a_project_names_it_from_its_own_folder(clone: Path) -> None:
    project = Project(clone.parent)
    assert project.located(f"{clone.name}@HEAD@{{1}}") == f"{clone}@HEAD@{{1}}"
