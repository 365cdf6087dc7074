"""The translation of one old file: its declarations, its copy, and what is left to say."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from packaging.version import Version

from ..check.tree import PACKAGE
from ..target import Target, is_lazy
from . import header
from .copying import Translated, copied
from .declaration import Declaration, Reasons
from .merging import Merged, merged, placed
from .names import Names
from .old_file import Assignment, OldFile, Remark
from .originals import original
from .places import Place, target_of
from .ranges import covering

if TYPE_CHECKING:
    from .translation import Translation


class FileTranslation:
    """The translation of one file."""

    def __init__(self, done: "Translation", file: OldFile, names: Names) -> None:
        self._done = done
        self._file = file
        self._module = f"{names.package}.impl.{file.module}"
        self._path = f"src/{names.package}/impl/{file.module}.py"
        self._siblings = {
            each.imported_as: f"{names.package}.impl.{each.module}" for each in done.files
        }
        self._values: dict[int, str] = {}
        self._replaced: set[Target] = set()
        self._entries = header.entries(file.path, file.text)
        self._remarks = list(file.remarks)

    def translate(self) -> None:
        """Add what the file becomes."""
        found, whole = placed(self._file, self._done.sources)
        kept, superseded, remarks = merged(self._file, found)
        self._remarks += [*whole, *remarks]
        self._replaced = {each.newest.target for each in kept if each.newest.kind == "class"}
        translated: list[Translated] = []
        for group in (*kept, *superseded):
            translated += self._translated(group)
        kept.sort(key=lambda each: bool(each.newest.kind == "class"))  # after their members
        for each in kept:
            self._done.add(self._declaration(each, translated), self._file, each.assignment)
        self._done.declarations += self._rest()
        self._done.copies[self._path] = copied(self._file, translated, self._siblings)
        self._remarks += self._needs()
        self._remarks.sort(key=lambda each: each.line)
        self._done.remarks += [(self._file, each) for each in self._remarks]

    def _loses_its_class(self, group: Merged) -> bool:
        """Tell whether the file replaces the class of a member that it patches.

        A `wrap` comes after every `replace`, and so would meet the other class.
        """
        target = group.newest.target
        return Target(target.module, target.parent) in self._replaced

    def _is_used_elsewhere(self, name: str) -> bool:
        """Tell whether another of the files imports a function, or the file that it is in."""
        module = self._file.imported_as
        others = [each.imported.paths.values() for each in self._done.files]
        return any({module, f"{module}.{name}"} & set(paths) for paths in others)

    def _translated(self, group: Merged) -> list[Translated]:
        """Return what the copy leaves out."""
        newest = group.newest
        saved = None
        if (
            not self._loses_its_class(group)
            and not self._is_used_elsewhere(group.assignment.given.name)
            and newest.operation == "replace"
            and not newest.problem
        ):
            saved = original(self._file, group.assignment, newest.kind)
        return [
            Translated(each, str(newest.target), self._value(each), saved)
            for each in group.assignments
        ]

    def _value(self, assignment: Assignment) -> str:
        """Return the name that the copy gives to a value that has none; empty for others."""
        if assignment.given.kind != "expression":
            return ""
        statement = id(assignment.statement)
        if statement not in self._values:
            wished = f"patched_{assignment.path.rpartition('.')[2].strip('_')}"
            self._values[statement] = self._free(wished)
        return self._values[statement]

    def _free(self, wished: str) -> str:
        name, number = wished, 2
        while name in self._values.values() or name in self._file.text:
            name, number = f"{wished}_{number}", number + 1
        return name

    def _declaration(self, group: Merged, translated: list[Translated]) -> Declaration:
        assignment, newest = group.assignment, group.newest
        wraps = any(
            each.original is not None and each.assignment is assignment for each in translated
        )
        kept = [
            each
            for each in group.places
            if each.operation == newest.operation and bool(each.problem) == bool(newest.problem)
        ]
        name = assignment.given.name or self._value(assignment)
        is_literal = assignment.given.kind == "literal"
        return Declaration(
            operation="wrap" if wraps else newest.operation,
            target=_target(kept),
            implementation=_literal(assignment) if is_literal else f'"{self._module}:{name}"',
            name=newest.target.name if is_literal else name,
            vllm=covering(filter(None, (each.source.version.version for each in kept))),
            reasons=self._reasons(group),
            comments=tuple(self._comments(group, kept, wraps)),
            required=assignment.required,
            when=assignment.when,
            name_is_made=not is_literal and not assignment.given.name,
        )

    def _reasons(self, group: Merged) -> Reasons:
        target = str(group.newest.target).replace(":", ".")
        paths = [*(each.path for each in group.assignments), target]
        texts: dict[str, str] = {}
        for entry in self._entries:
            if any(entry.is_about(self._file.path, path) for path in paths):
                texts = {**entry.texts, **texts}
        assignment = group.assignment
        said = header.nearby(self._file.text, assignment.line, assignment.given.node)
        hints = [f"the old file says: {said}"] if said else []
        if group.newest.operation == "add":
            hints.append("is it a new name, or one that vLLM no longer has?")
        return Reasons(
            **{name: text for name, text in texts.items() if text}, hint="; ".join(hints)
        )

    def _comments(self, group: Merged, kept: list[Place], wraps: bool) -> Iterator[str]:
        assignment = group.assignment
        for each in sorted(group.assignments, key=lambda each: each.line):
            yield f"{self._file.name}:{each.line}: {_code(each)}"
        newest = group.newest
        if newest.target != newest.named and not group.notes:
            yield f"The file names {newest.named}; the class is defined here."
        yield from map(_sentence, dict.fromkeys((*group.notes, *newest.notes)))
        if wraps:
            yield "`wrap` hands over the original that the file kept."
        if self._loses_its_class(group):
            yield (
                "The file replaces the class, too: where that overrides this, the status of the "
                "patch is that others have replaced it."
            )
        if assignment.given.kind == "class" and newest.operation == "replace":
            yield (
                "`replace` reaches what the file reached: those who import the class afterwards. "
                "`subclass` would reach those who have it already, too."
            )
        if assignment.applier and assignment.applier not in self._file.called:
            yield f"The file does this when somebody calls {assignment.applier}()."
        if not assignment.required:
            yield "The file goes on where this cannot be done, hence not required."
        for place in group.places:
            if place.problem:
                yield f"Not in vLLM {place.source.version.version}: {place.problem}."
            elif place not in kept:
                yield f"In vLLM {place.source.version.version} it would be `{place.operation}`."

    def _rest(self) -> Iterator[Declaration]:
        """Yield declarations that have the copy imported for what stays in it."""
        modules: dict[str, list[Remark]] = {}
        for each in self._remarks:
            for module in self._modules(each) if each.stays else ():
                modules.setdefault(module, []).append(each)
        for module, remarks in modules.items():
            lines = ", ".join(dict.fromkeys(str(each.line) for each in remarks))
            yield Declaration(
                operation="run",
                target=module,
                implementation=f'"{self._module}"',
                name=self._file.module,
                vllm=covering(filter(None, (s.version.version for s in self._done.sources))),
                reasons=Reasons(
                    how=f"Execute what stays of {self._file.name} (line {lines}).",
                ),
                comments=(
                    f"What could not be translated (line {lines} of {self._file.name}) is done by "
                    "the copy when it is imported.",
                ),
            )

    def _needs(self) -> Iterator[Remark]:
        """Yield remarks on what the copy imports from the package of the file, as that did."""
        for module, line in self._file.needs.items():
            if module not in self._siblings:
                code = self._file.text.splitlines()[line - 1].strip()
                reason = f"the copy imports from {module} still, which has to be installed"
                yield Remark(line, code, reason, stays=False)

    def _modules(self, remark: Remark) -> list[str]:
        """Return the modules of vLLM that a statement seems to touch.

        Where it touches none, the first that the file imports: another package may be imported
        before vLLM is, and the copy would import vLLM there.
        """
        targets = [
            target_of(path, path.partition(".")[0], self._done.sources).module
            for path in remark.paths
        ]
        touched = [each for each in dict.fromkeys(targets) if each.partition(".")[0] == PACKAGE]
        imported = sorted(
            each for each in self._file.imported.modules if each.startswith(f"{PACKAGE}.")
        )
        return touched or imported[:1] or [PACKAGE]


def _target(places: Sequence[Place]) -> str:
    """Return the target as it is declared, with its versions where it is not always the same."""
    versions: dict[str, list[Version]] = {}
    newest_first = sorted(places, key=_version, reverse=True)
    for each in newest_first:
        versions.setdefault(str(each.target), []).append(_version(each))
    if len(versions) == 1:
        return next(iter(versions))
    return " | ".join(f"{target} {covering(found)}" for target, found in versions.items())


def _version(place: Place) -> Version:
    version = place.source.version.version
    assert version is not None
    return version


def _literal(assignment: Assignment) -> str:
    text = assignment.given.text
    looks_lazy = text[:1] in "\"'" and is_lazy(text[1:-1])
    return f"Value({text})" if looks_lazy else text


def _code(assignment: Assignment) -> str:
    first, *more = assignment.given.text.splitlines()
    return f"{assignment.path} = {first}{' …' if more else ''}"


def _sentence(text: str) -> str:
    is_name = text.lower().startswith("vllm") or not text[:1].isalpha()
    return f"{text if is_name else text[0].upper() + text[1:]}."
