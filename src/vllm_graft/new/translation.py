"""From old patch files to declarations: each target resolved in the vLLMs that were named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.version import Version

from ..check.source import Source
from ..errors import NewPackageError, SourceError
from .declaration import Declaration
from .import_order import ImportOrder
from .merging import remark
from .names import Names
from .old_file import Assignment, OldFile, Remark
from .one_file import FileTranslation
from .reading import read_old_file
from .star import names_by_star


@dataclass
class Translation:
    """What old files become: declarations, copies by their paths, and what is left to say."""

    files: tuple[OldFile, ...]
    sources: tuple[Source, ...]
    idle: tuple[OldFile, ...] = ()
    """Those of the files given that have nothing to declare."""
    declarations: list[Declaration] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)
    remarks: list[tuple[OldFile, Remark]] = field(default_factory=list)
    _claims: dict[Declaration, tuple[OldFile, Assignment]] = field(default_factory=dict)

    def add(self, declaration: Declaration, file: OldFile, assignment: Assignment) -> None:
        """Add a declaration. Of two files that claim one target the one given later wins."""
        for before, (other, first) in list(self._claims.items()):
            if before.excludes(declaration):
                self.declarations.remove(before)
                del self._claims[before]
                reason = f"{file.name}:{assignment.line} assigns the same target afterwards"
                self.remarks.append((other, remark(other, first, reason)))
        self.declarations.append(declaration)
        self._claims[declaration] = (file, assignment)

    @cached_property
    def order(self) -> ImportOrder:
        """What the modules of the newest vLLM import."""
        return ImportOrder(_newest(self.sources).tree)

    @property
    def left(self) -> list[str]:
        """What was not translated, each with its place and the reason."""
        return [
            f"{file.name}:{each.line}: `{each.code}`: {each.reason}" for file, each in self.remarks
        ]


def translate(paths: Sequence[Path], sources: Sequence[Source], names: Names) -> Translation:
    """Translate old patch files, for the vLLM versions of the sources.

    Raises `NewPackageError` where a file cannot be read or none has anything to translate,
    `SourceError` where a source is broken or does not tell its version.
    """
    _raise_if_unknown(sources)
    star = names_by_star(_newest(sources).tree)
    every = tuple(read_old_file(each, star) for each in paths)
    files = tuple(each for each in every if _has_something(each) or _is_imported(each, every))
    if not any(map(_has_something, files)):
        raise NewPackageError(_nothing(every))
    _raise_if_same(files)
    idle = tuple(each for each in every if not _has_something(each))
    done = Translation(files, tuple(sources), idle)
    for file in files:
        FileTranslation(done, file, names).translate()
    for source in sources:
        source.resolver.save()
    return done


def _newest(sources: Sequence[Source]) -> Source:
    return max(sources, key=lambda each: each.version.version or Version("0"))


def _raise_if_unknown(sources: Sequence[Source]) -> None:
    for source in sources:
        if source.version.version is None:
            raise SourceError(
                f"the version of {source.text!r} is unknown ({source.version}), and declarations "
                "must say what they are for. Name a release"
            )


def _raise_if_same(files: Sequence[OldFile]) -> None:
    seen: dict[str, OldFile] = {}
    for file in files:
        twin = seen.setdefault(file.module, file)
        if twin is not file:
            raise NewPackageError(
                f"{str(twin.path)!r} and {str(file.path)!r} would both be the module "
                f"{file.module!r}. Rename one of them"
            )


def _has_something(file: OldFile) -> bool:
    return bool(file.assignments) or any(each.stays for each in file.remarks)


def _is_imported(file: OldFile, files: Sequence[OldFile]) -> bool:
    """Tell whether others of the files import from one, so that their copies need its copy."""
    return not file.is_package and any(
        f"{path}.".startswith(f"{file.imported_as}.")
        for each in files
        if each is not file
        for path in each.imported.paths.values()
    )


def _nothing(files: Sequence[OldFile]) -> str:
    names = ", ".join(repr(str(each.path)) for each in files)
    who = f"{names} assigns" if len(files) == 1 else f"none of {names} assigns"
    what = "anything" if len(files) > 1 else "nothing"
    return f"{who} {what} to names of vLLM or of other packages, so there is nothing to declare"
