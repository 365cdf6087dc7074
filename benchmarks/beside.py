"""`vllm-graft check` beside `mpat check` and griffe: the same targets, in turns, in one run."""

import functools
import importlib.util
import json
import operator
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import others as programs
from benchmarks.checked import TARGETS, Checked, inherited, inside
from benchmarks.measure import Sample, interleave, paired, progress, time_process
from benchmarks.others import MISSING, OK, dotted
from benchmarks.programs import installed_vllm
from benchmarks.report import Check, Report

OURS = "vllm-graft"
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
        # They import vLLM, and are to see it as it is.
        return cls(folder, {**inherited(), "VLLM_GRAFT": "0", "VLLM_NO_USAGE_STATS": "1"})

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
        """Time `mpat check`. What it finds changed is no fault: see `statuses`."""
        return self._mpat("check", "--json", fine=(0, 1))

    @property
    def statuses(self) -> dict[str, str]:
        """What the last `mpat check` said of each target, behind what vLLM said meanwhile."""
        said = self._log.read_text(encoding="utf-8")
        rows, _ = json.JSONDecoder().raw_decode(said, said.index("[\n  {"))
        return {row["target"]: row["status"] for row in rows}

    def _mpat(self, *arguments: str, fine: Collection[int] = (0,)) -> Sample:
        command = [str(Path(sysconfig.get_path("scripts"), "mpat")), *arguments]
        with inside(self.folder):
            return time_process(command, self.environ, self._log, fine=fine)

    @property
    def _log(self) -> Path:
        return self.folder / "mpat-check.log"

    def _result(self, tool: str) -> Path:
        return self.folder / f"{tool}.json"


def others(folder: Path, runs: int) -> Report:
    """Check what mpat can import with each, having asked each for all targets.

    Both `mpat check` and ours compare with a lock. What we refuse to lock, since its patch would
    not land, is left out.
    """
    tools = Others.make(folder)
    progress("others: which of the targets mpat can import")
    by_mpat = tools.ask("mpat", list(TARGETS))
    ours = Checked.make(folder / "all", TARGETS, ["installed"]).states
    imported = [target for target, answer in by_mpat.items() if answer == OK]
    targets = [target for target in imported if ours[target] == OK]
    tools.watch(targets)
    checked = Checked.make_locked(folder / "project", targets, ["installed"])
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
    report.notes.append(f"mpat check right after mpat lock: {_counted(tools.statuses)}")
    left_out = {target: ours[target] for target in imported if target not in targets}
    report.notes += [f"{target} is {state}, and left out" for target, state in left_out.items()]
    _agreement(report, by_mpat, by_griffe, ours)
    return report


def _agreement(
    report: Report, by_mpat: dict[str, str], by_griffe: dict[str, str], ours: dict[str, str]
) -> None:
    """Compare whether each target exists, as far as mpat, which imports it, can tell."""
    told = {target: answer for target, answer in by_mpat.items() if answer in (OK, MISSING)}
    report.notes += [
        f"mpat {version('mpat')}, griffe {version('griffe')}; ratios are to {COLD}, in a round",
        f"mpat: {_counted(by_mpat, (OK, MISSING))}",
        *(f"{each}: {by_mpat[each]}" for each in by_mpat if each not in told),
    ]
    differing = {
        name: [f"{each}: {answers[each]}" for each in told if answers[each] != told[each]]
        for name, answers in ((OURS, _existing(ours)), ("griffe", by_griffe))
    }
    for name, found in differing.items():
        said = "; ".join(found) or "nowhere"
        report.notes.append(f"whether a target exists, {name} differs from mpat: {said}")
    target = f"of {len(told)} targets, {OURS} differs from mpat"
    report.checks.append(Check(target, len(differing[OURS]), 0, "targets"))


def _existing(states: dict[str, str]) -> dict[str, str]:
    absent = {"missing": MISSING, "moved": MISSING, "unknown": "unknown"}
    return {target: absent.get(state, OK) for target, state in states.items()}


def _counted(answers: Mapping[str, str], known: Collection[str] = ()) -> str:
    """Count answers; those of other words than the known ones are reasons of all kinds."""
    words = Counter(
        answer if not known or answer in known else "not imported" for answer in answers.values()
    )
    return ", ".join(f"{count} {word}" for word, count in words.most_common())
