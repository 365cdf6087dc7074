"""The catalogue of patches as Markdown: for people who review them, and for `git diff`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePath

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..patch import Patch
from .markdown import code, inline
from .output import relative
from .source import Source
from .survey import Cell, Row, Survey
from .versions import span

_FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Run:
    """Neighbouring vLLMs of which the same is to be said."""

    versions: str
    state: str
    said: str


@dataclass(frozen=True)
class Entry:
    """One patch; `fields` are names with values in Markdown."""

    id: str
    set: str
    file: str
    fields: tuple[tuple[str, str], ...]
    states: tuple[Run, ...]


def catalogue(survey: Survey, root: Path) -> str:
    """Return the document. The same patches and vLLMs give the same text on every machine.

    Files are named from the project's `root` on, those of other distributions from where they are
    imported.
    """
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=False,  # it is no HTML: `inline` and `code` escape for Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["inline"] = inline
    return environment.get_template("catalogue.md").render(
        entries=[_entry(row, root) for row in survey.rows],
        versions=[inline(_title(each)) for each in survey.sources],
    )


def _entry(row: Row, root: Path) -> Entry:
    patch = row.patch
    file = relative(Path(patch.location.file), root)
    fields = _fields(patch, f"{file}:{patch.location.line}")
    return Entry(
        patch.id,
        patch.set_name,
        file,
        tuple((name, value) for name, value in fields if value),
        tuple(_runs(row)),
    )


def _fields(patch: Patch, place: str) -> Iterator[tuple[str, str]]:
    yield "File", code(place)
    yield "Target", f"{code(patch.declared_target)} ({patch.operation})"
    yield "Why", inline(patch.why)
    yield "How", inline(patch.how)
    yield "Upstream", inline(patch.upstream)
    yield "Removal", inline(patch.remove)
    yield "Versions", code(patch.versions or "all")
    yield "Optional", "" if patch.required else "yes"
    yield "Processes", inline(", ".join(sorted(patch.process or ())))
    yield "Requires", inline(", ".join(patch.requirements))
    yield "After", inline(", ".join(patch.after))
    yield "Together", inline(patch.together or "")
    yield "Fixed by", inline(_probe(patch))
    yield "Review", str(patch.review or "")


def _probe(patch: Patch) -> str:
    probe = patch.fixed_by
    if callable(probe):
        return f"{probe.__module__}:{getattr(probe, '__qualname__', type(probe).__qualname__)}"
    return str(probe or "")


def _runs(row: Row) -> Iterator[Run]:
    for (state, said), cells in groupby(row.cells, lambda cell: (cell.state, _said(cell))):
        yield Run(span([_title(each.source) for each in cells]), state, said)


def _said(cell: Cell) -> str:
    """Return what is to be said besides the state, without what each release changes."""
    if cell.state == "out-of-range":
        return ""
    moves = cell.verdict.moves
    reason = cell.reason if cell.state == "changed" else cell.verdict.reason
    if cell.state == "moved" and moves:
        reason = f"it is at {moves[0].target}"
    parts = [reason, f"remove: {cell.fixed}" if cell.fixed else ""]
    return "; ".join(filter(None, parts))


def _title(source: Source) -> str:
    """Return the title of a source, without the folders of this machine."""
    return PurePath(source.text).name if source.version.version is None else source.title
