"""Which commit breaks a patch: the history between two revisions, halved until one is left.

The commits are those of the first-parent history of the later revision, so that a merge is one
commit, whatever it brought along; vLLM's own history has no merges. Of a patch that breaks and is
mended several times in between, one of the breaks is found, as `git bisect` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import SourceError
from ..patch import Patch
from ..target import Target
from .cache import CachedResolver
from .example import AnyExample, Example
from .git import Git, MissingObjectError
from .resolution import Move
from .revision import RevisionRange, RevisionTree
from .verdicts import ExampleOf, Verdict, judge

Outcome: TypeAlias = Literal["holds", "breaks", "was-broken", "mended"]
"""What becomes of a patch from A to B; `was-broken` where it does not fit A, nor B."""


@dataclass(frozen=True)
class Commit:
    """One commit: its full name, its day (`2026-11-30`), and the first line of its message."""

    name: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """The name as people write it."""
        return self.name[:10]

    def __str__(self) -> str:
        return f"{self.short} ({self.date}) {self.subject}"


@dataclass(frozen=True)
class Bisection:
    """What becomes of a patch between two revisions.

    Where it `breaks`: `commit` is the first where it does not fit, or where that cannot be told,
    and `verdict` that of the patch there. Declared ranges do not count.
    """

    patch: Patch
    outcome: Outcome
    before: Verdict
    after: Verdict
    commit: Commit | None = None
    verdict: Verdict | None = None

    def __str__(self) -> str:
        return f"{self.patch.id}: {self.said}"

    @property
    def said(self) -> str:
        """The outcome in a sentence."""
        if self.outcome == "breaks":
            verdict = self.verdict or self.after
            return f"{verdict.fit} since {self.commit}: {verdict.reason}"
        if self.outcome == "was-broken":
            return f"fits at neither end ({self.after.fit}: {self.after.reason})"
        return _SENTENCES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values; `commit` is the full name of the commit, or null."""
        return {
            "patch": self.patch.id,
            "outcome": self.outcome,
            "commit": self.commit and self.commit.name,
            "date": self.commit and self.commit.date,
            "subject": self.commit and self.commit.subject,
            "state": self.verdict.fit if self.verdict else self.after.fit,
            "reason": self.verdict.reason if self.verdict else self.after.reason,
        }


_SENTENCES = {
    "holds": "fits at both ends",
    "mended": "does not fit at the first revision, and fits at the last",
}

_LOG = ("-c", "log.showSignature=no", "log", "--first-parent", "--reverse", "--format=%H %cs %s")


def bisect(
    patches: Sequence[Patch], revisions: RevisionRange, folder: Path | None = None
) -> list[Bisection]:
    """Return what becomes of each patch, in the given order; `folder` is that of the answers.

    A commit is opened once for all patches that ask for it. Raises `SourceError` where the range
    is none, or where git lacks what must be read.
    """
    history = _History(revisions, folder)
    before = {patch.id: judge(patch, history.resolver(0)) for patch in patches}
    known = _as_in(history.resolver(0))
    after = {patch.id: judge(patch, history.resolver(history.end), known) for patch in patches}
    ends = [(patch, _outcome(before[patch.id], after[patch.id])) for patch in patches]
    places = _places(history, [patch for patch, outcome in ends if outcome == "breaks"])
    found = {patch.id: _found(history, patch, place) for patch, place in places}
    history.save()
    return [
        Bisection(patch, outcome, before[patch.id], after[patch.id], *found.get(patch.id, ()))
        for patch, outcome in ends
    ]


def _outcome(before: Verdict, after: Verdict) -> Outcome:
    if before.fit == "ok":
        return "holds" if after.fit == "ok" else "breaks"
    return "mended" if after.fit == "ok" else "was-broken"


def _places(history: "_History", patches: list[Patch]) -> list[tuple[Patch, int]]:
    """Return where in the history each patch breaks, the patches of one commit together.

    All of them fit the start, and none the end, of the stretch that they are in.
    """
    found = []
    stretches = [(0, history.end, patches)]
    while stretches:
        start, end, breaking = stretches.pop()
        if end - start == 1:
            found += [(patch, end) for patch in breaking]
        elif breaking:
            middle = (start + end) // 2
            fitting = history.fitting(middle, breaking)
            stretches.append((middle, end, [each for each in breaking if each.id in fitting]))
            stretches.append((start, middle, [each for each in breaking if each.id not in fitting]))
    return found


def _found(history: "_History", patch: Patch, place: int) -> tuple[Commit, Verdict]:
    """Return the commit that breaks a patch, and the verdict there, by what was before it."""
    known = _as_in(history.resolver(place - 1))
    return history.commits[place - 1], _verdict(patch, history.resolver(place), known)


def _verdict(patch: Patch, resolver: CachedResolver, known: ExampleOf) -> Verdict:
    """Return the verdict of a patch; `unknown` where the commit has something that is no Python."""
    try:
        return judge(patch, resolver, known)
    except MissingObjectError:
        raise
    except SourceError as error:
        return Verdict(patch, patch.target, resolver.version, "unknown", str(error))


def _as_in(resolver: CachedResolver) -> ExampleOf:
    def example(target: Target) -> Example | None:
        found = resolver.resolve(target)
        return Example(resolver, found) if found.state == "found" and found.path else None

    return example


class _Quick(CachedResolver):
    """Does not search a whole tree for where a target went: only whether it is there matters."""

    def moves(self, target: Target, example: AnyExample | None = None) -> list[Move]:
        return []


class _History:
    """The commits of a range. Place 0 is the first revision."""

    def __init__(self, revisions: RevisionRange, folder: Path | None) -> None:
        self._git = Git(revisions.clone)
        self._folder = folder
        first, last = map(self._git.commit, (revisions.first, revisions.last))
        if not self._git.tells("merge-base", "--is-ancestor", first, last):
            raise SourceError(
                f"{revisions} is no range: {revisions.first!r} is no ancestor of "
                f"{revisions.last!r}{self._git.shallow()}"
            )
        log = self._git.ask(*_LOG, f"{first}..{last}") or ""
        self.commits = [Commit(*line.split(" ", 2)) for line in log.split("\n") if line]
        if not self.commits:
            raise SourceError(f"{revisions} is no range: there is no commit in between")
        between = [each.name for each in self.commits[:-1]]
        self._revisions = [revisions.first, *between, revisions.last]
        self._open: dict[int, CachedResolver] = {}

    @property
    def end(self) -> int:
        """The place of the last revision."""
        return len(self.commits)

    def fitting(self, place: int, patches: Sequence[Patch]) -> set[str]:
        """Return the ids of the patches that fit a commit."""
        resolver = _Quick(self._tree(place), self._folder)
        found = {
            patch.id for patch in patches if _verdict(patch, resolver, lambda _: None).fit == "ok"
        }
        resolver.save()
        return found

    def resolver(self, place: int) -> CachedResolver:
        """Return what follows targets in a commit. Two commits at most stay in memory."""
        if place not in self._open:
            for resolver in [*self._open.values()][:-1]:
                resolver.save()
                resolver.release()
            self._open[place] = CachedResolver(self._tree(place), self._folder)
        return self._open[place]

    def save(self) -> None:
        """Write the answers, so that the next run has them."""
        for resolver in self._open.values():
            resolver.save()

    def _tree(self, place: int) -> RevisionTree:
        return RevisionTree(self._git.clone, self._revisions[place], self._git)
