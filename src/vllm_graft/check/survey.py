"""Patches by vLLMs: the verdict of each on each, and what that says of the patch as a whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..catalog import BrokenSet
from ..patch import Patch
from .at_hand import AtHand
from .examples import Examples, LockOf
from .findings import Finding, findings_of
from .prepare import prepare
from .probes import fixed
from .source import Source
from .verdicts import State, Verdict, judge
from .versions import spans

if TYPE_CHECKING:
    from .drift import Drift
    from .example import AnyExample

CellState: TypeAlias = State | Literal["changed"]


@dataclass(frozen=True)
class Cell:
    """What becomes of a patch on one vLLM: the verdict, and what it says with the lock.

    `fixed` says why the patch is no longer needed there, `drift` how its target is not as locked,
    `diff` what has changed upstream, as far as that was asked for. `advice` says how to learn more
    of a target that is missing, `known` is how that was defined.
    """

    source: Source
    verdict: Verdict
    fixed: str | None = None
    drift: "Drift | None" = None
    diff: str = ""
    advice: str = ""
    known: "AnyExample | None" = None

    @property
    def state(self) -> CellState:
        """The verdict, or `changed` where the patch fits something else than was locked."""
        is_changed = self.drift is not None and self.drift.is_changed
        return "changed" if is_changed and self.verdict.state == "ok" else self.verdict.state

    @property
    def reason(self) -> str:
        """Why it is that state; empty where nothing needs to be said."""
        if self.state == "changed":
            return str(self.drift)
        if self.state == "out-of-range":
            return ""
        said = "; ".join(filter(None, [self.verdict.reason, self._compared, self.advice]))
        return ". ".join(filter(None, [said, self.verdict.hint]))

    @property
    def _compared(self) -> str:
        other = self.verdict.compared
        if not other:
            return ""
        return (
            f"compared with {other}" if self.verdict.moves else f"nothing is like that of {other}"
        )


@dataclass(frozen=True)
class Row:
    """One patch on all the vLLMs."""

    patch: Patch
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]

    @property
    def applies(self) -> str:
        """The versions where the patch would apply, whatever its range says."""
        titles = [each.source.title for each in self.cells]
        return spans([each.verdict.fit == "ok" for each in self.cells], titles)


@dataclass(frozen=True)
class Survey:
    """All patches on all the vLLMs, and the sets that could not be loaded."""

    sources: tuple[Source, ...]
    rows: tuple[Row, ...]
    broken: tuple[BrokenSet, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What deserves attention, by patch."""
        return tuple(finding for row in self.rows for finding in row.findings)

    @property
    def is_fine(self) -> bool:
        """Whether nothing falls short: findings below errors do not count."""
        return not self.broken and all(each.level != "error" for each in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        from .plain import plain

        return plain(self)


def survey(
    patches: Iterable[Patch],
    sources: Sequence[Source],
    lock_of: LockOf = lambda _: None,
    *,
    broken: Sequence[BrokenSet] = (),
    today: date | None = None,
    kept: AtHand | None = None,
) -> Survey:
    """Judge every patch on every vLLM.

    Of a target that is missing the releases in the cache folder tell what it was, unless `kept` is
    others.
    Raises `SourceError` where one of them cannot be read, `DeclarationError` where a probe raises.
    """
    patches = tuple(patches)
    kept = AtHand(sources) if kept is None else kept
    examples = {patch.id: Examples(patch, sources, kept, lock_of) for patch in patches}
    prepare(patches, sources, examples)
    cells: dict[str, list[Cell]] = {patch.id: [] for patch in patches}
    for source in sources:
        for patch in patches:
            cells[patch.id].append(_cell(patch, source, examples[patch.id], lock_of))
        source.resolver.save()
        source.resolver.release()
    for source in sources:  # those of later columns have asked the earlier ones again
        source.resolver.save()
    kept.close()
    today = today or date.today()
    rows = [_row(patch, cells[patch.id], lock_of, today) for patch in patches]
    return Survey(tuple(sources), tuple(rows), tuple(broken))


def _row(patch: Patch, cells: Sequence[Cell], lock_of: LockOf, today: date) -> Row:
    lock, own = lock_of(patch), None
    if lock is not None and any(_is_compared(each.verdict) for each in cells):
        from .drift import own_drift  # few checks have a lock

        own = own_drift(patch, lock)
    return Row(patch, tuple(cells), tuple(findings_of(patch, cells, today, own)))


def _is_compared(verdict: Verdict) -> bool:
    """Tell whether there is something to compare with a lock: a target that the patch may meet."""
    return verdict.fit in ("ok", "unknown") and verdict.in_range is not False


def _cell(patch: Patch, source: Source, examples: Examples, lock_of: LockOf) -> Cell:
    verdict = judge(patch, source.resolver, examples)
    found, lock = verdict.resolution, lock_of(patch)
    drifted = None
    if lock is not None and found is not None and _is_compared(verdict):
        from .drift import drift  # few checks have a lock

        drifted = drift(patch, found, source.version, lock)
    is_lost = verdict.fit in ("missing", "moved") and patch.operation != "add"
    is_certain = bool(found and found.meant) or any(
        each.similarity == 1.0 for each in verdict.moves
    )
    known = examples(verdict.target) if is_lost else None
    return Cell(
        source,
        verdict,
        fixed(patch, source, verdict.target, found),
        drifted,
        advice=examples.advice(verdict.target) if is_lost and not is_certain else "",
        known=known,
    )
