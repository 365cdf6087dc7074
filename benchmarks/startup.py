"""What the layer costs: at interpreter start, at `import vllm`, in the plan, per call, per token.

    python benchmarks/startup.py [--only PART]... [--runs N] [--json FILE]

runs in any environment that has vllm-graft; `import` and `engine` need a vLLM there too. Nothing
is read from earlier runs, and what is compared runs in turns.
"""

import argparse
import functools
import json
import operator
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks import calls, subjects
from benchmarks.measure import (
    Sample,
    column,
    interleave,
    paired,
    progress,
    ratio_of_medians,
    time_process,
)
from benchmarks.report import Check, Report, machine, show

from vllm_graft.demo.model import write_model
from vllm_graft.version import package_folder

INSIDE = Path(__file__).with_name("inside.py")
IMPORT_PATCHES = 100
IMPORT_PACKAGES = ("config", "distributed", "entrypoints", "logging_utils", "utils", "v1")
ENGINE_PATCHES = 10
ENGINE_PACKAGES = ("config", "plugins")  # called when an engine starts, not when it runs
ENGINE_CALLS = 30
PLAN_SIZES = (1250, 2500, 5000, 10_000)
SITE = (
    "import site, time; start = time.perf_counter(); site.main(); "
    "print((time.perf_counter() - start) * 1e3)"
)
ON, OFF = "vllm-graft", "VLLM_GRAFT=0"


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
                added[name] = statistics.median(values)
                report.add(name, f"over bare: {clock}", values)
        graft, share = added["vllm-graft"], added["vllm-graft"] / added["importpatch"]
        report.checks.append(Check(f"over bare Python, {clock[:-4]}", graft, 0.6, "ms"))
        report.checks.append(Check(f"share of importpatch's, {clock[:-4]}", share, 1 / 3, "ratio"))
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
    targets = subjects.function_targets(_vllm(), IMPORT_PACKAGES, IMPORT_PATCHES)
    site = subjects.write_patches(folder / "site", subjects.patch_set(targets))
    samples = interleave(_on_and_off(folder, site, "imports"), runs, "import")
    if samples[ON][0]["declared"] != len(targets):
        raise RuntimeError(f"declared {samples[ON][0]['declared']} patches, not {len(targets)}")
    report = Report(f"import vllm with {len(targets)} armed patches: {runs} rounds")
    for name, found in samples.items():
        report.add_samples(name, found)
    for measure in [name for name in samples[ON][0] if name.endswith(" s")]:
        ratio = ratio_of_medians(samples[ON], samples[OFF], measure)
        report.add(
            "ratio in a pair", measure, paired(samples[ON], samples[OFF], measure, operator.truediv)
        )
        report.checks.append(Check(f"with : without, {measure[:-2]}", ratio, 1.015, "ratio"))
    report.notes.append(_own_account(folder, site))
    return report


def _own_account(folder: Path, site: Path) -> str:
    """Import once more with a trace, and say how long the layer itself was at work."""
    trace = folder / "trace"
    environ = {**_vllm_environ(site, "1"), "VLLM_GRAFT_TRACE": str(trace)}
    _inside(folder, "imports", environ=environ)
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
            _inside, folder, "plan", environ=_vllm_environ(home, "1")
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
    growth = ratio_of_medians(last, first, total) * PLAN_SIZES[0] / PLAN_SIZES[-1]
    seconds = statistics.median(column(last, total)) / 1e3
    report.checks.append(Check("10,000 patches: plan and arm", seconds, 1, "s"))
    report.checks.append(Check("time of each, 10,000 : 1,250 patches", growth, 1.25, "ratio"))
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
        medians = {name: statistics.median(column(found, shape)) for name, found in samples.items()}
        unit = medians[calls.FORWARD] - medians[calls.FUNCTION]
        extra = (medians[calls.WRAP] - medians[calls.BY_HAND]) / unit
        target = f"wrap over its implementation, {shape[:-4]}"
        report.checks.append(Check(target, extra, 1, "calls"))
        by_hand = medians[calls.WRAP] / medians[calls.CLOSURE]
        report.notes.append(
            f"{shape[:-4]}: the unit, a call that passes any arguments on, is {unit:.0f} ns; "
            f"wrap : closure by hand {by_hand:.3f}"
        )
        ratio = medians[calls.WRAP] / medians[calls.WRAPT]
        target = f"wrap : wrapt.FunctionWrapper, {shape[:-4]}"
        report.checks.append(Check(target, ratio, 1, "ratio"))
    return report


