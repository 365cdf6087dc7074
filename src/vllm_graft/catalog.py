"""Finds the patch sets: the built-in ones, and those that installed distributions declare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .builtin import builtin_sets
from .declare import PatchSet
from .entry_points import EntryPoint
from .errors import BrokenSetError, ConflictError, DeclarationError
from .imports import without_heavy_imports
from .models.registry import BUILTIN_MODELS, ORIGIN, SET, get_models, models_set, origin
from .models.registry import GROUP as MODELS
from .patch import Patch

GROUP = "vllm_graft.patches"
"""The entry point group in which distributions name their patch sets."""


@dataclass(frozen=True)
class BrokenSet:
    """A set that could not be loaded, and why."""

    name: str
    origin: str
    error: BrokenSetError


@dataclass(frozen=True)
class Catalog:
    """Every set that was found. `origins` says for each set which distribution declares it."""

    sets: tuple[PatchSet, ...]
    origins: Mapping[str, str]
    broken: tuple[BrokenSet, ...] = ()

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The patches of all sets, by set and in the order of their declaration."""
        return tuple(patch for patch_set in self.sets for patch in patch_set.patches)


def load_catalog(
    entry_points: Sequence[EntryPoint] | None = None,
    factories: Sequence[EntryPoint] = (),
) -> Catalog:
    """Load every patch set. One that cannot be loaded is kept as broken and hides no other.

    `entry_points` name sets and `factories` the factories of models, by default those of the
    installed distributions.
    """
    if entry_points is None:
        from importlib import metadata  # a fifth of a check, which can often do without

        installed = metadata.entry_points()
        entry_points = tuple(installed.select(group=GROUP))
        factories = tuple(installed.select(group=MODELS))
    models, broken = _models(factories)
    sets = {patch_set.name: patch_set for patch_set in (*builtin_sets(), models)}
    for patch_set in sets.values():
        patch_set.seal()
    origins = dict.fromkeys(sets, ORIGIN)
    for entry_point in sorted(set(entry_points), key=lambda found: (found.name, found.value)):
        try:
            patch_set = _load(entry_point)
            _check(patch_set, entry_point, origins)
        except BrokenSetError as error:
            broken.append(BrokenSet(entry_point.name, origin(entry_point), error))
            continue
        sets[patch_set.name] = patch_set
        origins[patch_set.name] = origin(entry_point)
    return Catalog(tuple(sets.values()), origins, tuple(broken))


def _models(
    factories: Sequence[EntryPoint],
) -> tuple[PatchSet, list[BrokenSet]]:
    try:
        return models_set(get_models(factories)), []
    except BrokenSetError as error:
        return models_set(BUILTIN_MODELS), [BrokenSet(SET, "", error)]


def _load(entry_point: EntryPoint) -> PatchSet:
    try:
        with without_heavy_imports():
            patch_set = entry_point.load()
    except (DeclarationError, ConflictError) as error:
        raise _broken(entry_point, str(error)) from error
    except (Exception, SystemExit) as error:
        place = _raised_at(error)
        raise _broken(
            entry_point,
            f"{place}{type(error).__name__}: {error}",
            "Mend that module, or uninstall the distribution.",
        ) from error
    if not isinstance(patch_set, PatchSet):
        raise _broken(
            entry_point,
            f"{entry_point.value!r} is {patch_set!r}, not a PatchSet",
            f"Point the entry point of group {GROUP!r} at the PatchSet.",
        )
    return patch_set


def _check(patch_set: PatchSet, entry_point: EntryPoint, origins: Mapping[str, str]) -> None:
    if patch_set.name != entry_point.name:
        raise _broken(
            entry_point,
            f"{patch_set.location}: the set calls itself {patch_set.name!r}",
            "Give the entry point and the PatchSet the same name.",
        )
    if patch_set.name in origins:
        raise _broken(
            entry_point,
            f"{origins[patch_set.name]} has a set of that name already",
            "Rename one of the two.",
        )
    try:
        patch_set.seal()
    except DeclarationError as error:
        raise _broken(entry_point, str(error)) from error


def _broken(entry_point: EntryPoint, problem: str, remedy: str = "") -> BrokenSetError:
    way_out = f"To go on without it: VLLM_GRAFT_PATCHES='-{entry_point.name}/*'."
    if entry_point.dist is None:  # a project names it, and it is in no installed distribution
        way_out = "To go on without it: take it out of pyproject.toml."
    return BrokenSetError(
        f"patch set {entry_point.name!r} ({entry_point.value}, {origin(entry_point)}) cannot be "
        f"loaded: {problem}. {remedy}".rstrip(". ")
        + f". {way_out}"
    )


def _raised_at(error: BaseException) -> str:
    """Return the file and line of the declaring code in which an error was raised."""
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if not name.startswith(("vllm_graft.", "importlib")):
            place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}: "
        traceback = traceback.tb_next
    return place
