"""What verdicts say of a patch: what is wrong, what deserves attention, what is worth knowing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal, TypeAlias

from packaging.version import Version

from ..patch import Patch
from .tree import is_of_vllm
from .versions import spans

if TYPE_CHECKING:
    from .drift import Drift, OwnDrift
    from .survey import Cell

Level: TypeAlias = Literal["error", "warning", "note"]

BROKEN = frozenset({"missing", "moved", "signature", "kind"})
"""Verdicts with which a patch cannot land."""

_FAR = Version("9999")


@dataclass(frozen=True)
class Finding:
    """Something about a patch, on one vLLM or on all of them. Errors make a check fail.

    `rule` is a short name to filter by: the verdict, or `drift`, `unlocked`, `range-too-wide`,
    `range-too-narrow`, `range-unbounded`, `fixed`, `review`, `gap`.
    """

    level: Level
    rule: str
    patch: Patch
    message: str
    source: str | None = None


def findings_of(
    patch: Patch, cells: "Sequence[Cell]", today: date, own: "OwnDrift | None" = None
) -> Iterator[Finding]:
    """Yield what the cells of a patch say, the errors of single vLLMs first.

    `own` is how the patch itself is not as it was locked.
    """
    for cell in cells:
        yield from _of_cell(patch, cell)
    if own is not None:
        level: Level = "error" if own.is_locked else "warning"
        yield Finding(level, "drift" if own.is_locked else "unlocked", patch, str(own))
    yield from _of_fixed(patch, [each for each in cells if each.verdict.in_range is not False])
    yield from _of_range(patch, cells)
    if patch.gaps:
        fields = ", ".join(f"{name}=" for name in patch.gaps)
        yield Finding("error", "gap", patch, f"yet to be written: {fields}")
    if patch.review is not None and patch.review <= today:
        yield Finding("warning", "review", patch, f"it was to be reviewed by {patch.review}")


def _of_cell(patch: Patch, cell: "Cell") -> Iterator[Finding]:
    if cell.verdict.in_range is False:
        return
    if cell.state in BROKEN or cell.state == "changed":
        yield Finding("error", cell.state, patch, cell.reason, cell.source.text)
    elif cell.state == "unknown":
        level: Level = "warning" if is_of_vllm(cell.verdict.target) else "note"
        yield Finding(level, "unknown", patch, cell.reason, cell.source.text)
    if cell.drift is not None and cell.state != "changed":
        yield _of_drift(patch, cell, cell.drift)


def _of_fixed(patch: Patch, cells: "Sequence[Cell]") -> Iterator[Finding]:
    """Yield where upstream has the fix; the advice is the same for all, by the first of them."""
    fixed = [each for each in cells if each.fixed is not None]
    if not fixed:
        return
    advice = "remove it"
    if fixed[0] is not cells[0]:
        advice = f"remove it, or end its range {patch.versions} below {fixed[0].source.title}"
    for cell in fixed:
        yield Finding("error", "fixed", patch, f"{advice}: {cell.fixed}", cell.source.text)


def _of_drift(patch: Patch, cell: "Cell", drift: "Drift") -> Finding:
    level: Level = "error" if "target" in drift.differences else "note"
    if drift.locked is None:
        level = "warning"
    rule = "unlocked" if drift.differences == ("unlocked",) else "drift"
    return Finding(level, rule, patch, str(drift), cell.source.text)


def _of_range(patch: Patch, cells: "Sequence[Cell]") -> Iterator[Finding]:
    titles = [each.source.title for each in cells]
    applies = [each.verdict.fit == "ok" for each in cells]
    in_range = [each.verdict.in_range is True for each in cells]
    breaks = [
        inside and each.verdict.fit in BROKEN for inside, each in zip(in_range, cells, strict=True)
    ]
    if any(breaks):
        yield Finding(
            "error",
            "range-too-wide",
            patch,
            f"{patch.versions} includes {spans(breaks, titles)}, where it cannot land; of those "
            f"checked it would apply to {spans(applies, titles) or 'none'}",
        )
    beyond = [
        fits and each.verdict.in_range is False for fits, each in zip(applies, cells, strict=True)
    ]
    if any(beyond):
        yield Finding(
            "note",
            "range-too-narrow",
            patch,
            f"{patch.versions} leaves out {spans(beyond, titles)}, where it would apply as well",
        )
    if patch.vllm.contains(_FAR, prereleases=True):
        yield Finding(
            "warning",
            "range-unbounded",
            patch,
            f"{patch.versions or 'its range'} has no upper bound, so it will meet releases that "
            "nobody has checked. End it below the first that is not out yet",
        )
