"""The copy of an old file that has the implementations, without what is declared now."""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .imported import OWN
from .old_file import Assignment, OldFile, Saved
from .originals import wraps_decorator


@dataclass(frozen=True)
class Translated:
    """An assignment whose declaration is written.

    `value` is the name that the copy must bind to what was assigned, empty where it has one.
    `original` is the kept original that `wrap` hands to the function instead.
    """

    assignment: Assignment
    target: str
    value: str = ""
    original: Saved | None = None


def copied(file: OldFile, translated: Iterable[Translated], siblings: Mapping[str, str]) -> str:
    """Return the source of the copy. `siblings` are the copies of other files, by module."""
    source = _Edited(file.text)
    by_statement: dict[int, list[Translated]] = {}
    for each in translated:
        by_statement.setdefault(id(each.assignment.statement), []).append(each)
    for group in by_statement.values():
        _edit_statement(source, group)
    for each in {
        each.original.name: each
        for group in by_statement.values()
        for each in group
        if each.original is not None
    }.values():
        _edit_function(source, each)
    for statement in ast.walk(file.tree):
        if isinstance(statement, ast.ImportFrom):
            _edit_import(source, file, statement, siblings)
    calls = "".join(f"\n\n{name}()\n" for name in calls_needed(file, by_statement))
    return _HEAD.format(file=file.name) + source.text.rstrip() + "\n" + calls


_HEAD = """\
# The implementations of {file}, as they were there. What it assigned to names of vLLM is declared
# in patches.py, which has this module imported when the first of its targets is.
"""


def calls_needed(file: OldFile, by_statement: Iterable[int]) -> list[str]:
    """Return the functions of a file that applied patches and have something left to do."""
    translated = set(by_statement)
    with_value = {
        each.applier
        for each in file.assignments
        if id(each.statement) in translated and each.given.kind == "expression"
    }
    staying = {each.applier for each in file.remarks if each.stays}
    return sorted((with_value | staying) - {""} - file.called)


class _Edited:
    """A source and changes to it, by the positions of syntax trees: bytes, not characters."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: dict[tuple[int, int], bytes] = {}

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, node: "ast.expr | ast.stmt") -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def between(self, start: int, end: int) -> str:
        return self._data[start:end].decode()

    def is_alone(self, start: int, end: int) -> bool:
        """Tell whether a statement begins in the first column and shares no line with another."""
        line_end = self._starts[bisect_right(self._starts, end - 1)]
        after = self.between(end, line_end).strip()
        return start in self._starts and (not after or after.startswith("#"))

    def change(self, start: int, end: int, text: str) -> None:
        self._changes[start, end] = text.encode()

    @property
    def text(self) -> str:
        data = self._data
        for (start, end), new in sorted(self._changes.items(), reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()


def _edit_statement(source: _Edited, group: list[Translated]) -> None:
    """Take an assignment out, or let it bind a name of the copy instead."""
    first = group[0]
    statement = first.assignment.statement
    start, end = source.span(statement)
    note = "# declared in patches.py: " + ", ".join(each.target for each in group)
    if not first.value:
        alone = source.is_alone(start, end)
        source.change(start, end, note if alone else "pass")
        return
    name = f'globals()["{first.value}"]' if first.assignment.applier else first.value
    for before, after, text in _heads(source, statement):
        source.change(before, after, text.format(name=name))


def _heads(source: _Edited, statement: ast.stmt) -> Iterator[tuple[int, int, str]]:
    """Yield what of an assignment is not its value, and what to have there instead."""
    start, end = source.span(statement)
    if isinstance(statement, ast.Assign):
        yield start, source.span(statement.targets[-1])[1], "{name}"
    elif isinstance(statement, ast.AnnAssign):
        yield start, source.span(statement.annotation)[1], "{name}"
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        value_start, value_end = source.span(statement.value.args[2])
        yield start, value_start, "{name} = ("
        yield value_end, end, ")"


def _edit_function(source: _Edited, translated: Translated) -> None:
    """Give a function the original as its first parameter, in place of a name of the file."""
    saved, node = translated.original, translated.assignment.given.node
    assert saved is not None
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    start, end = source.span(saved.statement)
    note = f"# `wrap` gives {saved.name} to {node.name}"
    source.change(start, end, note if source.is_alone(start, end) else "pass")
    decorator = wraps_decorator(node, saved.name)
    if decorator is not None:
        line_start = source.at(decorator.lineno, 0)
        source.change(line_start, source.at((decorator.end_lineno or 0) + 1, 0), "")
    begin = source.at(node.lineno, node.col_offset)
    body = source.between(begin, source.span(node.body[0])[0])
    opening = re.search(r"\bdef\s+\w+\s*(\[[^\]]*\]\s*)?\(", body)
    assert opening is not None
    place = begin + len(body[: opening.end()].encode())
    arguments = node.args
    more = any(
        (
            arguments.posonlyargs,
            arguments.args,
            arguments.vararg,
            arguments.kwonlyargs,
            arguments.kwarg,
        )
    )
    source.change(place, place, f"{saved.name}, " if more else saved.name)


def _edit_import(
    source: _Edited, file: OldFile, statement: ast.ImportFrom, siblings: Mapping[str, str]
) -> None:
    """Name absolutely what is imported relatively, and the copies of files that have one."""
    base = file.imported.base(statement)
    new = siblings.get(base, base if statement.level else "")
    if not new or new.startswith(OWN):
        return
    start, end = source.span(statement)
    code = source.between(start, end)
    keyword = re.search(r"(?<=[\s.])import\b", code)
    assert keyword is not None
    source.change(start, start + len(code[: keyword.start()].encode()), f"from {new} ")
