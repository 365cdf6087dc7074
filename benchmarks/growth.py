"""How the time of a check grows: with the modules that its targets touch, and the size of vLLM."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.checked import TARGETS, Checked
from benchmarks.measure import Sample, column, interleave, paired, progress
from benchmarks.report import Check, Report

from vllm_graft.check.resolve import Resolver
from vllm_graft.check.source import Source
from vllm_graft.check.tree import Tree
from vllm_graft.target import Target

SIZES = (10, 50, len(TARGETS))
FEW = 20
ADDED = 5000
FOLDERS = 50
CPU = "CPU, ms"
PER_MODULE = "CPU for reading a module, ms"
PER_SIZE = "CPU, ratio to plain"

Touched = Mapping[str, frozenset[str]]
"""The modules that the answer for a target rests on, of those targets that a tree has."""


def growth(source: str, folder: Path, runs: int) -> Report:
    """Check few and many targets, and the same on a vLLM with thousands of modules more."""
    progress(f"growth: which targets {source} has, and the modules that they touch")
    tree = Source.open(source).tree
    touched = _touched(tree)
    report = Report(f"Growth: {runs} rounds")
    by_targets(report, source, touched, folder, runs)
    by_size(report, tree, touched, folder, runs)
    return report


def _touched(tree: Tree) -> Touched:
    resolver = Resolver(tree)
    answers = {each: resolver.resolve_with_modules(Target.parse(each)) for each in TARGETS}
    return {
        target: modules for target, (found, modules) in answers.items() if found.state == "found"
    }


def by_targets(report: Report, source: str, touched: Touched, folder: Path, runs: int) -> None:
    """Check more and more of the targets that the tree has.

    What reading costs is the processor's time of a cold check less that of a warm one.
    """
    chosen = {f"{len(some)} targets": some for some in (_spread(list(touched), n) for n in SIZES)}
    runners: dict[str, Callable[[], Sample]] = {}
    for name, targets in chosen.items():
        checked = Checked.make(folder / name, targets, [source])
        runners |= {f"{name}, cold": checked.cold, f"{name}, warm": checked.warm}
    samples = interleave(runners, runs, "growth with targets")
    costs = {}
    for name, targets in chosen.items():
        modules = len(_modules(touched, targets))
        cold, warm = (samples[f"{name}, {kind}"] for kind in ("cold", "warm"))
        report.add(f"{name}, {modules} modules, cold", CPU, column(cold, CPU))
        report.add(f"{name}, {modules} modules, warm", CPU, column(warm, CPU))
        reading = [each / modules for each in paired(cold, warm, CPU, operator.sub)]
        costs[name] = report.add(f"{name}, {modules} modules, cold", PER_MODULE, reading)
    first, *_, last = chosen
    few, many = costs[first], costs[last]
    ratio = many.median / few.median
    margin = 2 * ratio * math.hypot(many.error / many.median, few.error / few.median)
    report.checks.append(Check(f"a module, {last} : {first}", ratio, 1.5, "ratio", margin))


def by_size(report: Report, tree: Tree, touched: Touched, folder: Path, runs: int) -> None:
    """Check a few targets on the tree as it is, and on one with modules that they do not touch.

    A target that is missing is looked for in the whole tree, so it is shown by itself: also anew,
    with what an earlier run has kept of the names of all modules.
    """
    plain, larger = folder / "plain", folder / "larger"
    progress(f"growth: a tree with {ADDED:,} modules more")
    _write(tree, plain)
    _write(tree, larger)
    there = _spread(list(touched), FEW)
    _enlarge(tree, larger, _modules(touched, there))
    missing = next(each for each in TARGETS if each not in touched)
    for kind, targets in (("", there), (", one missing", [*there[1:], missing])):
        runners: dict[str, Callable[[], Sample]] = {}
        for name, root in (("plain", plain), ("larger", larger)):
            checked = Checked.make(folder / f"{name}-checked{kind}", targets, [str(root)])
            runners |= {f"{name}, cold": checked.cold, f"{name}, warm": checked.warm}
            if kind:
                runners[f"{name}, anew"] = checked.anew
        samples = interleave(runners, runs, f"growth with the tree{kind}")
        for state in ("cold", "warm", "anew") if kind else ("cold", "warm"):
            _compare(report, samples, f"{FEW} targets{kind}", state)


def _compare(
    report: Report, samples: Mapping[str, Sequence[Sample]], targets: str, state: str
) -> None:
    plain, larger = samples[f"plain, {state}"], samples[f"larger, {state}"]
    title = f"{targets}, {ADDED:,} modules more, {state}"
    report.add(f"{targets}, plain, {state}", CPU, column(plain, CPU))
    report.add(title, CPU, column(larger, CPU))
    ratios = paired(larger, plain, CPU, operator.truediv)
    report.add(title, PER_SIZE, ratios)
    if "missing" not in targets:
        report.checks.append(Check.of(f"{title} : plain", ratios, 1.1, "ratio"))


def _spread(targets: Sequence[str], number: int) -> list[str]:
    """Return so many targets from everywhere in a list; all, where they are no more."""
    step = max(1, len(targets) / number)
    return [targets[int(place * step)] for place in range(min(number, len(targets)))]


def _modules(touched: Touched, targets: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*(touched[each] for each in targets))


def _write(tree: Tree, root: Path) -> None:
    """Write a tree as a folder, so that both are of one kind."""
    for path in tree.files():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(tree.read(path))


def _enlarge(tree: Tree, root: Path, touched: frozenset[str]) -> None:
    """Add copies of modules that no target touches, in packages of their own."""
    kept = {path for module in touched for path in tree.candidates(module)}
    texts = [tree.read(path) for path in sorted(tree.files()) if path not in kept]
    for number in range(ADDED):
        folder = root / "vllm" / f"added_{number % FOLDERS}"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / f"copy_{number}.py").write_bytes(texts[number % len(texts)])
