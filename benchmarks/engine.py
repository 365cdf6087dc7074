"""An engine with 50 patches in effect, beside one whose source carries the changes on its hot path.

    python benchmarks/engine.py [--rounds N] [--compiled] [--json FILE]

runs in an environment that has vllm-graft and a vLLM for the CPU. Engines are started in turns, one
at a time, after one start of each that warms its caches and is not counted. Five of the patches
count calls of functions that run in every step of decoding; the edited source does the same.
"""

import argparse
import json
import math
import operator
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks import calls, decode, programs, subjects
from benchmarks.inside import DECODE_PROMPTS
from benchmarks.measure import Sample, Spread, column, interleave, paired, progress
from benchmarks.report import Check, Report, machine, show

from vllm_graft.demo.model import write_model

PATCHES = 50
PACKAGES = (  # what these hold is called when an engine starts, not when it decodes
    *("config", "entrypoints", "logging_utils", "multimodal", "platforms", "plugins"),
    *("renderers", "transformers_utils"),
)
MAIN = "MainProcess"  # where all the other patches have their functions
PATCHED, EDITED, PLAIN = f"{PATCHES} patches", "edited source", "plain vLLM"
BUILT_IN = "the layer's own patches"
CALLS = 5
LIMIT = 2  # %; what counts as a difference
RATES = ("tokens/s", "tokens per CPU s")
STARTS = ("start, wall s", "start, CPU s")

Result = Mapping[str, Any]
"""What the program `decode` of `inside.py` returned."""


@dataclass(frozen=True)
class Subject:
    """A vLLM that is started again and again, with caches of its own in its folder."""

    name: str
    folder: Path
    model: Path
    how: str
    graft: str = "0"
    targets: Sequence[str] = ()

    @property
    def site(self) -> Path:
        """Where packages are that only this vLLM has."""
        return self.folder / "site"

    def start(self) -> Result:
        """Start an engine, let it decode, and return what was measured."""
        trace = self.folder / "trace"
        shutil.rmtree(trace, ignore_errors=True)
        environ = {
            **programs.vllm_environ(self.site, self.graft),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache" / "inductor"),
            "BENCHMARK_COUNTS": str(decode.write_counts(self.folder / "counts")),
        }
        if self.targets:  # some 200 lines, a few milliseconds; vLLM alone would warn of the name
            environ["VLLM_GRAFT_TRACE"] = str(trace)
        arguments = (str(self.model), str(time.monotonic()), str(CALLS), self.how)
        result: Result = programs.run(self.folder, "decode", *arguments, environ=environ)
        self._verify(result)
        return {**result, "patched": _applied(trace, self.targets) if self.targets else {}}

    def _verify(self, result: Result) -> None:
        """Raise RuntimeError where this was not the vLLM that it should have been."""
        if Path(result["vllm"]).is_relative_to(self.site) != (self.name == EDITED):
            raise RuntimeError(f"{self.name}: vLLM was imported from {result['vllm']}")
        if result["declared"] != len(self.targets):
            raise RuntimeError(f"{self.name}: {result['declared']} patches were declared")
        *changed, _ = result["counts"]
        if self.name in (PATCHED, EDITED):
            if min(changed) < result["steps"]:
                raise RuntimeError(f"{self.name}: {changed} calls in {result['steps']} steps")
        elif any(changed):
            raise RuntimeError(f"{self.name}: {changed} calls were counted, which it cannot")


def measure(folder: Path, rounds: int, compiled: bool) -> Report:
    """Start the engines in turns; compare the tokens per second, and the warm starts."""
    how = "compiled" if compiled else "eager"
    starts = {subject.name: subject.start for subject in _prepare(folder, how)}
    results = interleave(starts, rounds, "engine", warm_up=False)
    answers = [answer for found in results.values() for each in found for answer in each["answers"]]
    if any(answer != answers[0] for answer in answers):
        raise RuntimeError("the engines gave different answers")
    samples = {name: [_sample(result) for result in found] for name, found in results.items()}
    report = Report(f"Tiny engine, {how}: {rounds} starts each")
    report.notes += [_patched(results), _called(results), _own_cost(samples[PATCHED])]
    for name, found in samples.items():
        report.add_samples(name, found)
    for rate in RATES:
        _compare(report, samples, rate, EDITED)
    for start in STARTS:
        # With the layer on, compiled artifacts are found again that a plain vLLM makes anew.
        _compare(report, samples, start, BUILT_IN if compiled else PLAIN)
    return report


def _prepare(folder: Path, how: str) -> list[Subject]:
    """Write the vLLMs to be compared, and start each once, which warms its caches.

    The plain one is the first: what every start of it imports is what the others' patches are for.
    """
    vllm, model = programs.installed_vllm(), write_model(folder / "model")

    def warm(name: str, place: str, graft: str = "0", targets: Sequence[str] = ()) -> Subject:
        (folder / place).mkdir(exist_ok=True)
        subject = Subject(name, folder / place, model, how, graft, targets)
        progress(f"engine: warming up, {name}")
        modules.extend(subject.start()["modules"])
        return subject

    modules: list[str] = []
    plain = warm(PLAIN, "plain")
    count = PATCHES - len(decode.CHANGED)
    others = subjects.function_targets(vllm, PACKAGES, count, set(modules))
    decode.write_patched(folder / "patched" / "site", others)
    decode.write_edited(folder / "edited" / "site", vllm)
    return [
        warm(PATCHED, "patched", "1", [*decode.CHANGED, *others]),
        warm(EDITED, "edited"),
        plain,
        *([warm(BUILT_IN, "built-in", "1")] if how == "compiled" else []),
    ]


