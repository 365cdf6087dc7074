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


@dataclass
class Translation:
    """What old files become: declarations, copies by their paths, and what is left to say."""

    files: tuple[OldFile, ...]
    sources: tuple[Source, ...]
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
        newest = max(self.sources, key=lambda each: each.version.version or Version("0"))
        return ImportOrder(newest.tree)

    @property
    def left(self) -> list[str]:
        """What was not translated, each with its place and the reason."""
        return [
            f"{file.name}:{each.line}: `{each.code}`: {each.reason}" for file, each in self.remarks
        ]


def translate(paths: Sequence[Path], sources: Sequence[Source], names: Names) -> Translation:
    """Translate old patch files, for the vLLM versions of the sources.

    Raises `NewPackageError` where a file cannot be read or has nothing to translate, `SourceError`
    where a source is broken or does not tell its version.
    """
    _raise_if_unknown(sources)
    files = tuple(map(read_old_file, paths))
    _raise_if_same(files)
    done = Translation(files, tuple(sources))
    for file in files:
        FileTranslation(done, file, names).translate()
    for source in sources:
        source.resolver.save()
    return done


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
        if not file.assignments and not any(each.stays for each in file.remarks):
            raise NewPackageError(
                f"{str(file.path)!r} assigns nothing to names of vLLM or of other packages, so "
                "there is nothing to declare"
            )
