"""Measuring: interleaved runs, the time that whole processes take, and their spread."""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

Sample = Mapping[str, float]
"""What one run gave: values by the name of the measure, each name with its unit."""


@dataclass(frozen=True)
class Spread:
    """The median of some values, their quartiles and how many they are."""

    median: float
    low: float
    high: float
    count: int

    @property
    def error(self) -> float:
        """The standard error of the median, as of a normal distribution; infinite for one value."""
        if self.count < 2:
            return math.inf
        return 1.2533 * (self.high - self.low) / 1.349 / math.sqrt(self.count)

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarize the values; of a single one the quartiles are itself."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, len(values))


def interleave(
    subjects: Mapping[str, Callable[[], _T]], rounds: int, label: str, *, warm_up: bool = True
) -> dict[str, list[_T]]:
    """Run every subject once a round, each round starting with the next one.

    What drifts while they run (the clock rate, other programs) then touches all alike. The runs
    that warm up are thrown away.
    """
    names = list(subjects)
    if warm_up:
        for name in names:
            progress(f"{label}: warming up, {name}")
            subjects[name]()
    progress(f"{label}: {rounds} rounds of {', '.join(names)}")
    results: dict[str, list[_T]] = {name: [] for name in names}
    for done in range(rounds):
        shift = done % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(subjects[name]())
        if (done + 1) * 10 // rounds > done * 10 // rounds:
            progress(f"{label}: {done + 1} of {rounds} rounds")
    return results


def column(samples: Sequence[Sample], measure: str) -> list[float]:
    """Return the values of one measure, in the order of the runs."""
    return [sample[measure] for sample in samples]


def paired(
    samples: Sequence[Sample],
    base: Sequence[Sample],
    measure: str,
    compare: Callable[[float, float], float],
) -> list[float]:
    """Compare each run with that of the base in the same round."""
    pairs = zip(column(samples, measure), column(base, measure), strict=True)
    return [compare(value, other) for value, other in pairs]


def ratio_of_medians(samples: Sequence[Sample], base: Sequence[Sample], measure: str) -> float:
    """Return the median of a measure in units of the base's."""
    return statistics.median(column(samples, measure)) / statistics.median(column(base, measure))


def time_process(
    command: list[str], environ: Mapping[str, str], log: Path, *, fine: Collection[int] = (0,)
) -> Sample:
    """Run a command to its end; return the milliseconds by the clock and of the processor.

    The processor's time, user and system, is what the kernel counted for the process and for the
    children that it waited for; other programs disturb it least. Output goes to the log. Raises
    RuntimeError, with the end of the log, where the command ends with a code that is not fine.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [(os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)]
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if code not in fine:
        end = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-30:])
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{end}")
    return {"wall, ms": wall * 1e3, "CPU, ms": (usage.ru_utime + usage.ru_stime) * 1e3}


def progress(text: str) -> None:
    """Say on stderr what is going on."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
