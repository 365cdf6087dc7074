"""Releases of vLLM from the package index.

An exact version that is kept is taken from there, and the network left alone. Which
releases are in a range is asked of the index every time: a check that passes over the newest
release, because the list of yesterday did not have it, would be worth nothing.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ..errors import SourceError
from .download import NoPythonError, Progress, fetch, turn
from .kept import cached_release, cached_releases, sources_folder
from .listing import Listing, NoAnswerError
from .release import ReleaseTree
from .simple_index import Archive

_AT_ONCE = 4


def release_trees(
    versions: Sequence[Version], progress: Progress | None = None
) -> list[ReleaseTree]:
    """Return the trees of releases, in the given order: from the cache, or else fetched.

    Local parts of versions do not matter. Raises `SourceError` where a release cannot be had.
    """
    found = {each: cached_release(each) for each in versions}
    absent = [version for version, tree in found.items() if tree is None]
    if absent:
        found |= dict(zip(absent, _fetched(absent, progress), strict=True))
    return [tree for tree in map(found.__getitem__, versions) if tree]


def releases_within(specifier: SpecifierSet) -> list[Version]:
    """Return the releases on the index in a range, in order; see `Listing.within`."""
    try:
        return _listing().within(specifier)
    except NoAnswerError as error:
        raise _with_advice(error) from error


def _fetched(versions: list[Version], progress: Progress | None) -> list[ReleaseTree]:
    """Fetch releases side by side; the first that cannot be had ends it."""
    try:
        listing = _listing()
        public = [Version(each.public) for each in versions]
        wanted = [(each, listing.candidates(each)) for each in public]
    except NoAnswerError as error:
        raise _with_advice(error) from error
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        waiting = [threads.submit(_fetch, listing, *each, progress) for each in wanted]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(
    listing: Listing, version: Version, candidates: list[Archive], progress: Progress | None
) -> ReleaseTree:
    """Fetch a release, unless another process did meanwhile."""
    folder = sources_folder()
    without = []
    with turn(folder, str(version)):
        there = cached_release(version)
        if there:
            return there
        for archive in candidates:
            try:
                return ReleaseTree(fetch(listing.web, archive, folder, progress))
            except NoPythonError as error:
                without.append(str(error))
    raise SourceError(f"no sources of vLLM {version} are on the index: {'; '.join(without)}")


@lru_cache(maxsize=1)
def _listing() -> Listing:
    return Listing()


def _with_advice(error: NoAnswerError) -> SourceError:
    """Add what can be had without the index."""
    kept = ", ".join(map(str, cached_releases()))
    if not kept:
        return error
    return SourceError(f"{error}. From the cache, by exact version, can be had: {kept}")
