"""Ranges of versions: whether two have a version in common, and how they are written."""

import re
from typing import TYPE_CHECKING

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def overlap(a: SpecifierSet, b: SpecifierSet) -> bool:
    """Tell whether some version, pre-releases included, is in both ranges.

    Each range is a union of intervals between the versions that it mentions, so it is enough to
    try those versions, their nearest neighbours, and a version beyond all of them.
    """
    return any(
        a.contains(version, prereleases=True) and b.contains(version, prereleases=True)
        for version in _candidates(a) | _candidates(b) | {Version("0.dev0"), Version("9999")}
    )


def _candidates(specifiers: SpecifierSet) -> set[Version]:
    found: set[Version] = set()
    for specifier in specifiers:
        base = re.sub(r"\.\*$", "", specifier.version)
        try:
            version = Version(base)
        except InvalidVersion:  # an arbitrary string after `===`
            continue
        texts = [base, _next(version), f"{_next(version)}.dev0"]
        texts += [f"{base}.dev0", f"{base}.post0", f"{base}.post9999", f"{base}.0.9999"]
        found.update(filter(None, map(_parsed, texts)))
    return found


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:  # `1.0rc1.0.9999`
        return None


def _next(version: Version) -> str:
    """Return the version after one of the same kind: `1.0.dev2`, `1.0.post4`, `1.0rc2`, `1.1`."""
    release = ".".join(map(str, version.release))
    pre = "".join(map(str, version.pre or ()))
    post = "" if version.post is None else f".post{version.post}"
    if version.dev is not None:
        return f"{release}{pre}{post}.dev{version.dev + 1}"
    if version.post is not None:
        return f"{release}{pre}.post{version.post + 1}"
    if version.pre is not None:
        return f"{release}{version.pre[0]}{version.pre[1] + 1}"
    return ".".join(map(str, (*version.release[:-1], version.release[-1] + 1)))


def written(specifiers: SpecifierSet) -> str:
    """Return a range as people write it: lower bound, upper bound, what is left out.

    `packaging` orders clauses by their text, `<0.34,>=0.27.1`.
    """
    return ",".join(map(str, sorted(specifiers, key=_place)))


def written_requirement(requirement: "Requirement") -> str:
    """Return a requirement on a distribution, with its range as people write it."""
    range_ = str(requirement.specifier)
    return str(requirement).replace(range_, written(requirement.specifier), 1)


_PLACES = {"===": 0, "==": 0, "~=": 1, ">=": 1, ">": 1, "<": 2, "<=": 2, "!=": 3}


def _place(specifier: Specifier) -> tuple[int, Version, str]:
    base = _parsed(re.sub(r"\.\*$", "", specifier.version))
    return _PLACES[specifier.operator], base or Version("0"), specifier.version
