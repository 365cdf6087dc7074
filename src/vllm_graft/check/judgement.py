"""Patches judged on vLLMs of which some cannot be opened or judged: each answer by itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import GraftError, SourceError
from ..patch import Patch
from .findings import Finding
from .locks import Locks
from .project import Project
from .source import Source
from .survey import Cell, Row, survey


@dataclass(frozen=True)
class Answer:
    """What a survey says of one patch on one vLLM. `is_first` is on the first one of the patch."""

    row: Row
    cell: Cell

    @property
    def findings(self) -> Iterator[Finding]:
        """What is found on this vLLM; with the first one, also what is of no single vLLM."""
        is_first = self.cell is self.row.cells[0]
        for each in self.row.findings:
            if each.source == self.cell.source.text or (is_first and each.source is None):
                yield each


Answers = Mapping[tuple[str, str], Answer | GraftError]
"""By the id of a patch and the name of a vLLM."""


def answers(patches: Sequence[Patch], names: Sequence[str], project: Project) -> Answers:
    """Judge the patches of a project on the vLLMs of these names; paths are relative to it."""
    found: dict[tuple[str, str], Answer | GraftError] = {}
    opened: dict[str, Source] = {}
    for name in names:
        try:
            opened[name] = Source.open(project.located(name))
        except SourceError as error:
            found |= {(patch.id, name): error for patch in patches}
    return found | _judged(patches, opened, Locks(project))


def _judged(
    patches: Sequence[Patch], sources: Mapping[str, Source], locks: Locks
) -> dict[tuple[str, str], Answer | GraftError]:
    """Survey all together, or where that cannot be done in ever smaller parts."""
    try:
        made = survey(patches, tuple(sources.values()), locks)
    except GraftError as error:
        parts = _parts(patches, sources, error)
        if not parts:
            return {(patch.id, name): error for patch in patches for name in sources}
        return {key: answer for part in parts for key, answer in _judged(*part, locks).items()}
    return {
        (row.patch.id, name): Answer(row, cell)
        for row in made.rows
        for name, cell in zip(sources, row.cells, strict=True)
    }


def _parts(
    patches: Sequence[Patch], sources: Mapping[str, Source], error: GraftError
) -> list[tuple[Sequence[Patch], Mapping[str, Source]]]:
    """Divide by what an error is likely to be about; nothing where there is nothing to divide."""
    by_source: list[tuple[Sequence[Patch], Mapping[str, Source]]] = [
        (patches, {name: source}) for name, source in sources.items()
    ]
    by_patch: list[tuple[Sequence[Patch], Mapping[str, Source]]] = [
        ((patch,), sources) for patch in patches
    ]
    ways = [by_source, by_patch] if isinstance(error, SourceError) else [by_patch, by_source]
    return next((way for way in ways if len(way) > 1), [])
