"""Releases of vLLM in the user's cache folder, where they are kept once they were fetched."""

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
    for distribution in DISTRIBUTIONS:
        for file in _kept():
            name, text, _ = parts(file)
            if name == distribution and Version(text) == public:
                tree = ReleaseTree(file)
                if tree.is_complete:
                    return tree
    return None


def _kept() -> list[Path]:
    return sorted(sources_folder().glob("vllm*-*-*.zip"))
