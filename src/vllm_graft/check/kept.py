"""Releases of vLLM in the user's cache folder, where they are kept once they were fetched."""

import os
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ..version import DISTRIBUTIONS
from .cache import default_folder
from .release import ReleaseTree, parts


def sources_folder() -> Path:
    """Return the folder for releases in the user's cache folder."""
    return default_folder().with_name("sources")


def cached_releases() -> list[Version]:
    """Return the versions in the cache, in order."""
    return sorted({_told(each)[1] for each in _kept()})


def cached_release(version: Version) -> ReleaseTree | None:
    """Return a release from the cache; None where it was never fetched, or is not whole."""
    public = Version(version.public)
    kept = _kept()
    for distribution in DISTRIBUTIONS:
        for file in kept:
            if _told(file) == (distribution, public):
                tree = ReleaseTree(sources_folder() / file)
                if tree.is_complete:
                    return tree
    return None


def _kept() -> list[str]:
    """Return the names of the files of releases."""
    try:
        names = sorted(os.listdir(sources_folder()))  # noqa: PTH208  `glob` takes ten times as long
    except OSError:
        return []
    return [*filter(_is_kept, names)]


@cache  # a check can ask for each of them
def _told(name: str) -> tuple[str, Version]:
    distribution, version, _ = parts(Path(name))
    return distribution, Version(version)


def _is_kept(name: str) -> bool:
    if not (name.startswith("vllm") and name.endswith(".zip") and name.count("-") >= 2):
        return False
    try:
        Version(parts(Path(name))[1])
    except InvalidVersion:  # somebody else's file
        return False
    return True
