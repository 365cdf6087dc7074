"""Which tree a source is: a folder, a wheel, an sdist, a revision, or what is installed."""

from pathlib import Path

from ..errors import SourceError
from ..version import package_folder
from .tree import PACKAGE, FolderTree, Tree

_TARS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")
_ZIPS = (".whl", ".zip")


def open_tree(source: str) -> Tree:
    """Return the tree that a path, or `PATH@REVISION` in a git clone, names.

    Raises `SourceError` where there is nothing, where it is no vLLM, or where it cannot be read.
    """
    path = Path(source)
    clone, at, revision = source.rpartition("@")
    tree: Tree
    if path.is_dir():
        tree = FolderTree(_root(path), source)
    elif path.is_file():
        return _packed(path)
    elif at and revision:
        from .revision import RevisionTree

        tree = RevisionTree(Path(clone), revision)
    else:
        raise SourceError(f"{source} does not exist")
    tree.raise_if_not_vllm()
    return tree


def _packed(file: Path) -> Tree:
    from .packed import TarTree, ZipTree

    if file.name.endswith(_ZIPS):
        tree = ZipTree(file)
        tree.raise_if_not_vllm()
        return tree
    if file.name.endswith(_TARS):  # to look into it takes a second: the first question does
        return TarTree(file)
    raise SourceError(f"{file} is neither a wheel nor an sdist ({', '.join(_ZIPS + _TARS)})")


def installed_tree() -> Tree:
    """Return the tree of the vLLM that this environment has; raise `SourceError` without one."""
    folder = package_folder()
    if folder is None:
        raise SourceError("no vLLM is installed here. Name a version, a wheel or a folder")
    tree = FolderTree(folder.parent, f"installed ({folder})")
    tree.is_installed = True
    tree.raise_if_not_vllm()
    return tree


def _root(folder: Path) -> Path:
    """Return what holds `vllm/`: the folder, its only unpacked sdist, or its parent."""
    resolved = folder.resolve()
    inside = [each.parent for each in folder.glob("vllm-*/vllm/__init__.py")]
    if (folder / PACKAGE / "__init__.py").is_file():
        return folder
    if resolved.name == PACKAGE and (resolved / "__init__.py").is_file():
        return resolved.parent
    return inside[0].parent if len(inside) == 1 else folder
