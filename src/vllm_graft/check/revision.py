"""One revision of a git clone as a tree, without a checkout."""

import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from weakref import finalize

from packaging.version import InvalidVersion, Version

from ..errors import SourceError
from ..version import VllmVersion
from .tree import PACKAGE, Tree


class RevisionTree(Tree):
    """The package as it is in one revision; a path's stamp is the name of its blob."""

    fixed = True

    def __init__(self, clone: Path, revision: str) -> None:
        self.clone = clone.resolve()
        label = f"{clone}@{revision}"
        self.commit = _commit(self.clone, revision, label)
        super().__init__(label, f"commit {self.commit} of {self.clone}")

    def read(self, path: str) -> bytes:
        blob = self._blobs.get(path)
        if blob is None:
            raise FileNotFoundError(path)
        data = self._reader.contents(blob)
        if data is None:  # a partial clone without network
            raise SourceError(f"{path} in {self.label} cannot be read: git has no object {blob}")
        return data

    def has(self, path: str) -> bool:
        return path in self._blobs

    def is_folder(self, path: str) -> bool:
        return any(each.startswith(f"{path}/") for each in self._blobs)

    def stamp(self, path: str) -> str:
        return self._blobs.get(path, "")

    def listed(self, folder: str) -> Iterator[str]:
        prefix = f"{folder}/" if folder else ""
        seen = {
            path.removeprefix(prefix).partition("/")[0]
            for path in self._blobs
            if path.startswith(prefix)
        }
        yield from seen

    def files(self) -> Iterator[str]:
        yield from (path for path in self._blobs if path.endswith(".py"))

    @cached_property
    def version(self) -> VllmVersion:
        """The version that a build of this revision gives itself: by the last tag before it."""
        described = _git(
            self.clone, "describe", "--tags", "--long", "--match", "v[0-9]*", self.commit
        )
        return VllmVersion(_version(described or ""), f"git describe of {self.label}")

    @cached_property
    def _blobs(self) -> dict[str, str]:
        listing = _git(self.clone, "ls-tree", "-r", "-z", self.commit, "--", f"{PACKAGE}/") or ""
        blobs = {}
        for line in filter(None, listing.split("\0")):
            entry, _, path = line.partition("\t")
            blobs[path] = entry.split()[2]
        return blobs

    @cached_property
    def _reader(self) -> "_Reader":
        return _Reader(self.clone)


class _Reader:
    """A running `git cat-file --batch`: one process for all the files that are read."""

    def __init__(self, clone: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "-C", str(clone), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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


def _end(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def _commit(clone: Path, revision: str, label: str) -> str:
    if not clone.is_dir():
        raise SourceError(f"{label} cannot be read: there is no folder {clone}")
    commit = _git(clone, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise SourceError(
            f"{label} cannot be read: {clone} is no git clone, or has no revision {revision!r}"
        )
    return commit.strip()


def _git(clone: Path, *arguments: str) -> str | None:
    """Return what git prints; None where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise SourceError("git is not installed, so no revision can be read") from None
    return done.stdout if done.returncode == 0 else None


def _version(described: str) -> str | None:
    """Return the version that setuptools-scm makes of `v0.32.0-5-g1234abc`: the next, as dev."""
    tag, _, rest = described.strip().removeprefix("v").partition("-")
    distance = rest.partition("-")[0]
    try:
        last = Version(tag)
    except InvalidVersion:
        return None
    if distance in ("", "0"):
        return str(last)
    release = ".".join(map(str, last.release))
    if last.pre:
        return f"{release}{last.pre[0]}{last.pre[1] + 1}.dev{distance}"
    following = ".".join(map(str, (*last.release[:-1], last.release[-1] + 1)))
    return f"{following}.dev{distance}"
