"""Git, asked about a clone."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from weakref import finalize

from ..errors import SourceError


class MissingObjectError(SourceError):
    """The clone does not have what a commit of it has: it was made without."""


class Git:
    """One clone. Whatever git says of another one, in a hook that it runs, does not count."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone.resolve()
        self._reader: Reader | None = None

    def ask(self, *arguments: str) -> str | None:
        """Return what git prints; None where it fails."""
        done = self._run(arguments)
        return done.stdout if done.returncode == 0 else None

    def tells(self, *arguments: str) -> bool:
        """Tell whether a command of git succeeds."""
        return self._run(arguments).returncode == 0

    def commit(self, revision: str) -> str:
        """Return the full name of a commit; raise `SourceError` where there is none."""
        where = f"{self.clone}@{revision}"
        if not self.clone.is_dir():
            raise SourceError(f"{where} cannot be read: there is no folder {self.clone}")
        found = self.ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if found is not None:
            return found.strip()
        told = self._run(("rev-parse", "--git-dir"))
        if told.returncode:
            raise SourceError(
                f"{where} cannot be read: {self.clone} is no git clone that git reads "
                f"({_last_line(told.stderr)})"
            )
        raise SourceError(
            f"{where} cannot be read: the clone has no revision {revision!r}{self.shallow()}"
        )

    def contents(self, blob: str) -> bytes | None:
        """Return the contents of a blob; None where the clone does not have it."""
        if self._reader is None:
            self._reader = Reader(self.clone)
        return self._reader.contents(blob)

    def shallow(self) -> str:
        """Say, after a sentence, that history is cut off in the clone, where it is."""
        if (self.ask("rev-parse", "--is-shallow-repository") or "").strip() != "true":
            return ""
        return ". It is a shallow clone: `git fetch --unshallow --tags` brings all of the history"

    def _run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                ["git", "-C", str(self.clone), *arguments],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                env=_environment(),
            )
        except FileNotFoundError:
            raise SourceError("git is not installed, so no revision can be read") from None


class Reader:
    """A running `git cat-file --batch`: one process for all the files that are read."""

    def __init__(self, clone: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "-C", str(clone), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )
        finalize(self, _end, self._process)

    def contents(self, blob: str) -> bytes | None:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(f"{blob}\n".encode())
        requests.flush()
        header = answers.readline().split()
        if len(header) != 3:
            return None
        data = answers.read(int(header[2]))
        answers.read(1)
        return data


def _environment() -> dict[str, str]:
    """Return the environment without what git sets for its hooks: the repository it works on."""
    return {name: value for name, value in os.environ.items() if name not in _OF_HOOKS} | {
        "LC_ALL": "C"
    }


_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")


def _end(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "no reason given")
