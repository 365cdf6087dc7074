"""The releases in the user's cache folder, for what the vLLMs that are named do not tell."""

import struct
from bisect import bisect
from collections.abc import Iterable
from functools import cached_property

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..errors import SourceError
from ..target import Target
from .example import Example
from .source import Source

_UNREADABLE = (SourceError, OSError, ValueError, struct.error)
"""What reading a file raises that is not, or not wholly, a release."""

_ASKED = 4
"""How many releases are asked for a target that none before them has."""


class AtHand:
    """Opens kept releases when something is asked of them, each once, and fetches nothing.

    One that cannot be read is passed over: nobody has named it.
    """

    def __init__(self, named: Iterable[Source] = ()) -> None:
        self._named = {each.version.version for each in named}
        self._opened: dict[Version, Source | None] = {}

    @property
    def versions(self) -> list[Version]:
        """The versions that are kept and not named, in order."""
        return self._versions

    @cached_property
    def _versions(self) -> list[Version]:
        from .kept import cached_releases  # few checks come to this

        try:
            return [each for each in cached_releases() if each not in self._named]
        except _UNREADABLE as error:
            _debug("no kept releases: %s", error)
            return []

    def example(self, version: Version, target: Target) -> Example | None:
        """Return a target as a kept release has it; None where it has not, or is not readable."""
        try:
            if version not in self._opened:
                self._opened[version] = _opened(version)
            source = self._opened[version]
            found = None if source is None else example_of(source, target)
            if source is not None and found is not None:
                source.tree.read(found.resolution.path)  # the answer may be of the cache
            return found
        except _UNREADABLE as error:
            _debug("vLLM %s is kept and cannot be read: %s", version, error)
            self._opened[version] = None
            return None

    def is_read(self, version: Version) -> bool:
        """Tell whether a kept release was asked for something, and could be read."""
        return self._opened.get(version) is not None

    def close(self) -> None:
        """Write the answers of the releases that were asked, and let go of what was read."""
        for source in filter(None, self._opened.values()):
            source.resolver.save()
            source.resolver.release()


class Nothing(AtHand):
    """No kept releases: for what must be the same on every machine."""

    @property
    def versions(self) -> list[Version]:
        """None at all."""
        return []


def example_of(source: Source, target: Target) -> Example | None:
    """Return a target as a vLLM has it; None where it has not."""
    found = source.resolver.resolve(target)
    if found.state != "found" or not found.path:
        return None
    return Example(source.resolver, found, source.text, f"vLLM {source.title}")


def nearest_first(within: SpecifierSet, versions: Iterable[Version]) -> list[Version]:
    """Return the versions in a range, the newest first, and then those nearest to it.

    Of two that are as near the older one comes first.
    """
    known = sorted(set(versions))
    inside = [i for i, each in enumerate(known) if within.contains(each, prereleases=True)]
    ends: list[float] = [*inside] or [bisect(known, lower_end(within) or Version("0")) - 0.5]

    def order(place: int) -> tuple[float, int]:
        distance = min(abs(place - end) for end in ends)
        return distance, place if distance else -place

    return [known[place] for place in sorted(range(len(known)), key=order)]


def worth_asking(within: SpecifierSet, versions: Iterable[Version]) -> list[Version]:
    """Return few versions, from the newest to the oldest in a range, else those nearest to it.

    Each that is asked for a target takes as long as a named one would.
    """
    order = nearest_first(within, versions)
    inside = [each for each in order if within.contains(each, prereleases=True)]
    if len(inside) <= _ASKED:
        return order[:_ASKED]
    return [inside[number * (len(inside) - 1) // (_ASKED - 1)] for number in range(_ASKED)]


def lower_end(within: SpecifierSet) -> Version | None:
    """Return the version that a range says it begins with; None where it says none."""
    found = [each for each in map(_lower_end, within) if each is not None]
    return max(found, default=None)


def _lower_end(specifier: Specifier) -> Version | None:
    if specifier.operator not in (">=", "==", "~="):
        return None
    try:
        return Version(specifier.version.removesuffix(".*"))
    except InvalidVersion:
        return None


def _opened(version: Version) -> Source | None:
    from .kept import cached_release

    tree = cached_release(version)
    return None if tree is None else Source(str(version), tree)


def _debug(message: str, *values: object) -> None:
    import logging  # few checks have something to say here

    logging.getLogger("vllm.graft.check").debug(message, *values)
