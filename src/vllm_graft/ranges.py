"""Whether two version ranges have a version in common."""

import re

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


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
        for text in (base, f"{base}.dev0", f"{base}.post0", f"{base}.post9999", f"{base}.0.9999"):
            try:
                found.add(Version(text))
            except InvalidVersion:  # `1.0rc1.0.9999`, or an arbitrary string after `===`
                continue
    return found
