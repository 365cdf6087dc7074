"""Reading an old patch file: what it assigns to names of others, and what cannot be translated."""

import ast
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..check.syntax_error import told
from ..errors import NewPackageError
from . import effects, syntax
from .given import given
from .imported import OWN, Imported, known_module, package_of
from .old_file import Assignment, OldFile, Remark, Saved
from .own_calls import Appliers, own_names_called
from .star import assigns_to_unknown


def read_old_file(
    path: Path, star: Callable[[str], frozenset[str]] = lambda module: frozenset()
) -> OldFile:
    """Read a file; raise `NewPackageError` where it cannot be read or is not Python.

    `star` tells the names that a module gives to `from module import *`.
    """
    try:
        text = importlib.util.decode_source(path.read_bytes())
    except OSError as error:
        raise NewPackageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise NewPackageError(f"{str(path)!r} cannot be decoded: {error}") from error
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise NewPackageError(f"{str(path)!r} is not Python: {told(error)}") from error
    reader = _Reader(text, tree, package_of(path), star)
    reader.read()
    return OldFile(
        path=path,
        text=text,
        tree=tree,
        package=reader.imported.package,
        imported=reader.imported,
        assignments=tuple(reader.with_readers()),
        remarks=tuple(sorted(reader.remarks, key=lambda each: each.line)),
        saved=reader.saved,
        called=frozenset(reader.appliers.called),
        calls=reader.calls,
        roots={each: tuple(reader.appliers.roots(each)) for each in reader.appliers.names},
        needs=reader.needs,
    )


