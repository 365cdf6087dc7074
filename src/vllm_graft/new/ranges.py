"""Ranges of versions that say what was checked, and no more."""

from collections.abc import Iterable

from packaging.version import Version


def covering(versions: Iterable[Version]) -> str:
    """Return the specifier of the minor releases that versions are of, and of no others between.

    Those of an older major release are left out: no specifier has two of them exactly.
    """
    known = sorted({(each.major, each.minor) for each in versions})
    minors = [minor for major, minor in known if major == known[-1][0]]
    major, first, last = known[-1][0], minors[0], minors[-1]
    if first == last:
        return f"=={major}.{first}.*"
    left_out = [each for each in range(first, last) if each not in minors]
    return ",".join(
        [
            f">={major}.{first}",
            f"<{major}.{last + 1}",
            *(f"!={major}.{each}.*" for each in left_out),
        ]
    )
