"""What the layer costs: at interpreter start, at `import vllm`, in the plan, per call, per token.

    python benchmarks/startup.py [--only PART]... [--runs N] [--json FILE]

runs in any environment that has vllm-graft; `import` and `engine` need a vLLM there too. Nothing
is read from earlier runs, and what is compared runs in turns.
"""

import functools
import json
import math
import operator
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks import calls, programs, subjects
from benchmarks.command import command
from benchmarks.measure import (
    Sample,
    column,
    interleave,
    paired,
    ratio_of_medians,
    time_process,
)
from benchmarks.report import Check, Report

from vllm_graft.demo.model import write_model

IMPORT_PATCHES = 100
IMPORT_PACKAGES = ("config", "distributed", "entrypoints", "logging_utils", "utils", "v1")
ENGINE_PATCHES = 10
ENGINE_PACKAGES = ("config", "plugins")  # called when an engine starts, not when it runs
ENGINE_CALLS = 30
ENGINE_LOSS = 1  # %; what counts as measurable
PLAN_SIZES = (1250, 2500, 5000, 10_000)
SITE = (
    "import site, time; start = time.perf_counter(); site.main(); "
    "print((time.perf_counter() - start) * 1e3)"
)
ON, OFF, CONTROL = "vllm-graft", "VLLM_GRAFT=0", "VLLM_GRAFT=0 again"


def interpreter(folder: Path, runs: int) -> Report:
    """Start interpreters that do nothing, bare and with each of three packages."""
    starts: dict[str, Callable[[], Sample]] = {
        name: functools.partial(_start, python, folder)
        for name, python in subjects.make_environments(folder).items()
    }
    samples = interleave(starts, runs, "interpreter")
    report = Report(f"Interpreter start, python -c pass: {runs} rounds")
    for clock in samples["bare"][0]:
        added = {}
        for name, found in samples.items():
            report.add(name, clock, column(found, clock))
            if name != "bare":
                values = paired(found, samples["bare"], clock, operator.sub)
                added[name] = report.add(name, f"over bare: {clock}", values)
        graft, other = added["vllm-graft"], added["importpatch"]
        share = graft.median / other.median
        error = share * math.hypot(graft.error / graft.median, other.error / other.median)
        report.checks += [
            Check(f"over bare Python, {clock[:-4]}", graft.median, 0.6, "ms", 2 * graft.error),
            Check(f"share of importpatch's, {clock[:-4]}", share, 1 / 3, "ratio", 2 * error),
        ]
    report.notes.append(
        "site: site.main() alone, timed in the interpreter: .pth files, sitecustomize"
    )
    return report


def _start(python: Path, folder: Path) -> Sample:
    """Start an interpreter that does nothing, and one that times the work of `site`."""
    environ = {"PATH": os.defpath, "HOME": str(folder), "AUTOWRAPT_BOOTSTRAP": "benchmark_hooks"}
    log = folder / "interpreter.log"
    whole = time_process([str(python), "-c", "pass"], environ, log)
    time_process([str(python), "-S", "-c", SITE], environ, log)
    return {**whole, "site, ms": float(log.read_text())}


def import_vllm(folder: Path, runs: int) -> Report:
    """Import vLLM with a hundred armed patches and with the layer off."""
    targets = subjects.function_targets(programs.installed_vllm(), IMPORT_PACKAGES, IMPORT_PATCHES)
    site = subjects.write_patches(folder / "site", subjects.patch_set(targets))
    imports = _on_and_off(folder, site, "imports")
    imports[CONTROL] = imports[OFF]
    samples = interleave(imports, runs, "import")
    if samples[ON][0]["declared"] != len(targets):
        raise RuntimeError(f"declared {samples[ON][0]['declared']} patches, not {len(targets)}")
    report = Report(f"import vllm with {len(targets)} armed patches: {runs} rounds")
    for name, found in samples.items():
        report.add_samples(name, found)
    for measure in [name for name in samples[ON][0] if name.endswith(" s")]:
        ratios = {}
        for name in (ON, CONTROL):
            pairs = paired(samples[name], samples[OFF], measure, operator.truediv)
            report.add(f"{name}, ratio in a pair", measure, pairs)
            ratios[name] = ratio_of_medians(samples[name], samples[OFF], measure)
        # The control does the same as the base: what they differ by is noise.
        noise = max(abs(ratios[CONTROL] - 1), 2 * report.figures[-2].spread.error)
        target = f"with : without, {measure[:-2]}"
        report.checks.append(Check(target, ratios[ON], 1.015, "ratio", noise))
    report.notes.append(_own_account(folder, site))
    return report


def _own_account(folder: Path, site: Path) -> str:
    """Import once more with a trace, and say how long the layer itself was at work."""
    trace = folder / "trace"
    environ = {**programs.vllm_environ(site, "1"), "VLLM_GRAFT_TRACE": str(trace)}
    programs.run(folder, "imports", environ=environ)
    lines = [json.loads(line) for path in trace.iterdir() for line in path.open()]
    activate = sum(line["ms"] for line in lines if line["event"] == "activate")
    applied = [line["ms"] for line in lines if line["event"] == "apply"]
    return (
        f"The layer's own trace of one more run: activated in {activate:.1f} ms, "
        f"applied {len(applied)} patches in {sum(applied):.1f} ms."
    )


