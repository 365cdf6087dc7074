"""`PATH@REVISION`, where the path and the revision may have an `@` of their own."""

import re
from pathlib import Path


def split(source: str, below: Path = Path()) -> tuple[str, str] | None:
    """Return the clone and the revision of `PATH@REVISION`; None for what is no such thing.

    A revision may be `HEAD@{1}`, `main@{yesterday}` or `@{u}` (gitrevisions(7)), so an `@` before a
    brace is its own, and that of `PATH@{u}` both. Of the places that are left the last one counts
    whose path is a folder, `below` which relative ones are, or else the last.
    """
    between = [(each.start(), each.end()) for each in re.finditer("@(?!{)", source)]
    before = [(each.start(), each.start()) for each in re.finditer("@{", source)]
    found = [(source[:end], source[start:]) for end, start in (*between[::-1], *before[::-1])]
    named = [(path, revision) for path, revision in found if path and revision]
    return next((each for each in named if (below / each[0]).is_dir()), next(iter(named), None))
