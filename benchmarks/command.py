"""The command line that benchmarks share."""

import argparse
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from benchmarks.measure import progress
from benchmarks.report import Report, machine, show

Parts = Mapping[str, tuple[Callable[[Path, int], Report], int]]
"""What measures a part, into a folder and for so many rounds, and its usual rounds."""


def command(description: str, parts: Parts) -> None:
    """Measure the parts asked for, print a table of each, and write all as JSON."""
    measure(parts, options_of(description, parts).parse_args())


def options_of(description: str, parts: Collection[str]) -> argparse.ArgumentParser:
    """Return a parser of the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--only", action="append", choices=parts, help="a part; repeatable")
    parser.add_argument("--runs", type=int, help="rounds of each part, instead of its default")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    return parser


def measure(parts: Parts, options: argparse.Namespace) -> None:
    """Do what the options ask for."""
    before = machine()
    reports = dict(_measure(parts, options.only or parts, options.runs))
    print(", ".join(f"{key} {value}" for key, value in before.items()), end="\n\n")
    for report in reports.values():
        show(report)
    if options.json:
        figures = {name: report.to_dict() for name, report in reports.items()}
        options.json.write_text(json.dumps({"machine": before, "parts": figures}, indent=1))


def _measure(parts: Parts, names: Iterable[str], runs: int | None) -> Iterable[tuple[str, Report]]:
    for name in names:
        measure, default = parts[name]
        with tempfile.TemporaryDirectory(prefix="vllm-graft-benchmark-") as folder:
            try:
                yield name, measure(Path(folder), runs or default)
            except LookupError as error:
                if type(error) is not LookupError:  # a fault of the part's
                    raise
                progress(f"{name}: left out, {error}")
