"""Releases of vLLM in the user's cache folder, where they are kept once they were fetched."""

import os
from pathlib import Path

from packaging.version import Version

from ..version import DISTRIBUTIONS
from .cache import default_folder
from .release import ReleaseTree, parts


def sources_folder() -> Path:
    """Return the folder for releases in the user's cache folder."""
    return default_folder().with_name("sources")


def cached_releases() -> list[Version]:
    """Return the versions in the cache, in order."""
    return sorted({Version(parts(each)[1]) for each in _kept()})


def cached_release(version: Version) -> ReleaseTree | None:
    """Return a release from the cache; None where it was never fetched, or is not whole."""
    public = Version(version.public)
    kept = _kept()
    for distribution in DISTRIBUTIONS:
        for file in kept:
            name, text, _ = parts(file)
            if name == distribution and (text == str(public) or Version(text) == public):
                tree = ReleaseTree(file)
                if tree.is_complete:
                    return tree
    return None


def _kept() -> list[Path]:
    """Return the files of releases, by name."""
    folder = sources_folder()
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  `glob` takes ten times as long
    except OSError:
        return []
    return [folder / each for each in names if _is_kept(each)]


def _is_kept(name: str) -> bool:
    return name.startswith("vllm") and name.endswith(".zip") and name.count("-") >= 2
