"""The translation of one old file: its declarations, its copy, and what is left to say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..check.tree import PACKAGE
from ..target import Target
from .copying import Copies, Translated, copied
from .declaration import Declaration, Reasons
from .late_imports import executed_paths
from .merging import Merged, merged, placed
from .names import Names
from .old_file import Assignment, OldFile, Remark
from .originals import original
from .places import Place, target_of
from .ranges import covering
from .reasons import Said
from .rest import Rest, rest_modules
from .targets import Targets, how_chosen
from .wording import code, line_of_import, literal, not_certain, sentence

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
        self._order = done.order
        self._values: dict[int, str] = {}
        self._replaced: set[Target] = set()
        self._said = Said(file)
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
        rest = copied(replace(self._file, remarks=tuple(self._remarks)), translated, self._copies())
        self._done.copies[self._path] = rest.text
        runs = list(self._runs(rest))
        self._done.declarations += runs
        self._remarks += self._needs()
        self._remarks += self._uncertain(rest, [*map(self._target_module, kept)])
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
        targets = Targets(assignment, self._file.imported.modules, kept, self._done.sources)
        name = assignment.given.name or self._value(assignment)
        is_literal = assignment.given.kind == "literal"
        return Declaration(
            operation="wrap" if wraps else newest.operation,
            target=targets.written,
            implementation=literal(assignment) if is_literal else f'"{self._module}:{name}"',
            name=newest.target.name if is_literal else name,
            vllm=targets.vllm,
            reasons=self._said.reasons(group, targets.question),
            comments=tuple(self._comments(group, kept, wraps)),
            required=assignment.required,
            when=assignment.when,
            name_is_made=not is_literal and not assignment.given.name,
        )

    def _comments(self, group: Merged, kept: list[Place], wraps: bool) -> Iterator[str]:
        assignment = group.assignment
        for each in sorted(group.assignments, key=lambda each: each.line):
            yield f"{self._file.name}:{each.line}: {code(each, group.newest.choice)}"
        yield from how_chosen(assignment)
        newest = group.newest
        if newest.target != newest.named and not group.notes:
            yield f"The file names {newest.named}; the class is defined here."
        yield from map(sentence, dict.fromkeys((*group.notes, *newest.notes)))
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

    def _runs(self, rest: Rest) -> Iterator[Declaration]:
        """Yield declarations that have done what stays in the copy.

        That is when the last of the modules is imported that it is about: before, it would import
        that one in the middle of an import of vLLM.
        """
        staying = [each for each in self._remarks if each.stays]
        if not staying:
            return
        touched = list(dict.fromkeys(module for each in staying for module in self._modules(each)))
        used = rest_modules(rest, self._order) if rest.function else []
        later = [each for each in used if self._order.imported_by(each) & set(touched)]
        last = self._order.last(list(dict.fromkeys([*touched, *later])))
        lines = ", ".join(dict.fromkeys(str(each.line) for each in staying))
        name = self._file.name
        for module in last:
            comment = f"What could not be translated (line {lines} of {name}) is done by the copy"
            if rest.function:
                comment += f" in {rest.function}(), once."
            else:
                comment += " when it is imported."
            yield Declaration(
                operation="run",
                target=module,
                implementation=f'"{self._module}{rest.function and ":"}{rest.function}"',
                name=self._file.module,
                vllm=covering(filter(None, (s.version.version for s in self._done.sources))),
                reasons=Reasons(how=f"Execute what stays of {name} (line {lines})."),
                comments=(comment, *not_certain(last)),
                name_is_made=bool(rest.function),
            )

    def _target_module(self, group: Merged) -> str:
        return group.newest.target.module

    def _uncertain(self, rest: Rest, targets: Sequence[str]) -> Iterator[Remark]:
        """Yield remarks on modules that the copy imports in the middle of imports of vLLM."""
        lines = self._file.text.splitlines()
        found: dict[int, list[str]] = {}
        for path in executed_paths(rest.text):
            found.setdefault(line_of_import(self._file, path), []).append(path)
        for line, paths in found.items():
            modules = list(dict.fromkeys(map(self._order.module_of, paths)))
            early = [
                each
                for each in dict.fromkeys(targets)
                if each.startswith(f"{PACKAGE}.")
                and self._order.module_of(each) == each
                and not all(self._order.is_complete(module, each) for module in modules)
            ]
            if early:
                reason = (
                    f"not certain: the copy imports {', '.join(modules)} when {', '.join(early)} "
                    "is imported, which fails where vLLM is in the middle of importing that. "
                    "Import it in functions, or move what needs it to a module of its own"
                )
                yield Remark(line, lines[line - 1].strip(), reason, stays=False)

    def _copies(self) -> Copies:
        package = self._module.partition(".")[0]
        own = self._file.imported_as
        names = {
            path.removeprefix(f"{own}.").partition(".")[0]
            for each in self._done.files
            if each is not self._file
            for path in each.imported.paths.values()
            if path.startswith(f"{own}.")
        }
        return Copies(package, self._siblings, frozenset(names))

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