def plan(folder: Path, runs: int) -> Report:
    """Plan and arm patches on a made-up vLLM, from 1,250 to 10,000."""
    sizes: dict[str, Callable[[], Sample]] = {}
    for size in PLAN_SIZES:
        home = folder / f"plan-{size}"
        modules = subjects.write_made_up_vllm(home, size // subjects.PATCHES_PER_MODULE)
        subjects.write_made_up_patches(home, modules)
        sizes[f"{size:,} patches"] = functools.partial(
            programs.run, folder, "plan", environ=programs.vllm_environ(home, "1")
        )
    samples = interleave(sizes, runs, "plan")
    report = Report(f"Plan and arm: {runs} rounds")
    total = "plan and arm, ms"
    for size, (name, found) in zip(PLAN_SIZES, samples.items(), strict=True):
        if found[0]["armed"] != size:
            raise RuntimeError(f"armed {found[0]['armed']} patches, not {size}")
        report.add_samples(name, found)
        report.add(name, "plan and arm, µs each", [ms * 1e3 / size for ms in column(found, total)])
    first, *_, last = samples.values()
    factor = PLAN_SIZES[0] / PLAN_SIZES[-1]
    growth = [ratio * factor for ratio in paired(last, first, total, operator.truediv)]
    seconds = [ms / 1e3 for ms in column(last, total)]
    report.checks.append(Check.of("10,000 patches: plan and arm", seconds, 1, "s"))
    report.checks.append(Check.of("time of each, 10,000 : 1,250 patches", growth, 1.25, "ratio"))
    return report


def call(_folder: Path, runs: int) -> Report:
    """Call a small function in several ways."""
    samples = interleave(calls.subjects(), runs, "call")
    frames = calls.frames()
    report = Report(f"One call: {runs} rounds of {calls.LOOPS:,} calls")
    for name, found in samples.items():
        report.add_samples(name, found)
        report.add(name, "functions entered", [frames[name]])
    shapes = [measure for measure in samples[calls.WRAP][0] if measure.endswith("ns")]
    more = frames[calls.WRAP] - frames[calls.BY_HAND]
    report.checks.append(Check("wrap: functions entered on the way", more, 1, "calls"))
    for shape in shapes:
        units = paired(samples[calls.FORWARD], samples[calls.FUNCTION], shape, operator.sub)
        more_ns = paired(samples[calls.WRAP], samples[calls.BY_HAND], shape, operator.sub)
        extra = [ns / statistics.median(units) for ns in more_ns]
        report.checks.append(
            Check.of(f"wrap over its implementation, {shape[:-4]}", extra, 1, "calls")
        )
        ratio = paired(samples[calls.WRAP], samples[calls.WRAPT], shape, operator.truediv)
        report.checks.append(
            Check.of(f"wrap : wrapt.FunctionWrapper, {shape[:-4]}", ratio, 1, "ratio")
        )
        closure = paired(samples[calls.WRAP], samples[calls.CLOSURE], shape, operator.truediv)
        report.notes.append(
            f"{shape[:-4]}: the unit, a call that passes any arguments on, is "
            f"{statistics.median(units):.0f} ns; wrap : closure by hand "
            f"{statistics.median(closure):.3f}"
        )
    return report


def engine(folder: Path, runs: int) -> Report:
    """Generate with a tiny engine that has ten patches, none on the hot path, and with none."""
    targets = subjects.function_targets(programs.installed_vllm(), ENGINE_PACKAGES, ENGINE_PATCHES)
    site = subjects.write_patches(folder / "engine-site", subjects.patch_set(targets))
    model = str(write_model(folder / "model"))
    starts = interleave(
        _on_and_off(folder, site, "engine", model, str(ENGINE_CALLS)), runs, "engine", warm_up=False
    )
    report = Report(f"Tiny engine, {len(targets)} patches armed: {runs} starts each")
    for measure in ("tokens/s", "tokens per CPU s"):
        medians = {}
        for name, found in starts.items():
            report.add(name, measure, [rate for start in found for rate in start[measure]])
            medians[name] = [statistics.median(start[measure]) for start in found]
            report.add(name, f"{measure}, medians of the starts", medians[name])
        base = statistics.median(medians[OFF])
        loss = 1 - statistics.median(medians[ON]) / base
        # Starts differ by more than calls within one, so they are what the noise is read from.
        apart = max(max(each) - min(each) for each in medians.values()) / base
        margin = apart * 100 if runs > 1 else math.inf
        report.checks.append(Check(f"loss, {measure}", loss * 100, ENGINE_LOSS, "%", margin))
    for name, found in starts.items():
        report.add(name, "patches applied in the main process", [found[0]["applied"]])
    return report


def _on_and_off(
    folder: Path, site: Path, program: str, *arguments: str
) -> dict[str, Callable[[], Any]]:
    """Return what runs a program of `inside.py` with the layer off, and on."""
    return {
        name: functools.partial(
            programs.run, folder, program, *arguments, environ=programs.vllm_environ(site, graft)
        )
        for name, graft in ((OFF, "0"), (ON, "1"))
    }


PARTS: dict[str, tuple[Callable[[Path, int], Report], int]] = {
    "interpreter": (interpreter, 100),
    "import": (import_vllm, 8),
    "plan": (plan, 7),
    "call": (call, 50),
    "engine": (engine, 2),
}


if __name__ == "__main__":
    command(__doc__ or "", PARTS)
