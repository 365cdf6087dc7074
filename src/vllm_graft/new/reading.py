"""Reading an old patch file: what it assigns to names of others, and what cannot be translated."""

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import effects, syntax
from .branches import take_either, take_fallback, with_twins
from .conditions import Condition, conditions_of, inverse
from .given import given
from .imported import OWN, Imported, package_of
from .old_file import Assignment, OldFile, Remark, Saved, with_readers
from .own_calls import Appliers, changed_by_calls
from .parsed_file import parsed_file
from .scope import Scope
from .star import assigns_to_unknown


def read_old_file(
    path: Path, star: Callable[[str], frozenset[str]] = lambda module: frozenset()
) -> OldFile:
    """Read a file; raise `NewPackageError` where it cannot be read or is not Python.

    `star` tells the names that a module gives to `from module import *`.
    """
    text, tree = parsed_file(path)
    reader = _Reader(text, tree, package_of(path), star)
    reader.read()
    return OldFile(
        path=path,
        text=text,
        tree=tree,
        package=reader.imported.package,
        imported=reader.imported,
        assignments=tuple(with_readers(reader.assignments, reader.reads)),
        remarks=tuple(sorted(reader.remarks, key=lambda each: each.line)),
        saved=reader.saved,
        called=frozenset(reader.appliers.called),
        calls=reader.calls,
        roots={each: tuple(reader.appliers.roots(each)) for each in reader.appliers.names},
        needs=reader.needs,
    )


