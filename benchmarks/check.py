"""What `vllm-graft check` costs: on one vLLM, on nine, as they grow, and beside other tools.

    python benchmarks/check.py [--only PART]... [--runs N] [--json FILE] [--sources FOLDER]

runs in any environment that has vllm-graft; `others` needs vLLM, mpat and griffe there too.
Releases are fetched from the package index before anything is measured, unless there is a folder
with an unpacked tree for each. The whole command is measured, with the start of the interpreter.
`cold` is without answers of earlier runs, and without the names of all modules that they kept for
missing targets; `anew` is with these. The files are in the memory of the system all the same.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks import beside, growth
from benchmarks.checked import TARGETS, Checked
from benchmarks.command import Parts, measure, options_of
from benchmarks.measure import column, interleave
from benchmarks.memory import AT_ONCE
from benchmarks.report import Check, Report

NEWEST = "0.32.0"
RELEASES = ("0.9.2", "0.13.0", "0.23.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", NEWEST)
CORES = 2
MEMORY = 400  # MB

Named: TypeAlias = Callable[[str], str]
"""Says what a release is called on the command line."""


def one_tree(named: Named, folder: Path, runs: int) -> Report:
    """Check all targets on one release."""
    checked = Checked.make(folder / "project", TARGETS, [named(NEWEST)])
    report = Report(f"{len(TARGETS)} targets on vLLM {NEWEST}: {runs} rounds")
    _limits(report, checked, runs, {"cold": 2000, "warm": 300})
    return report


def nine_trees(named: Named, folder: Path, runs: int) -> Report:
    """Check all targets on nine releases, on no more cores than two."""
    checked = Checked.make(folder / "project", TARGETS, [named(each) for each in RELEASES])
    with cores(CORES) as used:
        title = f"{len(TARGETS)} targets on {len(RELEASES)} releases, {used} cores: {runs} rounds"
        report = Report(title)
        _limits(report, checked, runs, {"cold": 15_000, "warm": 1500})
    return report


def _limits(report: Report, checked: Checked, runs: int, limits: dict[str, float]) -> None:
    samples = interleave({"cold": checked.cold, "warm": checked.warm}, runs, report.title)
    memory = [checked.memory() for _ in range(min(runs, 3))]
    for name, found in samples.items():
        report.add_samples(name, found)
        report.checks.append(Check.of(name, column(found, "wall, ms"), limits[name], "ms"))
    report.add_samples("cold", memory)
    report.checks.append(Check.of("memory, cold", column(memory, AT_ONCE), MEMORY, "MB"))


@contextmanager
def cores(number: int) -> Iterator[int]:
    """Run on so many cores meanwhile, where the system can do that; tell how many they are."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield len(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, before)


def parts(named: Named) -> Parts:
    """Return the parts with their usual rounds."""
    return {
        "tree": (functools.partial(one_tree, named), 11),
        "releases": (functools.partial(nine_trees, named), 5),
        "growth": (functools.partial(growth.growth, named(NEWEST)), 7),
        "others": (beside.others, 5),
    }


def main() -> None:
    """Measure the parts asked for, print a table of each, and write all as JSON."""
    parser = options_of(__doc__ or "", list(parts(str)))
    parser.add_argument("--sources", type=Path, help="a folder with an unpacked tree a release")
    options = parser.parse_args()
    folder = options.sources and options.sources.resolve()
    measure(parts(lambda release: str(folder / release) if folder else release), options)


if __name__ == "__main__":
    main()