def engine(folder: Path, runs: int) -> Report:
    """Generate with a tiny engine that has ten patches, none on the hot path, and with none."""
    targets = subjects.function_targets(_vllm(), ENGINE_PACKAGES, ENGINE_PATCHES)
    site = subjects.write_patches(folder / "engine-site", subjects.patch_set(targets))
    model = str(write_model(folder / "model"))
    starts = interleave(
        _on_and_off(folder, site, "engine", model, str(ENGINE_CALLS)), runs, "engine", warm_up=False
    )
    report = Report(f"Tiny engine, {len(targets)} patches armed: {runs} starts each")
    for measure in ("tokens/s", "tokens per CPU s"):
        spreads = {}
        for name, found in starts.items():
            rates = [rate for start in found for rate in start[measure]]
            spreads[name] = report.add(name, measure, rates)
            medians = [statistics.median(start[measure]) for start in found]
            report.add(name, f"{measure}, medians of the starts", medians)
        base = spreads[OFF]
        loss, noise = 1 - spreads[ON].median / base.median, (base.high - base.low) / base.median
        target = f"loss, {measure}; limit: the distance of the quartiles without"
        report.checks.append(Check(target, loss * 100, noise * 100, "%"))
    for name, found in starts.items():
        report.add(name, "patches applied in the main process", [found[0]["applied"]])
    return report


def _on_and_off(
    folder: Path, site: Path, program: str, *arguments: str
) -> dict[str, Callable[[], Any]]:
    """Return what runs a program of `inside.py` with the layer off, and on."""
    return {
        name: functools.partial(
            _inside, folder, program, *arguments, environ=_vllm_environ(site, graft)
        )
        for name, graft in ((OFF, "0"), (ON, "1"))
    }


def _vllm() -> Path:
    folder = package_folder()
    if folder is None:
        raise LookupError("there is no vLLM in this environment")
    return folder


def _vllm_environ(site: Path, graft: str) -> dict[str, str]:
    """Return an environment in which a folder's packages are installed, without other settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM")}
    return {
        **inherited,
        "PYTHONPATH": str(site),
        "VLLM_CACHE_ROOT": str(site.parent / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_GRAFT": graft,
    }


def _inside(folder: Path, program: str, *arguments: str, environ: dict[str, str]) -> Any:
    """Run a program of `inside.py` and return its result."""
    result, log = folder / "result.json", folder / f"{program}.log"
    command = [sys.executable, str(INSIDE), program, str(result), *arguments]
    time_process(command, environ, log)
    return json.loads(result.read_text())


PARTS: dict[str, tuple[Callable[[Path, int], Report], int]] = {
    "interpreter": (interpreter, 100),
    "import": (import_vllm, 8),
    "plan": (plan, 7),
    "call": (call, 50),
    "engine": (engine, 2),
}


def main() -> None:
    """Measure the parts asked for, print a table of each, and write all as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; repeatable")
    parser.add_argument("--runs", type=int, help="rounds of each part, instead of its default")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    before = machine()
    reports = dict(_measure(options.only or PARTS, options.runs))
    print(", ".join(f"{key} {value}" for key, value in before.items()), end="\n\n")
    for report in reports.values():
        show(report)
    if options.json:
        parts = {name: report.to_dict() for name, report in reports.items()}
        options.json.write_text(json.dumps({"machine": before, "parts": parts}, indent=1))


def _measure(names: Iterable[str], runs: int | None) -> Iterable[tuple[str, Report]]:
    for name in names:
        measure, default = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="vllm-graft-benchmark-") as folder:
            try:
                yield name, measure(Path(folder), runs or default)
            except LookupError as error:
                progress(f"{name}: left out, {error}")


if __name__ == "__main__":
    main()
