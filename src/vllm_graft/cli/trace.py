"""`vllm-graft trace FOLDER`: the processes' traces as one time line."""

import json
import sys
import time
from pathlib import Path

import click
from rich.text import Text

from ..trace import Line
from .render import console
from .timeline import TraceFolder, timed

POLL = 0.2  # seconds between two looks at a running engine's trace

_STYLES = {"apply": "green", "fail": "red", "skip": "yellow", "role": "cyan", "exit": "dim"}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, for scripts.")
@click.option("--follow", is_flag=True, help="Go on until interrupted.")
def trace(folder: Path, as_json: bool, follow: bool) -> None:
    """Merge the trace files in FOLDER (the value of VLLM_GRAFT_TRACE) into one time line."""
    reader = TraceFolder(folder)
    lines = reader.read()
    if not lines and not follow:
        raise click.ClickException(
            f"{str(folder)!r} has no trace. Start vLLM with VLLM_GRAFT_TRACE={folder}"
        )
    try:
        _print(lines, as_json)
        while follow:
            time.sleep(POLL)
            _print(reader.read(), as_json)
    except KeyboardInterrupt:
        sys.exit(0)


def _print(lines: list[Line], as_json: bool) -> None:
    out = console()
    for line in lines:
        if as_json:
            click.echo(json.dumps(line))
        else:
            out.print(styled(line))


def styled(line: Line) -> Text:
    """Return a line of the time line in the colour of its event."""
    return Text(timed(line), style=_STYLES.get(line["event"], ""))