@dataclass(frozen=True)
class _Scope:
    """Where statements stand, and what that means for what they assign."""

    imported: Imported
    applier: str = ""
    nested: Mapping[str, ast.AST | None] = field(default_factory=dict)
    required: bool = True
    when: str = ""
    obstacle: str = ""


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
        self._reads: list[tuple[int, int, str]] = []
        self.appliers = Appliers(self.tree, self._given)
        self._own_calls: list[tuple[ast.stmt, _Scope]] = []
        self._tolerated: set[str] = set()

    def read(self) -> None:
        """Go through the file as it would be executed, then through the functions it applies."""
        scope = _Scope(self.imported)
        self._statements(self.tree.body, scope)
        appliers = [each for each in self.appliers.names if each in self._definitions]
        for name in appliers:
            node = self._definitions[name]
            local = frozenset(syntax.bound_names(node.body)) - syntax.global_names(node)
            nested = dict.fromkeys(local) | syntax.definitions(node.body)
            required = name not in self._tolerated
            inner = _Scope(self.imported.inner(*local), name, nested, required)
            self._statements(node.body, inner)
        for name, node in self._definitions.items():
            if name not in appliers:
                self._note_inside(node, scope)
        for statement, inner in self._own_calls:
            self._note_call(statement, inner)

    def with_readers(self) -> Iterator[Assignment]:
        """Yield the assignments, each with where the file reads its target afterwards."""
        for index, each in enumerate(self.assignments):
            lines = [
                line
                for done, line, path in self._reads
                if done > index and f"{path}.".startswith(f"{each.path}.")
            ]
            yield replace(each, read_at=lines[0]) if lines else each

    def _note_inside(self, node: syntax.Definition, scope: _Scope) -> None:
        """Take note of what a definition changes when it is called: it goes on doing so."""
        reason = f"it is done whenever {node.name} is called, and stays in the copy"
        for inner, _ in effects.changed_inside(node, self.imported):
            self._remark(inner, reason, replace(scope, obstacle=""), stays=False)

    def _note_call(self, statement: ast.stmt, scope: _Scope) -> None:
        """Take note of a call of what the file defines, if that changes something of others."""
        seen: set[str] = set()
        waiting = list(own_names_called(statement)) + syntax.decorator_names(statement)
        paths: list[str] = []
        while waiting:
            name = waiting.pop(0)
            node = self._definitions.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            paths += [path for _, path in effects.changed_inside(node, self.imported)]
            waiting += own_names_called(node)
        if paths:
            names = ", ".join(each for each in self._definitions if each in seen)
            reason = scope.obstacle or f"what {names} does here cannot be followed"
            self._remark(statement, reason, scope, paths=paths)

    def _statements(self, statements: Iterable[ast.stmt], scope: _Scope) -> None:
        for statement in statements:
            self._statement(statement, scope)

    def _statement(self, statement: ast.stmt, scope: _Scope) -> None:
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

    def _note_own(self, statement: "ast.Import | ast.ImportFrom", scope: _Scope) -> None:
        """Take note of what the copy goes on importing from the package that the file is in."""
        if not isinstance(statement, ast.ImportFrom):
            return
        base = scope.imported.base(statement)
        if base.startswith(OWN):
            reason = "it imports relatively, and the file is in no package: say from where"
            self._remark(statement, reason, scope, stays=False)
        elif self.package and base.partition(".")[0] == self.package.partition(".")[0]:
            self.needs.setdefault(base, statement.lineno)

    def _definition(self, node: syntax.Definition, scope: _Scope) -> None:
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

    def _if(self, statement: ast.If, scope: _Scope) -> None:
        if syntax.is_main(statement.test):
            return
        condition = effects.condition_on_environment(statement.test, scope.imported)
        if syntax.is_type_checking(statement.test):
            self._statements(statement.body, scope)
        elif condition and not statement.orelse and not scope.when:
            self._statements(statement.body, replace(scope, when=condition))
        elif effects.asks_for_what_is_assigned(statement, scope.imported):
            self._statements(statement.body, replace(scope, required=False))
        else:
            obstacle = scope.obstacle or f"it is under the condition `{syntax.head(statement)}`"
            for block in (statement.body, statement.orelse):
                self._statements(block, replace(scope, obstacle=obstacle))

    def _try(self, statement: ast.Try, scope: _Scope) -> None:
        tolerant = any(map(syntax.is_tolerant, statement.handlers))
        body = replace(scope, required=scope.required and not tolerant)
        self._statements([*statement.body, *statement.orelse], body)
        known = dict(scope.imported.paths)
        for handler in statement.handlers:
            obstacle = scope.obstacle or "it is in an `except` block"
            self._statements(handler.body, replace(scope, obstacle=obstacle))
        scope.imported.paths.update(known)  # what the `try` block imports comes first
        self._statements(statement.finalbody, scope)

    def _simple(self, statement: ast.stmt, scope: _Scope) -> None:
        assigned = list(effects.assigned(statement, scope.imported))
        changed = list(effects.changed(statement, scope.imported, calls=not scope.applier))
        for path in effects.read(statement, scope.imported):
            self._reads.append((len(self.assignments), statement.lineno, path))
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

    def _follow(self, call: str, statement: ast.stmt, scope: _Scope) -> None:
        """Take note of a call of a function that applies patches; those are read in their turn."""
        reached = self.appliers.reached(call)
        if not scope.applier:
            self.calls[statement.lineno] = tuple(reached)
        if not scope.required:
            self._tolerated.update(reached)

    def _assign(self, statement: ast.stmt, assigned: list[effects.Assigned], scope: _Scope) -> None:
        for each in assigned:
            self.assignments.append(
                Assignment(
                    line=statement.lineno,
                    path=each.path,
                    module=known_module(each.path, scope.imported.modules),
                    given=given(
                        self.text, each.value, self._definitions, self._bound, scope.nested
                    ),
                    statement=statement,
                    applier=scope.applier,
                    required=scope.required,
                    when=scope.when,
                )
            )

    def _bind(self, statement: ast.stmt, scope: _Scope) -> None:
        """Follow `alias = vllm.x.C` and `original = vllm.x.C.m`; other names are the file's own."""
        for name in syntax.bound_names([statement]):
            value = getattr(statement, "value", None)
            path = scope.imported.foreign(value) if isinstance(value, ast.expr) else None
            scope.imported.forget(name)
            if path is None:
                if isinstance(value, ast.expr):
                    scope.imported.derive(name, value)
                continue
            scope.imported.paths[name] = path
            if not scope.applier and not scope.obstacle and self._bound[name] == 1:
                self.saved[name] = Saved(name, path, statement)

    def _remark(
        self,
        node: ast.stmt,
        reason: str,
        scope: _Scope,
        *,
        paths: Iterable[str] = (),
        stays: bool = True,
        line: int = 0,
    ) -> None:
        code = self.text.splitlines()[(line or node.lineno) - 1].strip()
        self.remarks.append(
            Remark(line or node.lineno, code, reason, stays, tuple(paths), scope.applier)
        )
