"""What `check.py` measures: `vllm-graft check` of some targets on some vLLMs, in a process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, progress, time_process
from benchmarks.memory import peak

from vllm_graft.check.kept import sources_folder

TARGETS: Mapping[str, str] = {
    target: operation
    for operation, targets in json.loads(
        Path(__file__).with_name("targets.json").read_text(encoding="utf-8")
    ).items()
    for target in targets
}
"""Names that a plugin for vLLM patches or that a running vLLM has, and the operation on each."""

_SOURCES = sources_folder()
"""Releases that were fetched; a benchmark has answers of its own, and no releases of its own."""

_HEAD = """\"\"\"Patches to be measured.\"\"\"

from vllm_graft import PatchSet

patches = PatchSet("bench")
"""

_KEYWORDS = """
    vllm=">=0.9.2,<0.34",
    why="To be measured.",
    how="Call the original.",
    upstream="None.",
    remove="Never.",
"""

_PATCHES = {
    "wrap": """

@patches.wrap(
    {target!r},
    id="target-{number}",{keywords})
def target_{number}(original, *args, **kwargs):
    return original(*args, **kwargs)
""",
    "subclass": """

@patches.subclass(
    {target!r},
    id="target-{number}",{keywords})
def target_{number}(Original):
    return type("Changed", (Original,), {{}})
""",
    "set": """
patches.set(
    {target!r},
    None,
    id="target-{number}",{keywords})
""",
}


@dataclass(frozen=True)
class Checked:
    """A project whose patches are checked, with a folder of its own for the answers.

    Every run must say what the first one said: it fetches releases, and is not measured.
    """

    folder: Path
    sources: tuple[str, ...]
    subcommand: str = "check"

    @classmethod
    def make(cls, folder: Path, targets: Collection[str], sources: Sequence[str]) -> "Checked":
        """Write a project with a patch for each target, and run the check for the first time."""
        _write_project(folder, targets)
        return cls(folder, tuple(sources))._first_run(targets)

    @classmethod
    def make_locked(
        cls, folder: Path, targets: Collection[str], sources: Sequence[str]
    ) -> "Checked":
        """Write such a project, lock what all its patches meet, and compare with that as well."""
        _write_project(folder, targets)
        locking = cls(folder, tuple(sources), "lock")
        locking._run(fine=(0,))
        return cls(folder, tuple(sources))._first_run(targets)

    @property
    def command(self) -> list[str]:
        """The command that is measured."""
        named = [word for each in self.sources for word in ("--vllm", each)]
        return [sys.executable, "-m", "vllm_graft", self.subcommand, "--json", *named]

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the command, with a cache of its own."""
        return {**inherited(), "XDG_CACHE_HOME": str(self.folder / "cache")}

    @cached_property
    def said(self) -> dict[str, Any]:
        """What the command says."""
        answer: dict[str, Any] = json.loads(self._text)
        return answer

    @cached_property
    def states(self) -> dict[str, str]:
        """What became of each target on the only vLLM, whatever the range says."""
        return {each["target"]: each["cells"][0]["fit"] for each in self.said["patches"]}

    def _first_run(self, targets: Collection[str]) -> "Checked":
        progress(f"{len(targets)} targets on {', '.join(self.sources)}: first run")
        if len(self.said["patches"]) != len(targets):
            raise RuntimeError(f"not all of {len(targets)} targets in {self._text}")
        return self

    @cached_property
    def _text(self) -> str:
        return self._run(fine=(0, 1))  # 1: some patches do not fit, which is no fault

    def _run(self, fine: Collection[int]) -> str:
        done = subprocess.run(
            self.command,
            env=self.environ,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )
        if done.returncode not in fine:
            raise RuntimeError(f"{self.command} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def cold(self) -> Sample:
        """Time the command without answers of earlier runs."""
        self.forget()
        return self.warm()

    def anew(self) -> Sample:
        """Time the command without answers, but with what earlier runs kept of the names."""
        for file in self._answers.glob("*.json"):
            file.unlink()
        return self.warm()

    def warm(self) -> Sample:
        """Time the command, which has the answers of the run before."""
        log = self.folder / "check.log"
        with inside(self.folder):
            sample = time_process(self.command, self.environ, log, fine=(0, 1))
        if log.read_text(encoding="utf-8") != self._text:
            raise RuntimeError(f"another answer than that of the first run is in {log}")
        return sample

    def memory(self) -> Sample:
        """Run the command without answers and measure memory, which costs time."""
        self.forget()
        return peak(self.command, self.environ, self.folder, fine=(0, 1))

    def forget(self) -> None:
        """Remove the answers of earlier runs, and the names of modules that they kept."""
        shutil.rmtree(self._answers, ignore_errors=True)

    @property
    def _answers(self) -> Path:
        return self.folder / "cache" / "vllm-graft" / "check"


def _write_project(folder: Path, targets: Collection[str]) -> None:
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "patches.py").write_text(_patch_set(targets), encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        '[tool.vllm-graft]\nsets = ["bench.patches:patches"]\n', encoding="utf-8"
    )
    cache = folder / "cache" / "vllm-graft"
    cache.mkdir(parents=True)
    _SOURCES.mkdir(parents=True, exist_ok=True)
    (cache / "sources").symlink_to(_SOURCES, target_is_directory=True)


def inherited() -> dict[str, str]:
    """Return the environment without settings of vLLM and the layer.

    Nor is there the one against bytecode: packages are installed with theirs.
    """
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("VLLM") and key != "PYTHONDONTWRITEBYTECODE"
    }


def _patch_set(targets: Collection[str]) -> str:
    patches = (
        _PATCHES[TARGETS.get(target, "wrap")].format(
            target=target, number=number, keywords=_KEYWORDS
        )
        for number, target in enumerate(targets)
    )
    return _HEAD + "".join(patches)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Be in a folder meanwhile: `posix_spawn` starts a process only where its parent is."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
