"""`vllm-graft check` beside `mpat check` and griffe: the same targets, in turns, in one run."""

import functools
import importlib.util
import json
import operator
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import others as programs
from benchmarks.checked import TARGETS, Checked, inside
from benchmarks.measure import Sample, interleave, paired, progress, time_process
from benchmarks.others import MISSING, OK, dotted
from benchmarks.programs import installed_vllm
from benchmarks.report import Check, Report

COLD, WARM, MPAT, GRIFFE = (
    "vllm-graft check, cold",
    "vllm-graft check, warm",
    "mpat check",
    "griffe",
)
RATIOS = {"wall, ms": "wall, ratio", "CPU, ms": "CPU, ratio"}


@dataclass(frozen=True)
class Others:
    """The other tools, in a folder where they find the targets."""

    folder: Path
    environ: Mapping[str, str]

    @classmethod
    def make(cls, folder: Path) -> "Others":
        """Raise LookupError where vLLM or a tool is not installed."""
        installed_vllm()
        for name in ("mpat", "griffe"):
            if importlib.util.find_spec(name) is None:
                raise LookupError(f"{name} is not installed; the extra `bench` brings it")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("VLLM")}
        # They import vLLM, and are to see it as it is.
        return cls(folder, {**inherited, "VLLM_GRAFT": "0", "VLLM_NO_USAGE_STATS": "1"})

    def ask(self, tool: str, targets: Sequence[str]) -> dict[str, str]:
        """Return what a tool says of each target, in a process of its own."""
        self.time(tool, targets)
        answer: dict[str, str] = json.loads(self._result(tool).read_text(encoding="utf-8"))
        return answer

    def time(self, tool: str, targets: Sequence[str]) -> Sample:
        """Time a tool that is asked for all targets by a program of ours."""
        given = self.folder / "targets.json"
        given.write_text(json.dumps(targets), encoding="utf-8")
        arguments = [tool, str(self._result(tool)), str(given)]
        command = [sys.executable, str(programs.__file__), *arguments]
        return time_process(command, self.environ, self.folder / f"{tool}.log")

    def watch(self, targets: Sequence[str]) -> None:
        """Have mpat watch the targets, and lock them as they are."""
        tables = (f"[[watch]]\ntarget = {json.dumps(dotted(each))}\n" for each in targets)
        (self.folder / "mpat.toml").write_text("\n".join(tables), encoding="utf-8")
        self._mpat("lock")

    def check(self) -> Sample:
        """Time `mpat check`."""
        return self._mpat("check", "--json")

    def _mpat(self, *arguments: str) -> Sample:
        command = [str(Path(sysconfig.get_path("scripts"), "mpat")), *arguments]
        with inside(self.folder):
            return time_process(command, self.environ, self.folder / "mpat-check.log")

    def _result(self, tool: str) -> Path:
        return self.folder / f"{tool}.json"


def others(folder: Path, runs: int) -> Report:
    """Check what mpat can import with each, having asked each for all targets."""
    tools = Others.make(folder)
    progress("others: which of the targets mpat can import")
    by_mpat = tools.ask("mpat", list(TARGETS))
    targets = [target for target, answer in by_mpat.items() if answer == OK]
    tools.watch(targets)
    checked = Checked.make(folder / "project", targets, ["installed"])
    progress("others: what griffe knows of them")
    by_griffe = tools.ask("griffe", list(TARGETS))
    runners: dict[str, Callable[[], Sample]] = {
        COLD: checked.cold,
        WARM: checked.warm,
        MPAT: tools.check,
        GRIFFE: functools.partial(tools.time, "griffe", targets),
    }
    samples = interleave(runners, runs, "others", warm_up=False)  # each has run once
    report = Report(f"{len(targets)} of {len(TARGETS)} targets, installed vLLM: {runs} rounds")
    for name, found in samples.items():
        report.add_samples(name, found)
        for measure, ratio in RATIOS.items():
            report.add(name, ratio, paired(found, samples[COLD], measure, operator.truediv))
    ours = Checked.make(folder / "all", list(TARGETS), ["installed"]).states
    _agreement(report, by_mpat, by_griffe, ours)
    return report


def _agreement(
    report: Report, by_mpat: dict[str, str], by_griffe: dict[str, str], ours: dict[str, str]
) -> None:
    """Compare whether each target exists, as far as mpat, which imports it, can tell."""
    told = {target: answer for target, answer in by_mpat.items() if answer in (OK, MISSING)}
    report.notes += [
        f"mpat {version('mpat')}, griffe {version('griffe')}; ratios are to {COLD}, in a round",
        f"mpat: {_counted(by_mpat)}",
    ]
    for name, answers in (("vllm-graft", _existing(ours)), ("griffe", by_griffe)):
        differing = [target for target in told if answers[target] != told[target]]
        report.notes += [f"{name} differs from mpat: {each}: {answers[each]}" for each in differing]
        report.checks.append(
            Check(f"{name} differs from mpat, of {len(told)}", len(differing), 0, "targets")
        )


def _existing(states: dict[str, str]) -> dict[str, str]:
    absent = {"missing": MISSING, "moved": MISSING, "unknown": "unknown"}
    return {target: absent.get(state, OK) for target, state in states.items()}


def _counted(answers: dict[str, str]) -> str:
    known = Counter(
        answer if answer in (OK, MISSING) else "not to be told" for answer in answers.values()
    )
    return ", ".join(f"{count} {answer}" for answer, count in known.items())
