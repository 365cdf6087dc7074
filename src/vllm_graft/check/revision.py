"""Revisions of a git clone as trees, without a checkout."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ..errors import SourceError
from ..version import VllmVersion
from .git import Git, MissingObjectError
from .revision_name import split
from .tree import PACKAGE, Tree


class RevisionTree(Tree):
    """The package as it is in one revision; a path's stamp is the name of its blob."""

    fixed = True

    def __init__(self, clone: Path, revision: str, git: Git | None = None) -> None:
        self.git = git or Git(clone)
        self.commit = self.git.commit(revision)
        super().__init__(f"{clone}@{revision}", f"commit {self.commit} of {self.git.clone}")

    def read(self, path: str) -> bytes:
        blob = self._blobs.get(path)
        if blob is None:
            raise FileNotFoundError(path)
        data = self.git.contents(blob)
        if data is None:  # a partial clone without network
            raise MissingObjectError(
                f"{path} in {self.label} cannot be read: git has no object {blob}"
            )
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
        described = self.git.ask("describe", "--tags", "--long", "--match", "v[0-9]*", self.commit)
        return VllmVersion(_version(described or ""), f"git describe of {self.label}")

    @cached_property
    def _blobs(self) -> dict[str, str]:
        listing = self.git.ask("ls-tree", "-r", "-z", self.commit, "--", f"{PACKAGE}/") or ""
        blobs = {}
        for line in filter(None, listing.split("\0")):
            entry, _, path = line.partition("\t")
            blobs[path] = entry.split()[2]
        return blobs


@dataclass(frozen=True)
class RevisionRange:
    """`PATH@A..B`: two revisions of a clone, and what was committed between them."""

    clone: Path
    first: str
    last: str

    @classmethod
    def parse(cls, text: str) -> "RevisionRange | None":
        """Return the range that a text is; None where it is none. B may be left out: HEAD."""
        named = split(text)
        if named is None or ".." not in named[1]:
            return None
        clone, revisions = named
        first, _, last = revisions.partition("..")
        if not first or last.startswith("."):
            raise SourceError(f"{text!r} is no range of revisions. Write PATH@A..B, A before B")
        return cls(Path(clone), first, last or "HEAD")

    def __str__(self) -> str:
        return f"{self.clone}@{self.first}..{self.last}"

    @property
    def ends(self) -> tuple[str, str]:
        """The sources that both ends are."""
        return f"{self.clone}@{self.first}", f"{self.clone}@{self.last}"


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
