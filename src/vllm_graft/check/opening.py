"""Which trees a source is: a folder, an archive, a revision, a release, or what is installed."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..errors import SourceError
from ..version import package_folder
from .revision_name import split
from .tree import PACKAGE, FolderTree, Tree

if TYPE_CHECKING:
    from .download import Progress
    from .packed import PackedTree

INSTALLED = "installed"

_NEWEST = re.compile(r"newest:([1-9]\d*)")

_TARS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")
_ZIPS = (".whl", ".zip")


def open_trees(*sources: str, progress: "Progress | None" = None) -> list[Tree]:
    """Return the trees of all that is named, one for each of `expanded`.

    Raises `SourceError` where there is nothing, where it is no vLLM, or where it cannot be read.
    """
    singles = expanded(*sources)
    absent = [each for each in singles if not Path(each).exists()]
    versions = [each for each in map(_version, absent) if each and not _kept(each)]
    if versions:  # they are fetched side by side
        from .index import release_trees

        release_trees(versions, progress)
    return [open_tree(each) for each in singles]


def expanded(*sources: str) -> list[str]:
    """Return the single sources that are named, each of which `open_tree` opens.

    A specifier (`>=0.31,<0.33`) names the releases on the index that are in it, `newest:3` the
    last three of all, a range (`PATH@A..B`) both its ends. What exists as a path is one source,
    whatever it looks like.
    """
    return [*dict.fromkeys(each for source in sources for each in _expanded(source))]


def _expanded(source: str) -> list[str]:
    if not source.strip():  # as a path it would be the current folder
        raise SourceError(
            f"{source!r} is an empty source: is it a variable that is not set? Name a vLLM, or "
            "leave it out"
        )
    if Path(source).exists():
        return [source]
    version = _version(source)
    if version is not None:  # `v0.32` and `0.32.0+cpu` are the same release
        return [_release(version)]
    specifier = _specifier(source)
    if specifier is not None:
        from .index import releases_within

        return [str(each) for each in releases_within(specifier)]
    newest = _NEWEST.fullmatch(source)
    if newest is not None:
        from .index import releases_within

        return [str(each) for each in releases_within(SpecifierSet())[-int(newest[1]) :]]
    from .revision import RevisionRange

    ends = RevisionRange.parse(source)
    return [*ends.ends] if ends else [source]


def open_tree(source: str, progress: "Progress | None" = None) -> Tree:
    """Return the tree of `installed`, a path, `PATH@REVISION` in a git clone, or a version number.

    Raises `SourceError` where there is nothing, where it is no vLLM, or where it cannot be read.
    """
    if source == INSTALLED:
        return installed_tree()
    path = Path(source)
    version = _version(source)
    tree: Tree
    if path.is_dir():
        tree = FolderTree(_root(path), source)
    elif path.is_file():
        tree = packed_tree(path)
    elif version is not None:
        return _kept(version) or _fetched(version, progress)
    elif named := split(source):
        from .revision import RevisionTree

        clone, revision = named
        tree = RevisionTree(Path(clone), revision)
    else:
        raise SourceError(
            f"{source!r} does not exist. A source is a folder, a wheel, an sdist, PATH@REVISION, a "
            f"version like 0.32.0, a specifier like '>=0.31', newest:3, or {INSTALLED!r}"
        )
    if not path.name.endswith(_TARS):  # to look into one takes a second: the first question does
        tree.raise_if_not_vllm()
    return tree


def packed_tree(file: Path) -> "PackedTree":
    """Return the tree of a wheel or sdist, without having looked into it."""
    from .packed import TarTree, ZipTree

    if file.name.endswith(_ZIPS):
        return ZipTree(file)
    if file.name.endswith(_TARS):
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


def _kept(version: Version) -> Tree | None:
    from .kept import cached_release

    return cached_release(version)


def _fetched(version: Version, progress: "Progress | None") -> Tree:
    from .index import release_trees  # and with it all that speaks to an index

    return release_trees([version], progress)[0]


def _version(source: str) -> Version | None:
    try:
        return Version(source)
    except InvalidVersion:
        return None


def _release(version: Version) -> str:
    """Return the public version with three parts or more, as vLLM's releases are written."""
    public = Version(version.public)
    missing = 3 - len(public.release)
    if missing <= 0 or str(public) != public.base_version:
        return str(public)
    return f"{public}{'.0' * missing}"


def _specifier(source: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(source) if source.strip() else None
    except InvalidSpecifier:
        return None


def _root(folder: Path) -> Path:
    """Return what holds `vllm/`: the folder, its only unpacked sdist, or its parent."""
    resolved = folder.resolve()
    inside = [each.parent for each in folder.glob("vllm-*/vllm/__init__.py")]
    if (folder / PACKAGE / "__init__.py").is_file():
        return folder
    if resolved.name == PACKAGE and (resolved / "__init__.py").is_file():
        return resolved.parent
    return inside[0].parent if len(inside) == 1 else folder
