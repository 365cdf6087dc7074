"""`vllm-graft check`: every patch against every vLLM that is named, without importing any."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..check.project import Project, find_project
from ..check.source import open_sources
from ..check.survey import Cell, Row, Survey, survey
from ..check.versions import span
from ..errors import GraftError
from .render import console, json_option, print_json, table

if TYPE_CHECKING:
    from rich.console import Console

_F = TypeVar("_F", bound=Callable[..., Any])


def source_options(command: _F) -> _F:
    """Give a command the vLLMs to look at, as `--vllm SOURCE…`, and the patches."""
    command = click.option(
        "--select", metavar="GLOBS", help="Patches by id, as in 'acme/*,-acme/kv-*'."
    )(command)
    command = click.option(
        "--vllm",
        "named",
        multiple=True,
        metavar="SOURCE",
        help="A vLLM to check against. Any number, also one after another.",
    )(command)
    return click.argument("sources", nargs=-1, metavar="[SOURCE]...")(command)


@click.command()
@source_options
@click.option("--verbose", "-v", is_flag=True, help="A row for each vLLM, also where all agree.")
@click.option("--strict", is_flag=True, help="Warnings fail as errors do.")
@json_option
def check(
    sources: tuple[str, ...],
    named: tuple[str, ...],
    select: str | None,
    verbose: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Tell which patch still fits which vLLM, from its sources alone.

    SOURCE is `installed`, a version (0.32.0) or range of versions ('>=0.31') from the package
    index, a wheel, an sdist, a folder, or a revision of a git clone (PATH@REVISION). Without one
    the table [tool.vllm-graft] of the project says, or else what is installed is meant.
    """
    with told():
        project = find_project()
        made = surveyed(project, (*named, *sources), select)
    if as_json:
        print_json(made.as_dict(), indent=None)
    else:
        _print(console(), made, verbose=verbose)
    falls_short = not made.is_fine or (strict and any(f.level == "warning" for f in made.findings))
    sys.exit(1 if falls_short else 0)


class told:
    """Tell errors of this package as a command does: the text alone, exit code 2."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, GraftError):
            raise WrongInput(str(error)) from error


class WrongInput(click.ClickException):
    """What was given cannot be worked with."""

    exit_code = 2


def surveyed(project: Project, texts: Sequence[str], select: str | None) -> Survey:
    """Judge the patches of a project on the vLLMs that are named, or else on its own."""
    catalog = project.catalog()
    patches = project.patches(catalog, select)
    return survey(patches, open_sources(texts or project.vllm), broken=catalog.broken)


def _print(out: "Console", made: Survey, *, verbose: bool) -> None:
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
    out.print()
    out.print(_summary(made))


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