def _applied(trace: Path, targets: Sequence[str]) -> dict[str, int]:
    """Return how many patches were applied in each process.

    Raises RuntimeError where one was not, in a process that imported its module, or where a
    change of the decode path is not where it belongs.
    """
    patched: dict[str, set[str]] = {target: set() for target in targets}
    imported: dict[str, set[str]] = {}
    for line in [json.loads(text) for path in trace.iterdir() for text in path.open()]:
        # The model inspection subprocess, in a cold start, has no name of its own.
        name = "inspection" if line["roles"] == ["inspection"] else line["process"]
        if line["event"] == "apply" and line["target"] in patched:
            patched[line["target"]].add(name)
        elif line["event"] == "fire":
            imported.setdefault(line["module"], set()).add(name)
    for target, found in patched.items():
        expected = {decode.CHANGED.get(target, MAIN), *imported.get(target.partition(":")[0], ())}
        if found != expected:
            raise RuntimeError(f"{target} was patched in {found}, not in {expected}")
    names = sorted(set().union(*patched.values()))
    return {name: sum(name in found for found in patched.values()) for name in names}


def _patched(results: Mapping[str, Sequence[Result]]) -> str:
    """Say how many patches were in effect in which process; every start has been verified."""
    places = results[PATCHED][-1]["patched"].items()
    where = ", ".join(f"{count} in {name}" for name, count in places)
    return f"All {PATCHES} patches were applied in every start, in the last one {where}."


def _called(results: Mapping[str, Sequence[Result]]) -> str:
    """Say how often the patched functions were called while the engines decoded."""
    counts = [result["counts"] for name in (PATCHED, EDITED) for result in results[name]]
    often = [count for *changed, _ in counts for count in changed]
    others = [result["counts"][-1] for result in results[PATCHED]]
    return (
        f"In {results[PATCHED][0]['steps']} steps of decoding, each changed function was called "
        f"{min(often)} to {max(often)} times, all others together {min(others)} to {max(others)}."
    )


def _sample(result: Result) -> Sample:
    """Return the start's figures, and the medians of its calls."""
    return {
        **{rate: statistics.median(result[rate]) for rate in RATES},
        **{start: float(result[start]) for start in STARTS},
    }


def _compare(report: Report, samples: Mapping[str, Sequence[Sample]], of: str, base: str) -> None:
    """Check that a measure of the patched engine is the base's, in the pairs of each round."""
    ratios = paired(samples[PATCHED], samples[base], of, operator.truediv)
    # These two differ by five additions and the place of their files: what is more, is noise.
    control = paired(samples[EDITED], samples[PLAIN], of, operator.truediv)
    spread, distance = Spread.of(ratios), abs(statistics.median(ratios) - 1)
    margin = max(abs(statistics.median(control) - 1), 2 * spread.error)
    report.checks.append(
        Check(f"{of}, distance from {base}", distance * 100, LIMIT, "%", margin * 100)
    )
    where = "within" if distance <= margin else "outside"
    report.notes += [
        f"{of}, {PATCHED} : {base}: {_range(ratios)}",
        f"{of}, {EDITED} : {PLAIN}, the control: {_range(control)}",
        f"{of}: one round does not show the noise"
        if math.isinf(margin)
        else f"{of}: the difference is {where} the noise",
    ]


def _range(ratios: Sequence[float]) -> str:
    """Write the ratios of the single rounds as their median, and from where to where they go."""
    return f"{statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}"


def _own_cost(patched: Sequence[Sample]) -> str:
    """Say what the layer adds to a step of decoding, from the cost of single calls.

    It is far below what two starts of one engine differ by, and so not seen beside the others.
    """
    timers, shape = calls.subjects(), "object.f(a, b), ns"
    names = (calls.WRAP, calls.FUNCTION)
    rounds = [{name: timers[name]()[shape] for name in names} for _ in range(15)]
    added = statistics.median(each[calls.WRAP] - each[calls.FUNCTION] for each in rounds)
    step = DECODE_PROMPTS / statistics.median(column(patched, "tokens/s")) * 1e9
    number = len(decode.CHANGED)
    return (
        f"By itself a call through wrap takes {added:.0f} ns more than the function: for "
        f"{number} of them {number * added / step:.3%} of a step of {step / 1e6:.1f} ms."
    )


def main() -> None:
    """Measure, print the tables, and write the figures as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="starts of each engine")
    parser.add_argument("--compiled", action="store_true", help="compile the model, not eager")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="vllm-graft-benchmark-") as folder:
        report = measure(Path(folder), options.rounds, options.compiled)
    print(", ".join(f"{key} {value}" for key, value in before.items()), end="\n\n")
    show(report)
    if options.json:
        options.json.write_text(
            json.dumps({"machine": before, "parts": {"engine": report.to_dict()}}, indent=1)
        )


if __name__ == "__main__":
    main()
