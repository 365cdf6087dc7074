"""Real interpreters: new virtual environments, into which nothing of the outer one leaks."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from typing import Any

from packaging.requirements import Requirement

LIBRARIES = ("click", "jinja2", "packaging", "rich", "wrapt", "pip") + (
    ("tomli",) if sys.version_info < (3, 11) else ()
)
"""What an environment has besides the project: its dependencies, and the installer."""

COUNT_SENTINELS = """
import sys
answer = [getattr(finder, "__name__", "") for finder in sys.meta_path].count("VllmGraft")
"""

_ANSWER = "\nimport json\nprint(json.dumps(answer))\n"
_PRIVATE = ("PYTHON", "VLLM_", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "COVERAGE_")


@dataclass(frozen=True)
class Interpreter:
    """The interpreter of one virtual environment."""

    prefix: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.prefix.glob("lib/python*/site-packages"))

    def start(
        self, *arguments: str | Path, path: Sequence[Path] = (), **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Start it with arguments, `path` as PYTHONPATH, and these environment variables."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(_PRIVATE)}
        environ |= variables
        if path:
            environ["PYTHONPATH"] = os.pathsep.join(map(str, path))
        return subprocess.run(
            [self.python, *arguments],
            env=environ,
            cwd=self.prefix,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def execute(
        self, code: str, *options: str, path: Sequence[Path] = (), **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Execute code, however it ends."""
        return self.start(*options, "-c", dedent(code), path=path, **variables)

    def run(self, code: str, *options: str, path: Sequence[Path] = (), **variables: str) -> str:
        """Execute code that ends well and is silent on stderr; return what it printed."""
        done = self.execute(code, *options, path=path, **variables)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    def ask(self, code: str, *options: str, path: Sequence[Path] = (), **variables: str) -> Any:
        """Execute code that is silent; return what it leaves in `answer`, as JSON has it."""
        return json.loads(self.run(dedent(code) + _ANSWER, *options, path=path, **variables))

    def pip(self, *arguments: str | Path) -> str:
        """Run pip in this environment, without an index; return what it printed."""
        done = self.start("-m", "pip", *arguments, PIP_NO_INDEX="1", PIP_NO_INPUT="1")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def create(folder: Path, *more: str) -> Interpreter:
    """Make a virtual environment that has the libraries, and more of them, but not the project."""
    venv.create(folder, symlinks=True, with_pip=False)
    interpreter = Interpreter(folder)
    # Python 3.13 imports encodings.utf_8_sig where there is any .pth file, whatever is in it.
    (interpreter.site_packages / "inert.pth").write_text("# nothing\n")
    for source in _library_paths((*LIBRARIES, *more)):
        # Copied, not linked: pip takes a folder of links for an empty one, and removes it.
        copied = interpreter.site_packages / source.name
        if source.is_dir():
            shutil.copytree(source, copied)
        else:
            shutil.copy(source, copied)
    return interpreter


def _library_paths(names: Sequence[str]) -> set[Path]:
    """Return the files and folders at the root of site-packages that libraries consist of."""
    found = set()
    for distribution in _closure(names):
        for file in distribution.files or ():
            if file.parts[0] not in ("..", "__pycache__"):
                found.add(Path(str(distribution.locate_file(file.parts[0]))))
    return found


def _closure(names: Sequence[str]) -> Iterator[metadata.Distribution]:
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        distribution = metadata.distribution(name)
        yield distribution
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
