"""Imports of a copy, made as late as can be: it is executed while vLLM is being imported."""

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ..check.tree import PACKAGE
from . import syntax
from .editing import Edited
from .name_uses import Function, uses

Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class _Item:
    """One name that an import binds. `path` is what a use of it begins with."""

    name: str
    path: str
    module: str
    code: str


def with_late_imports(
    text: str, before: ast.Module, kept: Collection[str], is_late: Callable[[str], bool]
) -> str:
    """Return a source whose imports of some packages are where they are needed.

    What only the file `before` used is left out, and what only functions use is imported there.
    `kept` are names that others have from the source; `is_late` tells of a module whether that is
    to be done.
    """
    return _Mover(text, before, kept, is_late).moved()


class _Mover:
    def __init__(
        self, text: str, before: ast.Module, kept: Collection[str], is_late: Callable[[str], bool]
    ) -> None:
        self._tree = ast.parse(text)
        self._source = Edited(text)
        self._uses = uses(self._tree)
        self._before = uses(before)
        self._before_inside = {
            each.name: uses(ast.Module(each.body, [])).everywhere
            for each in before.body
            if isinstance(each, Function)
        }
        self._kept = kept
        self._is_late = is_late
        self._for_functions: dict[Function, list[str]] = {}
        self._bound = Counter(syntax.bound_names(self._tree.body))
        self._globals = {
            name
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Global)
            for name in node.names
        }

    def moved(self) -> str:
        self._leave_out_inside()
        top = [each for each in self._tree.body if isinstance(each, Import)]
        plain = Counter(
            name
            for each in top
            if isinstance(each, ast.Import)
            for name in syntax.bound_names([each])
        )
        self._types_from = min(
            (each.lineno for each in top if "TYPE_CHECKING" in syntax.bound_names([each])),
            default=len(self._source.text),
        )
        for statement in top:
            self._top(statement, plain)
        for attempt in self._tree.body:
            if isinstance(attempt, (ast.Try, ast.If)):
                self._whole(attempt)
        for function, imports in self._for_functions.items():
            self._put(function, imports)
        return self._source.text

    def _top(self, statement: Import, plain: "Counter[str]") -> None:
        if not self._is_late_import(statement):
            return
        items = list(_items(statement))
        stay: list[_Item] = []
        types: list[_Item] = []
        for item in items:
            times = plain[item.name] if item.path != item.name else 1
            if (
                not self._is_late(item.module)
                or self._bound[item.name] != times
                or item.name in self._globals
                or item.name in self._kept
            ):
                stay.append(item)
            else:
                self._sort(item, stay, types)
        self._write(statement, items, stay, types)

    def _sort(self, item: _Item, stay: list[_Item], types: list[_Item]) -> None:
        """Put an import where it is used."""
        if self._match(item, self._uses.outer):
            stay.append(item)
            return
        users = [node for node, paths in self._uses.inner.items() if self._match(item, paths)]
        for node in users:
            self._for_functions.setdefault(node, []).append(item.code)
        if self._match(item, self._uses.types):
            types.append(item)
        elif not users and not self._match(item, self._before.everywhere):
            stay.append(item)  # nothing ever used it: it may be there for what importing does

    def _match(self, item: _Item, paths: Collection[str]) -> bool:
        if item.path == item.name:
            return any(each.partition(".")[0] == item.name for each in paths)
        of_name = [each for each in paths if each.partition(".")[0] == item.name]
        siblings = self._submodules(item.name)
        return any(
            f"{each}.".startswith(f"{item.path}.")
            or not any(f"{each}.".startswith(f"{other}.") for other in siblings)
            for each in of_name
        )

    def _submodules(self, name: str) -> list[str]:
        return [
            alias.name
            for each in self._tree.body
            if isinstance(each, ast.Import)
            for alias in each.names
            if not alias.asname and alias.name.startswith(f"{name}.")
        ]

    def _write(
        self, statement: Import, items: list[_Item], stay: list[_Item], types: list[_Item]
    ) -> None:
        if len(stay) == len(items):
            return
        lines = [each.code for each in stay]
        for_types = [f"    {each.code}" for each in types]
        start, end = self._source.span(statement)
        if not self._source.is_alone(start, end):
            self._source.change(start, end, "; ".join(lines) or "pass")
            return
        if for_types:
            if statement.lineno < self._types_from:
                self._types_from = statement.lineno
                lines.append("from typing import TYPE_CHECKING")
            lines += ["if TYPE_CHECKING:", *for_types]
        self._source.change(start, end if lines else self._source.line_end(end), "\n".join(lines))

    def _whole(self, statement: "ast.Try | ast.If") -> None:
        """Move a `try` that does nothing but import, with its fallbacks; leave out such an `if`."""
        inner = list(_simple(statement))
        imports = [each for each in inner if isinstance(each, Import)]
        if isinstance(statement, ast.If) and syntax.is_type_checking(statement.test):
            return
        if not any(map(self._is_late_import, imports)) or not all(map(_only_binds, inner)):
            return
        names = set(syntax.bound_names([statement]))
        count = Counter(syntax.bound_names([statement]))
        used_outside = {each.partition(".")[0] for each in self._uses.outer}
        if (
            names & (used_outside | self._globals | set(self._kept))
            or any(self._bound[name] != count[name] for name in names)
            or names & {each.partition(".")[0] for each in self._uses.types}
        ):
            return
        start, end = self._source.span(statement)
        users = [
            node
            for node, paths in self._uses.inner.items()
            if names & {each.partition(".")[0] for each in paths}
        ]
        before = {each.partition(".")[0] for each in self._before.everywhere}
        if not self._source.is_alone(start, end) or not (users or names & before):
            return
        if users and isinstance(statement, ast.If):
            return  # its test may be dear, and functions are called often
        code = ast.unparse(statement)
        for node in users:
            self._for_functions.setdefault(node, []).append(code)
        self._source.change(start, self._source.line_end(end), "")

    def _leave_out_inside(self) -> None:
        """Leave out what functions import for assignments that are no longer there."""
        for function in self._tree.body:
            if not isinstance(function, Function):
                continue
            now = uses(ast.Module(function.body, [])).everywhere
            gone = self._before_inside.get(function.name, set()) - now
            for statement in ast.walk(function):
                if isinstance(statement, Import) and self._is_late_import(statement):
                    self._leave_out(statement, now, gone)

    def _leave_out(self, statement: Import, now: set[str], gone: set[str]) -> None:
        items = list(_items(statement))
        used = {each.partition(".")[0] for each in now}
        left_out = {each.partition(".")[0] for each in gone}
        stay = [each for each in items if each.name in used or each.name not in left_out]
        if len(stay) < len(items):
            start, end = self._source.span(statement)
            self._source.change(start, end, "; ".join(each.code for each in stay) or "pass")

    def _put(self, function: Function, imports: list[str]) -> None:
        body = list(function.body)
        if ast.get_docstring(function) is not None and len(body) > 1:
            body = body[1:]
        first = body[0]
        line = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", []))])
        start = self._source.at(line, first.col_offset)
        before = self._source.line_before(start)
        shares = bool(before.strip())
        indent = " " * (function.col_offset + 4) if shares else before
        code = "\n".join(dict.fromkeys(imports)).replace("\n", f"\n{indent}")
        space = "" if shares or isinstance(first, Import) else "\n"
        text = f"\n{indent}{code}\n{indent}" if shares else f"{code}\n{space}{indent}"
        self._source.change(start, start, text)

    def _is_late_import(self, statement: Import) -> bool:
        return any(map(self._is_late, imported_modules(statement)))