@dataclass
class _Reader:
    text: str
    tree: ast.Module
    package: str
    star: Callable[[str], frozenset[str]]
    assignments: list[Assignment] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    saved: dict[str, Saved] = field(default_factory=dict)
    calls: dict[int, tuple[str, ...]] = field(default_factory=dict)
    needs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.imported = Imported(self.package, star=self.star)
        self._definitions: dict[str, syntax.Definition] = {}
        self._bound = Counter(syntax.bound_names(self.tree.body))
        self._given = effects.given_names(self.tree)
        self.reads: list[tuple[int, int, str]] = []
        self._values = syntax.values(self.tree.body, self._bound)
        asked = conditions_of(self.tree, self.package, self._values)
        self.appliers = Appliers(self.tree, self._given, lambda test: asked(test) is not None)
        self._called_under: dict[str, list[Condition | None]] = {}
        self._own_calls: list[tuple[ast.stmt, Scope]] = []
        self._tolerated: set[str] = set()

    def read(self) -> None:
        """Go through the file as it would be executed, then through the functions it applies."""
        scope = Scope(self.imported, self._values)
        self._statements(self.tree.body, scope)
        appliers = [each for each in self.appliers.names if each in self._definitions]
        for name in appliers:
            inner = self._inside(name).as_called(self._called_under.get(name, []))
            self._statements(self._definitions[name].body, inner)
        for name, node in self._definitions.items():
            if name not in appliers:
                self._note_inside(node, scope)
        for statement, inner in self._own_calls:
            self._note_call(statement, inner)

    def _inside(self, applier: str) -> Scope:
        node = self._definitions[applier]
        local = frozenset(syntax.bound_names(node.body)) - syntax.global_names(node)
        outer = {name: each for name, each in self._values.items() if name not in local}
        values = outer | syntax.values(node.body, Counter(syntax.bound_names(node.body)))
        nested = dict.fromkeys(local) | syntax.definitions(node.body)
        required = applier not in self._tolerated
        return Scope(self.imported.inner(*local), values, applier, nested, required)

    def _note_inside(self, node: syntax.Definition, scope: Scope) -> None:
        """Take note of what a definition changes when it is called: it goes on doing so."""
        reason = f"it is done whenever {node.name} is called, and stays in the copy"
        for inner, _ in effects.changed_inside(node, self.imported):
            self._remark(inner, reason, replace(scope, obstacle=""), stays=False)

    def _note_call(self, statement: ast.stmt, scope: Scope) -> None:
        """Take note of a call of what the file defines, if that changes something of others."""
        called, paths = changed_by_calls(statement, self._definitions, scope.imported)
        if paths:
            reason = scope.obstacle or f"what {', '.join(called)} does here cannot be followed"
            self._remark(statement, reason, scope, paths=paths)

    def _statements(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self._statement(statement, scope)
            if scope.applier:
                scope = self._after(statement, scope)

    def _after(self, statement: ast.stmt, scope: Scope) -> Scope:
        """Return the scope of what comes after a statement that may leave an applier."""
        way = syntax.way_out(statement)
        if not way or self._is_done_once(statement, scope):
            return scope
        if way == "except":
            return replace(scope, required=False)
        obstacle = f"it is after `{syntax.head(statement)}`, where the function may end"
        if way == "guard" and isinstance(statement, ast.If):
            test = inverse(statement.test)
            if effects.asks_whether_imported(test, scope.imported):
                return replace(scope, required=False)
            return scope.under(test, obstacle)
        return replace(scope, obstacle=scope.obstacle or obstacle)

    def _is_done_once(self, statement: ast.stmt, scope: Scope) -> bool:
        function = self._definitions.get(scope.applier)
        return syntax.is_done_once(statement, function, self.tree)

    def _statement(self, statement: ast.stmt, scope: Scope) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            scope.imported.read(statement)
            self._note_own(statement, scope)
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._definition(statement, scope)
        elif isinstance(statement, ast.If):
            self._if(statement, scope)
        elif isinstance(statement, ast.Try):
            self._try(statement, scope)
        elif syntax.blocks(statement):
            obstacle = scope.obstacle or f"it is in `{syntax.head(statement)}`"
            for name, value in syntax.bound_by_head(statement):
                scope.imported.derive(name, value)
            for block in syntax.blocks(statement):
                self._statements(block, replace(scope, obstacle=obstacle))
        else:
            self._simple(statement, scope)

    def _note_own(self, statement: "ast.Import | ast.ImportFrom", scope: Scope) -> None:
        """Take note of what the copy goes on importing from the package that the file is in."""
        if not isinstance(statement, ast.ImportFrom):
            return
        base = scope.imported.base(statement)
        if base.startswith(OWN):
            reason = "it imports relatively, and the file is in no package: say from where"
            self._remark(statement, reason, scope, stays=False)
        elif self.package and base.partition(".")[0] == self.package.partition(".")[0]:
            self.needs.setdefault(base, statement.lineno)

    def _definition(self, node: syntax.Definition, scope: Scope) -> None:
        for decorator in node.decorator_list:
            touched = list(effects.targets_of_decorator(decorator, scope.imported))
            if touched:
                reason = "what this decorator does cannot be told: it may patch what it is given"
                self._remark(node, reason, scope, paths=touched, line=decorator.lineno)
        if syntax.decorator_names(node):
            self._own_calls.append((node, scope))
        scope.imported.forget(node.name)
        if not scope.applier and self._bound[node.name] == 1:
            self._definitions[node.name] = node

    def _if(self, statement: ast.If, scope: Scope) -> None:
        if syntax.is_main(statement.test):
            return
        there = effects.asks_for_what_there_is(statement, scope.imported)
        once = not statement.orelse and self._is_done_once(statement, scope)
        if there or once or syntax.is_type_checking(statement.test):
            self._statements(statement.body, replace(scope, required=scope.required and not there))
            return
        obstacle = f"it is under the condition `{syntax.head(statement)}`"
        tests = (statement.test, inverse(statement.test))
        names = (scope.imported.inner(), scope.imported.inner())
        versions = scope.versions(tests)
        for test, inner, block in zip(
            tests, names, (statement.body, statement.orelse), strict=True
        ):
            self._statements(block, replace(scope.under(test, obstacle), imported=inner))
        take_either(scope.imported, names, versions)

    def _try(self, statement: ast.Try, scope: Scope) -> None:
        tolerant = any(map(syntax.is_tolerant, statement.handlers))
        body = replace(scope, required=scope.required and not tolerant)
        before = len(self.assignments)
        self._statements([*statement.body, *statement.orelse], body)
        tried = set(syntax.bound_names(statement.body))
        for handler in statement.handlers:
            self._handler(handler, scope, before, tried)
        self._statements(statement.finalbody, scope)

    def _handler(
        self, handler: ast.ExceptHandler, scope: Scope, before: int, tried: set[str]
    ) -> None:
        """Read an `except` block: it may do elsewhere what the `try` block could not do."""
        tolerant = syntax.is_tolerant(handler)
        obstacle = scope.obstacle or "it is in an `except` block"
        may_be_twins = tolerant and not scope.obstacle and syntax.only_assigns(handler.body)
        imported = scope.imported.inner()
        inner = replace(scope, imported=imported, obstacle="" if may_be_twins else obstacle)
        after = len(self.assignments)
        self._statements(handler.body, inner)
        paired, alone = with_twins(self.assignments[before:after], self.assignments[after:])
        self.assignments[before:] = paired
        for each in alone:
            self._remark(each.statement, obstacle, scope, paths=[one.path for one in each.choices])
        if tolerant:
            take_fallback(scope.imported, imported, tried)

    def _simple(self, statement: ast.stmt, scope: Scope) -> None:
        assigned = list(effects.assigned(statement, scope.imported))
        changed = list(effects.changed(statement, scope.imported, calls=not scope.applier))
        for path in effects.read(statement, scope.imported):
            self.reads.append((len(self.assignments), statement.lineno, path))
        call = syntax.called(statement)
        if call in self.appliers.calls:
            self._follow(call, statement, scope)
        elif not changed:
            self._own_calls.append((statement, scope))
        reasons = [each.reason for each in changed if each.reason]
        if changed and (scope.obstacle or reasons or len(assigned) != len(changed)):
            paths = [each.path for each in changed]
            reason = scope.obstacle or next(iter(reasons), "it assigns several things at once")
            self._remark(statement, reason, scope, paths=paths)
        elif assigned:
            self._assign(statement, assigned, scope)
        elif scope.imported.stars and assigns_to_unknown(
            statement, {*self._bound, *scope.nested, *scope.imported.paths, *scope.imported.derived}
        ):
            modules = ", ".join(sorted(scope.imported.stars))
            reason = f"it may change what `from {modules} import *` gives"
            self._remark(statement, reason, scope, paths=sorted(scope.imported.stars))
        else:
            self._bind(statement, scope)

    def _follow(self, call: str, statement: ast.stmt, scope: Scope) -> None:
        """Take note of a call of a function that applies patches; those are read in their turn."""
        reached = self.appliers.reached(call)
        condition = None if scope.obstacle else scope.condition
        self._called_under.setdefault(call, []).append(condition)
        if not scope.applier:
            self.calls[statement.lineno] = tuple(reached)
        if not scope.required:
            self._tolerated.update(reached)

    def _assign(self, statement: ast.stmt, assigned: list[effects.Assigned], scope: Scope) -> None:
        for each in assigned:
            vllm, choices = scope.chosen(each.choices)
            self.assignments.append(
                Assignment(
                    line=statement.lineno,
                    path=each.path,
                    given=given(
                        self.text, each.value, self._definitions, self._bound, scope.nested
                    ),
                    statement=statement,
                    applier=scope.applier,
                    required=scope.required,
                    when=scope.condition.when,
                    vllm=vllm,
                    choices=choices,
                )
            )

    def _bind(self, statement: ast.stmt, scope: Scope) -> None:
        """Follow `alias = vllm.x.C` and `original = vllm.x.C.m`; other names are the file's own."""
        for name in syntax.bound_names([statement]):
            value = getattr(statement, "value", None)
            path = scope.imported.assign(name, value)
            if path and not (scope.applier or scope.obstacle) and self._bound[name] == 1:
                self.saved[name] = Saved(name, path, statement)

    def _remark(
        self,
        node: ast.stmt,
        reason: str,
        scope: Scope,
        *,
        paths: Iterable[str] = (),
        stays: bool = True,
        line: int = 0,
    ) -> None:
        code = self.text.splitlines()[(line or node.lineno) - 1].strip()
        self.remarks.append(
            Remark(line or node.lineno, code, reason, stays, tuple(paths), scope.applier)
        )
