"""A survey as text: patches by vLLMs, what was found, and the diffs of targets."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ..check.alike import together, without_numbers
from ..check.findings import Finding
from ..check.survey import Cell, Row, Survey
from ..check.versions import span, spans
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
        found = (_found(made, group) for group in together(shown))
        out.print(table("", "patch", "vLLM", "finding", rows=found))
    for row in made.rows if diffs else ():
        _print_diffs(out, row)
    out.print()
    out.print(_summary(made))


def _found(made: Survey, group: tuple[Finding, ...]) -> tuple[str, str, str, str]:
    last = group[-1]
    asked = {each.source for each in group}
    titles = [each.title for each in made.sources]
    of_them = spans((each.text in asked for each in made.sources), titles)
    return last.level, last.patch.id, of_them, f"{last.message} ({last.rule})"


def _print_diffs(out: "Console", row: Row) -> None:
    """Print a diff that several vLLMs have once, as it is in the newest of them."""
    titles = [cell.source.title for cell in row.cells]
    changes = [_changed_lines(cell.diff) for cell in row.cells]
    for each in dict.fromkeys(filter(None, changes)):
        newest = [cell for cell, lines in zip(row.cells, changes, strict=True) if lines == each][-1]
        has_it = spans((lines == each for lines in changes), titles)
        out.print(f"\n{row.patch.id} on {has_it}", style="bold")
        for line in newest.diff.splitlines():
            out.print(line, style=_COLOURS.get(line[:1]))


def _changed_lines(diff: str) -> tuple[str, ...]:
    """Return what a diff says but for its headers, which have version and lines."""
    return tuple(line for line in diff.splitlines()[2:] if not line.startswith("@@"))


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

_IN_ROWS = frozenset({"missing", "moved", "signature", "kind", "changed", "unknown"})
"""What the rows say already."""


def _lines(row: Row, *, verbose: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each vLLM, or for neighbours of which the same is to be said."""
    alike = groupby(row.cells, lambda cell: cell.source.text if verbose else _key(cell))
    for run in (list(cells) for _, cells in alike):
        titles = span([each.source.title for each in run])
        yield row.patch.id, titles, run[-1].state, _said(run[-1])


def _key(cell: Cell) -> tuple[str, str]:
    return cell.state, without_numbers(_said(cell))


def _said(cell: Cell) -> str:
    signatures = cell.verdict.signatures
    if cell.state == "out-of-range":
        return "would apply" if cell.verdict.fit == "ok" else ""
    parts = [cell.reason, *cell.verdict.notes]
    if signatures is not None and cell.state == "signature":
        parts += [f"target {signatures[0]}", f"implementation {signatures[1]}"]
    if cell.fixed is not None:
        parts.append(f"remove: {cell.fixed}")
    return "; ".join(filter(None, parts))


def _summary(made: Survey) -> str:
    states = Counter(cell.state for row in made.rows for cell in row.cells)
    levels = Counter(group[0].level for group in together(made.findings))
    counted = ", ".join(f"{count} {state}" for state, count in states.most_common())
    counted = f": {counted}" if counted else ""  # where no set could be loaded
    return (
        f"{_count(len(made.rows), 'patch', 'patches')}, {len(made.sources)} vLLM{counted}. "
        f"{_count(levels['error'] + len(made.broken), 'error')}, "
        f"{_count(levels['warning'], 'warning')}, {_count(levels['note'], 'note')}"
    )


def _count(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or f'{one}s'}"
