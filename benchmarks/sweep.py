"""What looking for other names costs, when a patch lands on what modules have taken already.

    python benchmarks/sweep.py [--runs N] [--json FILE]

runs in any environment that has vllm-graft. 3,000 made-up modules of 30 names each are swept for
one target with 200 other names, and for 100 targets with 20 each; with a container that holds each
original as well, and without. Beside it is the sweep that a plugin would do by hand: one pass
through all modules for each target, which finds names and counts nobody.
"""

import argparse
import gc
import json
import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks.measure import Sample, column, interleave, paired
from benchmarks.report import Check, Report, machine, show

from vllm_graft import Patch, PatchSet
from vllm_graft.aliases import sweep
from vllm_graft.apply import apply
from vllm_graft.landing import LANDINGS

MODULES = 3000
FUNCTIONS = CONSTANTS = 15  # the names of each module
CPU = "CPU, ms"
SIZES = ((1, 200, 50), (100, 20, 200))
"""Targets, other names of each, and how many milliseconds the sweep may take."""


@dataclass(frozen=True)
class Subject:
    """A process full of modules, some of which have taken names from others."""

    modules: Sequence[ModuleType]
    patches: Sequence[Patch]
    names: int
    held: bool

    def by_us(self) -> Sample:
        """Land the patches, time the sweep, and take everything back."""
        landings = [apply(patch, sys.modules[patch.target.module]) for patch in self.patches]
        for landing in landings:
            LANDINGS.add(landing)
        sample, found = _timed(lambda: sweep(landings))
        rebound = sum(len(each.rebound) for each in found.values())
        held = sum(bool(each.held) for each in found.values())
        for landing in reversed(landings):
            LANDINGS.revert(landing)
        if (rebound, held) != (self.names, len(self.patches) if self.held else 0):
            raise RuntimeError(f"rebound {rebound} names, and found holders of {held}")
        return sample

    def by_hand(self) -> Sample:
        """Time a pass through all modules for each target, and rebind everything again."""
        pairs = []
        for patch in self.patches:
            original = getattr(sys.modules[patch.target.module], patch.target.qualname)
            pairs.append((original, _made()))
        sample, rebound = _timed(lambda: sum(_rebind(*pair) for pair in pairs))
        for original, value in pairs:
            _rebind(value, original)
        if rebound != self.names + len(self.patches):  # their own names as well
            raise RuntimeError(f"rebound {rebound} names")
        return sample


def _made() -> Callable[[Any], Any]:
    def function(a: Any) -> Any:
        return a

    return function


def _rebind(original: Any, value: Any) -> int:
    rebound = 0
    for module in list(sys.modules.values()):
        for name, bound in list(vars(module).items()):
            if bound is original:
                setattr(module, name, value)
                rebound += 1
    return rebound


def _timed(step: Callable[[], Any]) -> tuple[Sample, Any]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = step()
    taken = {"wall, ms": time.perf_counter() - wall, CPU: time.process_time() - cpu}
    return {measure: seconds * 1e3 for measure, seconds in taken.items()}, result


@contextmanager
def made_up(targets: int, names: int, *, held: bool) -> Iterator[Subject]:
    """Fill the process with modules; those that take names are spread over all of them."""
    modules = [_module(number) for number in range(MODULES)]
    sys.modules.update({module.__name__: module for module in modules})
    patches = PatchSet("benchmark")
    for number in range(targets):
        _take(modules, number, names, held=held)
        patches.wrap(
            f"{modules[number].__name__}:f0",
            lambda original, *args, **kwargs: original(*args, **kwargs),
            id=f"target-{number}",
            vllm=">=0.9",
            why="To be measured.",
            how="Call the original.",
            upstream="None.",
            remove="Never.",
        )
    try:
        yield Subject(modules, patches.patches, targets * names, held)
    finally:
        for module in modules:
            del sys.modules[module.__name__]


def _module(number: int) -> ModuleType:
    module = ModuleType(f"made_up_{number}")
    source = "".join(f"def f{n}(a): return a\n" for n in range(FUNCTIONS))
    source += "".join(f"C{n} = [{n}]\n" for n in range(CONSTANTS))
    exec(source, vars(module))
    return module


def _take(modules: Sequence[ModuleType], number: int, names: int, *, held: bool) -> None:
    original = vars(modules[number])["f0"]
    step = MODULES // names
    for place in range(names):
        setattr(modules[(number * 7 + 1 + place * step) % MODULES], f"taken_{number}", original)
    if held:
        vars(modules[number])["REGISTRY"] = [original]


def measure(targets: int, names: int, limit: float, runs: int) -> Report:
    """Sweep for so many targets, in turns with the sweep by hand."""
    many = "1 target" if targets == 1 else f"{targets} targets"
    title = f"{many}, {names} other names each, in {MODULES:,} modules: {runs} rounds"
    report = Report(title)
    for held in (False, True):
        with made_up(targets, names, held=held) as subject:
            kind = "names and a container" if held else "names alone"
            ours, hand = f"sweep, {kind}", f"by hand, {kind}"
            samples = interleave({ours: subject.by_us, hand: subject.by_hand}, runs, many)
        for name, found in samples.items():
            report.add_samples(name, found)
        ratio = paired(samples[ours], samples[hand], CPU, operator.truediv)
        report.add(ours, "CPU, ours : by hand", ratio)
        report.checks.append(Check.of(f"{many}, {kind}", column(samples[ours], CPU), limit, "ms"))
    objects = len(gc.get_objects())
    report.notes.append(f"{objects:,} other objects in the process; holders are looked for in all")
    return report


def main() -> None:
    """Measure both sizes, print a table of each, and write all as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="rounds of each size")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    before = machine()
    reports = [measure(*size, options.runs) for size in SIZES]
    print(", ".join(f"{key} {value}" for key, value in before.items()), end="\n\n")
    for report in reports:
        show(report)
    if options.json:
        parts = {report.title: report.to_dict() for report in reports}
        options.json.write_text(json.dumps({"machine": before, "parts": parts}, indent=1))


if __name__ == "__main__":
    main()
