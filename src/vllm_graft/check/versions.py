"""Lists of versions as people write them."""

from collections.abc import Iterable, Sequence
from itertools import groupby


def spans(chosen: Iterable[bool], titles: Sequence[str]) -> str:
    """Return the chosen of some ordered titles: `0.27.1 … 0.29.0 (3), 0.31.0`."""
    pairs = zip(chosen, titles, strict=True)
    runs = [
        [title for _, title in run] for is_in, run in groupby(pairs, lambda each: each[0]) if is_in
    ]
    return ", ".join(map(span, runs))


def span(run: Sequence[str]) -> str:
    """Return neighbours as one: `0.27.1 … 0.29.0 (3)`."""
    return f"{run[0]} … {run[-1]} ({len(run)})" if len(run) > 2 else ", ".join(run)
