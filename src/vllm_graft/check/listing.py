"""What the package indexes have of vLLM, of every distribution that it comes in."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ..errors import SourceError
from ..ranges import written
from ..version import DISTRIBUTIONS
from .pip_settings import pip_settings
from .simple_index import Archive, among_links, on_index
from .web import Web, without_credentials

_Ask: TypeAlias = Callable[[Web, str, str], list[Archive]]


class NoAnswerError(SourceError):
    """An index cannot be asked."""


class Listing:
    """The archives on the indexes that pip would ask. A page is read once."""

    def __init__(self) -> None:
        self._settings = pip_settings()
        self.web = Web(self._settings)
        self._archives = cache(self._asked)

    def releases(self) -> dict[Version, list[Archive]]:
        """Return the archives of every release: of `vllm`, and what other distributions add.

        Those rebuild releases under numbers of their own (`0.9.2.post2`), which are no releases
        of vLLM. Raises `NoAnswerError` where an index cannot be asked.
        """
        found: dict[Version, list[Archive]] = {}
        for distribution in DISTRIBUTIONS:
            archives, problems = self._archives(distribution)
            if problems:
                raise NoAnswerError(str(problems[0])) from problems[0]
            known = {version.release for version in found}
            for each in archives:
                if each.version.release not in known:
                    found.setdefault(each.version, []).append(each)
        return found

    def within(self, specifier: SpecifierSet) -> list[Version]:
        """Return the releases in a range, in order; raise `SourceError` where there are none.

        Pre-releases are among them only where the specifier names one (PEP 440), yanked releases
        only where it is `==` with an exact version (PEP 592).
        """
        found = [
            version
            for version, archives in self.releases().items()
            if specifier.contains(version, prereleases=bool(specifier.prereleases))
            and (_is_exact(specifier) or not all(each.yanked for each in archives))
        ]
        if not found:
            raise SourceError(
                f"no vLLM on the index is in {written(specifier)!r}{self._instead(None)}"
            )
        return sorted(found)

    def candidates(self, version: Version) -> list[Archive]:
        """Return the archives to get the sources of a release from, the best first.

        Raises `SourceError` where there are none, `NoAnswerError` where an index that may have
        one cannot be asked.
        """
        found: list[Archive] = []
        for distribution in DISTRIBUTIONS:
            archives, problems = self._archives(distribution)
            best = self._best(each for each in archives if each.version == version)
            if problems and not found and not best:
                raise NoAnswerError(str(problems[0])) from problems[0]
            found += best
        if not found:
            raise SourceError(
                f"there is no vLLM {version} on the index{self._instead(version)}. A release from "
                "elsewhere is given as a wheel, an sdist or a folder"
            )
        return found

    def _best(self, archives: Iterable[Archive]) -> list[Archive]:
        """Return an sdist, and the smallest wheel: what is not yanked, if there is such."""
        every = list(archives)
        good = [each for each in every if not each.yanked] or every
        sdists = [each for each in good if each.is_sdist]
        wheels = [each for each in good if not each.is_sdist]
        if len(wheels) > 1:
            wheels.sort(key=lambda each: 0 if sdists else each.size or self.web.size(each.address))
        return sdists[:1] + wheels[:1]

    def _instead(self, version: Version | None) -> str:
        """Say what there is: the newest release, and those right before and after a version."""
        there = sorted(self.releases())
        if not there:
            places = self._settings.indexes + self._settings.links
            return f": nothing of vLLM is at {', '.join(map(without_credentials, places))}"
        if version is None:
            return f". The newest is {there[-1]}"
        before = [each for each in there if each < version][-1:]
        after = [each for each in there if each > version][:1]
        return f". The nearest: {' and '.join(map(str, before + after))}; the newest: {there[-1]}"

    def _asked(self, distribution: str) -> tuple[list[Archive], list[SourceError]]:
        """Return the archives of a distribution in all places, and what went wrong there."""
        found: list[Archive] = []
        problems = []
        asked: list[tuple[_Ask, str]] = [(on_index, each) for each in self._settings.indexes]
        asked += [(among_links, each) for each in self._settings.links]
        for ask, place in asked:
            try:
                found += ask(self.web, place, distribution)
            except SourceError as error:
                problems.append(error)
        return found, problems


def _is_exact(specifier: SpecifierSet) -> bool:
    return len(specifier) == 1 and all(
        each.operator in ("==", "===") and not each.version.endswith(".*") for each in specifier
    )
