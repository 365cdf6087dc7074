"""A survey as text: patches by vLLMs, what was found, and the diffs of targets."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ..check.survey import Cell, Row, Survey
from ..check.versions import span
from .render import table

if TYPE_CHECKING:
    from rich.console import Console


def print_survey(out: "Console", made: Survey, *, verbose: bool, diffs: bool) -> None:
    """Print a survey; with `verbose` a row for each vLLM, also where all agree."""
    rows = [line for row in made.rows for line in _lines(row, verbose=verbose)]
    out.print(table("patch", "vLLM", "verdict", "", rows=rows))
    for broken in made.broken:
        out.print(str(broken.error), style="red")
    shown = [each for each in made.findings if verbose or each.rule not in _IN_ROWS]
    if shown:
        out.print()
        out.print(
            table(
                "",
                "patch",
                "finding",
                rows=(
                    (each.level, each.patch.id, f"{each.message} ({each.rule})") for each in shown
                ),
            )
        )
    for row in made.rows:
        for cell in row.cells:
            if diffs and cell.diff:
                out.print(f"\n{row.patch.id} on {cell.source.title}", style="bold")
                _print_diff(out, cell.diff)
    out.print()
    out.print(_summary(made))


def _print_diff(out: "Console", diff: str) -> None:
    for line in diff.splitlines():
        out.print(line, style=_COLOURS.get(line[:1]))


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

_IN_ROWS = frozenset({"missing", "moved", "signature", "kind", "changed", "unknown"})
"""What the rows say already."""


def _lines(row: Row, *, verbose: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each vLLM, or for neighbours of which the same is to be said."""
    alike = groupby(row.cells, lambda cell: cell.source.text if verbose else _said(cell))
    for run in (list(cells) for _, cells in alike):
        titles = span([each.source.title for each in run])
        yield row.patch.id, titles, run[0].state, _said(run[0])[1]


def _said(cell: Cell) -> tuple[str, str]:
    signatures = cell.verdict.signatures
    if cell.state == "out-of-range":
        return cell.state, "would apply" if cell.verdict.fit == "ok" else ""
    parts = [cell.reason, *cell.verdict.notes]
    if signatures is not None and cell.state == "signature":
        parts += [f"target {signatures[0]}", f"implementation {signatures[1]}"]
    if cell.fixed is not None:
        parts.append(f"remove: {cell.fixed}")
    return cell.state, "; ".join(filter(None, parts))


def _summary(made: Survey) -> str:
    states = Counter(cell.state for row in made.rows for cell in row.cells)
    levels = Counter(each.level for each in made.findings)
    counted = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return (
        f"{_count(len(made.rows), 'patch', 'patches')}, {len(made.sources)} vLLM: {counted}. "
        f"{_count(levels['error'] + len(made.broken), 'error')}, "
        f"{_count(levels['warning'], 'warning')}, {_count(levels['note'], 'note')}"
    )


def _count(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or f'{one}s'}"
