"""Assignments of which only one is executed: those of a `try` and of its `except` block."""

from collections.abc import Sequence
from dataclasses import replace

from .old_file import Assignment


def with_twins(
    first: Sequence[Assignment], second: Sequence[Assignment]
) -> tuple[list[Assignment], list[Assignment]]:
    """Return assignments, those of both blocks with the paths of both; and what has no twin.

    Two are twins if they assign the same: the second is an alternative to the first.
    """
    done, paired, alone = list(first), [], []
    for other in second:
        place = next((i for i, each in enumerate(first) if each.given == other.given), None)
        if place is None:
            alone.append(other)
            continue
        choices = (*done[place].choices, *other.choices)
        own = done[place].own or done[place].choices
        done[place] = replace(done[place], choices=choices, own=own, required=other.required)
        paired.append(replace(other, choices=choices, own=other.own or other.choices))
    return [*done, *paired], alone
