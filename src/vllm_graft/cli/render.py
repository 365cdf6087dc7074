"""What the commands have in common: JSON for scripts, tables and colours for people."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_F = TypeVar("_F", bound=Callable[..., Any])

STYLES = {
    "applied": "green",
    "armed": "green",
    "ok": "green",
    "skipped": "yellow",
    "warning": "yellow",
    "unknown": "yellow",
    "out-of-range": "dim",
    "note": "dim",
    "failed": "red",
    "problem": "red",
    "error": "red",
    "missing": "red",
    "moved": "red",
    "signature": "red",
    "kind": "red",
    "changed": "red",
}


class WrongInput(click.ClickException):
    """What was given cannot be worked with."""

    exit_code = 2


def json_option(command: _F) -> _F:
    """Give a command the flag `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON on stdout. Without indentation it is an order of magnitude quicker."""
    click.echo(json.dumps(value, indent=indent, default=str))


def console() -> "Console":
    """Return a console on stdout that takes text as it is; wide where it is no terminal."""
    from rich.console import Console  # a fifth of a check that only prints JSON

    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def table(*columns: str, rows: Iterable[Iterable[Any]]) -> "Table":
    """Return a table whose cells fold rather than lose text."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        cells = [str(cell) for cell in row]
        made.add_row(*cells, style=next((STYLES[cell] for cell in cells if cell in STYLES), None))
    return made
