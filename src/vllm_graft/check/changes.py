"""What upstream has changed in the target of a patch, for cells that need to be looked at."""

from collections.abc import Sequence
from dataclasses import replace

from ..errors import SourceError
from ..target import Target
from .cache import CachedResolver
from .difference import difference
from .example import LockedExample
from .findings import BROKEN
from .source import Source
from .survey import Cell, Row, Survey


def with_changes(survey: Survey) -> Survey:
    """Return a survey whose cells have the diff of their target, where it is not what it was.

    The other end is the locked version where a lock tells that the target has changed, and else the
    nearest vLLM that the patch fits, or for a missing target what shows how that was defined: a
    release that is kept, or the lock. The older one comes first. A locked version that is not among
    the sources is fetched; one that cannot be had leaves its cells without a diff.
    """
    shown = _Changes(survey.sources)
    return replace(survey, rows=tuple(shown.of_row(row) for row in survey.rows))


class _Changes:
    def __init__(self, sources: Sequence[Source]) -> None:
        self._by_version = {str(each.version.version): each for each in reversed(sources)}

    def of_row(self, row: Row) -> Row:
        cells = [replace(cell, diff=self._of_cell(row, cell)) for cell in row.cells]
        return replace(row, cells=tuple(cells))

    def _of_cell(self, row: Row, cell: Cell) -> str:
        start = self._start(row, cell)
        if start is None:
            return ""
        before, target = start
        now = cell.verdict.moves[0].target if cell.verdict.moves else cell.verdict.target
        ends = [(before, target), (cell.source.resolver, now)]
        if _is_newer(before, cell.source.resolver):
            ends.reverse()
        return difference(*ends[0], *ends[1])

    def _start(self, row: Row, cell: Cell) -> tuple[CachedResolver, Target] | None:
        """Return the vLLM to start from, and what the target was there."""
        drift = cell.drift
        if drift is not None and drift.is_changed and drift.locked and drift.before:
            return self._locked(drift.locked, drift.before.target)
        if cell.verdict.fit not in BROKEN:
            return None
        place = row.cells.index(cell)
        nearest = (*reversed(row.cells[:place]), *row.cells[place:])
        fits = next((each for each in nearest if each.verdict.fit == "ok"), None)
        if fits is not None:
            return fits.source.resolver, fits.verdict.target
        if isinstance(cell.known, LockedExample):
            return self._locked(str(cell.known.version), cell.known.locked.target)
        return None if cell.known is None else (cell.known.resolver, cell.verdict.target)

    def _locked(self, version: str, target: str) -> tuple[CachedResolver, Target] | None:
        if version not in self._by_version:
            try:
                self._by_version[version] = Source.open(version)
            except SourceError:
                return None
        return self._by_version[version].resolver, Target.parse(target)


def _is_newer(first: CachedResolver, second: CachedResolver) -> bool:
    ours, theirs = first.version.version, second.version.version
    return ours is not None and theirs is not None and ours > theirs
