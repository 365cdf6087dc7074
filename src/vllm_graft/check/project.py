"""The table `[tool.vllm-graft]` of a project, and the patches that it is about."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..catalog import GROUP, Catalog, load_catalog
from ..entry_points import EntryPoint, Undistributed, entry_points
from ..errors import ProjectError
from ..patch import Patch
from ..target import is_lazy, load
from .revision_name import split

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = "tool.vllm-graft"
LOCK = "graft.lock"


@dataclass(frozen=True)
class Project:
    """What a project says of its patches.

    `sets` are `"module:name"` of patch sets: those of the table, and the project's own entry
    points, so that it need not be installed to be checked. `select` are globs over
    ids as in `VLLM_GRAFT_PATCHES`, `vllm` the sources to check against, at least one. `has_table`
    tells whether any of it was said: without, everything installed counts. `names_lock` tells
    whether the lock was: it is missed if it does not exist.
    """

    root: Path
    has_table: bool = False
    sets: tuple[str, ...] = ()
    select: str | None = None
    vllm: tuple[str, ...] = ("installed",)
    lock: Path = field(default=Path(LOCK))
    names_lock: bool = False

    @property
    def has_lock(self) -> bool:
        """Whether patches are compared with the lock."""
        return self.names_lock or self.lock.is_file()

    def catalog(self) -> Catalog:
        """Load the installed sets and those that the table names."""
        if not self.sets:
            return load_catalog()
        installed = entry_points(GROUP)
        values = {each.value for each in installed}
        named = [self._entry_point(each) for each in self.sets if each not in values]
        return load_catalog((*installed, *named))

    def patches(self, catalog: Catalog, select: str | None = None) -> tuple[Patch, ...]:
        """Return the patches to check: those selected, else the project's own, else all.

        Raises `ProjectError` where there is none.
        """
        globs = self.select if select is None else select
        if globs is not None:
            from ..settings import Selection

            selection = Selection.parse(globs, "the selection")
            chosen = tuple(each for each in catalog.patches if selection.names(each.id))
            what = f"none has an id like {globs!r}"
        elif self.has_table:
            files = {each.location.file for each in catalog.patches}
            ours = set(filter(self._is_ours, files))
            chosen = tuple(each for each in catalog.patches if each.location.file in ours)
            what = f"none is declared in {self.root}, and {TABLE} has neither `sets` nor `select`"
        else:
            return catalog.patches
        if not chosen and not catalog.broken:
            known = ", ".join(sorted(each.name for each in catalog.sets)) or "none"
            raise ProjectError(f"there are no patches to check: {what}. The sets are {known}")
        return chosen

    def located(self, source: str) -> str:
        """Return what to open for a source of the table: a path is one below the project."""
        if (self.root / source).exists():
            return str(self.root / source)
        named = split(source, self.root)
        if named is not None and (self.root / named[0]).is_dir():
            return f"{self.root / named[0]}@{named[1]}"
        return source

    def _entry_point(self, value: str) -> EntryPoint:
        self._make_importable()
        try:
            name = load(value).name
        except Exception:  # the catalog meets it again, and tells
            name = value.partition(":")[0].partition(".")[0]
        if is_lazy(value):
            return Undistributed(name, value)
        from importlib import metadata  # which reads more than we write ourselves

        return metadata.EntryPoint(name, value, GROUP)

    def _make_importable(self) -> None:
        """Have what is in the project imported from there, as an editable install would."""
        for folder in (self.root, self.root / "src"):
            if folder.is_dir() and str(folder) not in sys.path:
                sys.path.append(str(folder))

    def _is_ours(self, file: str) -> bool:
        path = Path(file).resolve()
        return path.is_relative_to(self.root.resolve()) and "site-packages" not in path.parts


def find_project(start: Path | None = None) -> Project:
    """Return the project of a folder: of the nearest `pyproject.toml` in it or above it.

    Raises `ProjectError` where its table has no meaning.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return read_project(file)
    return Project(start, lock=start / LOCK)


def read_project(file: Path) -> Project:
    """Read the table of a `pyproject.toml`; raise `ProjectError` where it has no meaning."""
    root = file.parent
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProjectError(f"{file} cannot be read: {error}") from error
    table = tables.get("tool", {}).get("vllm-graft")
    if table is None:
        return Project(root, lock=root / LOCK)
    if not isinstance(table, Mapping):
        raise ProjectError(f"{file}: {TABLE} is no table")
    for key in table:
        if key not in _KEYS:
            raise ProjectError(f"{file}: {TABLE} has no key {key!r}. It has {', '.join(_KEYS)}")
    sets = _strings(file, table, "sets", ())
    for each in sets:
        if not is_lazy(each):
            raise ProjectError(
                f"{file}: {TABLE}.sets has {each!r}. Name a PatchSet as 'module:name'"
            )
    vllm = _strings(file, table, "vllm", Project.vllm)
    if not vllm or not all(map(str.strip, vllm)):
        raise ProjectError(
            f"{file}: {TABLE}.vllm is {table['vllm']!r}. Name what to check against, as in "
            "['0.32.0', '>=0.33'], or leave it out for the installed vLLM"
        )
    lock = _string(file, table, "lock", None)
    return Project(
        root,
        has_table=True,
        sets=tuple(dict.fromkeys((*sets, *_declared(tables)))),
        select=_string(file, table, "select", None),
        vllm=vllm,
        lock=root / (lock or LOCK),
        names_lock=bool(lock),
    )


_KEYS = ("sets", "select", "vllm", "lock")


def _declared(tables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sets among a project's own entry points."""
    declared = tables.get("project", {}).get("entry-points", {}).get(GROUP, {})
    return tuple(map(str, declared.values()))


def _string(file: Path, table: Mapping[str, Any], key: str, default: str | None) -> str | None:
    value = table.get(key, default)
    if value is not None and not isinstance(value, str):
        raise ProjectError(f"{file}: {TABLE}.{key} is {value!r}. Give a string")
    return value


def _strings(
    file: Path, table: Mapping[str, Any], key: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    value = table.get(key, default)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(each, str) for each in values):
        raise ProjectError(f"{file}: {TABLE}.{key} is {value!r}. Give a list of strings")
    return tuple(values)
