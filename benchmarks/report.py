"""What was measured, as tables for people and as plain values for JSON."""

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from benchmarks.measure import Sample, Spread, column
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """The spread of one measure of one subject."""

    subject: str
    measure: str
    spread: Spread


@dataclass(frozen=True)
class Check:
    """A target: the measured value may be at most the limit.

    The margin is how far the measured value may be from the true one. A verdict that the margin
    could turn is none: a noisy machine must neither pass a target nor fail it.
    """

    target: str
    measured: float
    limit: float
    unit: str
    margin: float = 0.0

    @classmethod
    def of(cls, target: str, values: Sequence[float], limit: float, unit: str) -> "Check":
        """Check the median of some values, with twice its standard error as the margin."""
        spread = Spread.of(values)
        return cls(target, spread.median, limit, unit, 2 * spread.error)

    @property
    def verdict(self) -> str:
        """Whether the target is met, missed, or the noise leaves it undecided."""
        if self.measured + self.margin <= self.limit:
            return "met"
        return "missed" if self.measured - self.margin > self.limit else "undecided"


@dataclass
class Report:
    """One part of the benchmark."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, subject: str, measure: str, values: Sequence[float]) -> Spread:
        """Add the figure for some values and return it."""
        spread = Spread.of(values)
        self.figures.append(Figure(subject, measure, spread))
        return spread

    def add_samples(self, subject: str, samples: Sequence[Sample]) -> None:
        """Add a figure for every measure of the samples."""
        for measure in samples[0]:
            self.add(subject, measure, column(samples, measure))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        checks = [
            {
                **asdict(check),
                "margin": check.margin if math.isfinite(check.margin) else None,  # JSON has no inf
                "verdict": check.verdict,
            }
            for check in self.checks
        ]
        return {**asdict(self), "checks": checks}


def machine() -> dict[str, Any]:
    """Say when and on what the figures were measured."""
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def show(report: Report) -> None:
    """Print a part: its figures, subjects down and measures across, and its targets."""
    console = Console(width=None if os.isatty(1) else 120)
    console.print(_figures(report))
    for note in report.notes:
        console.print(f"  {note}", highlight=False, markup=False)
    if report.checks:
        console.print(_checks(report.checks))
    console.print()


def _figures(report: Report) -> Table:
    subjects = dict.fromkeys(figure.subject for figure in report.figures)
    measures = dict.fromkeys(figure.measure for figure in report.figures)
    cells = {(figure.subject, figure.measure): figure.spread for figure in report.figures}
    caption = "median ± half the distance of the quartiles"
    table = Table(title=report.title, title_justify="left", caption=caption)
    table.add_column("", no_wrap=True)
    for measure in measures:
        table.add_column(measure, justify="right")
    for subject in subjects:
        found = (cells.get((subject, measure)) for measure in measures)
        table.add_row(subject, *(_cell(spread) if spread else "" for spread in found))
    return table


def _cell(spread: Spread) -> str:
    if spread.low == spread.high:
        return _number(spread.median)
    return f"{_number(spread.median)} ±{(spread.high - spread.low) / 2:.2g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _checks(checks: Sequence[Check]) -> Table:
    table = Table("target", "measured", "at most", "unit", "")
    colours = {"met": "green", "missed": "red", "undecided": "yellow"}
    for check in checks:
        measured = f"{_number(check.measured)} ±{check.margin:.2g}"
        verdict = f"[{colours[check.verdict]}]{check.verdict}[/]"
        table.add_row(check.target, measured, _number(check.limit), check.unit, verdict)
    return table