def executed_imports(tree: ast.Module, seen: "set[str] | None" = None) -> Iterator[Import]:
    """Yield the imports that happen when a file is executed, those of functions it calls too."""
    seen = set() if seen is None else seen
    functions = {each.name: each for each in tree.body if isinstance(each, Function)}
    yield from _executed(tree.body)
    for name in sorted(uses(tree).called & functions.keys() - seen):
        seen.add(name)
        inner = ast.Module([*functions[name].body, *functions.values()], [])
        yield from executed_imports(inner, seen)


def _executed(statements: list[ast.stmt]) -> Iterator[Import]:
    for each in statements:
        if isinstance(each, Import):
            yield each
        elif isinstance(each, ast.If) and syntax.is_type_checking(each.test):
            yield from _executed(each.orelse)
        elif not isinstance(each, Function):
            for block in syntax.blocks(each):
                yield from _executed(block)


def executed_paths(text: str) -> list[str]:
    """Return what of vLLM is imported when a source is executed."""
    paths = [path for each in executed_imports(ast.parse(text)) for path in imported_modules(each)]
    return sorted({each for each in paths if each.partition(".")[0] == PACKAGE})


def imported_modules(statement: Import) -> list[str]:
    """Return the paths of what an import statement takes, which may be modules or names."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    base = "." * statement.level + (statement.module or "")
    return [f"{base}.{alias.name}" for alias in statement.names]


def _items(statement: Import) -> Iterator[_Item]:
    for alias, module in zip(statement.names, imported_modules(statement), strict=True):
        name = alias.asname or alias.name.partition(".")[0]
        path = name if alias.asname or isinstance(statement, ast.ImportFrom) else alias.name
        if isinstance(statement, ast.Import):
            code = ast.unparse(ast.Import([alias]))
        else:
            code = ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))
        yield _Item(name, path, module, code)


def _simple(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the simple statements in blocks of `try` and `if`; others as they are."""
    if not isinstance(statement, (ast.Try, ast.If)):
        yield statement
        return
    for block in syntax.blocks(statement):
        for each in block:
            yield from _simple(each)


def _only_binds(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)):
        return True
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
        return False
    return all(isinstance(each, ast.Name) for each in statement.targets)
