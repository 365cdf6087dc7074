"""The copy of an old file that has the implementations, without what is declared now."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..check.tree import PACKAGE
from .editing import Edited
from .husks import without_husks
from .imported import OWN
from .late_imports import with_late_imports
from .old_file import Assignment, OldFile, Saved
from .originals import wraps_decorator
from .rest import MARK, Rest, first_line, with_rest
from .syntax import DEFINITIONS


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


@dataclass(frozen=True)
class Copies:
    """What else is copied: the copies of other files, by the modules that those are.

    `kept` are the names that others of the files import from this one.
    """

    package: str
    siblings: Mapping[str, str]
    kept: frozenset[str] = frozenset()


def copied(file: OldFile, translated: Sequence[Translated], copies: Copies) -> Rest:
    """Return the copy, and what in it does what stays of the file."""
    source = Edited(file.text)
    by_statement: dict[int, list[Translated]] = {}
    for each in translated:
        by_statement.setdefault(id(each.assignment.statement), []).append(each)
    for group in by_statement.values():
        _edit_statement(source, group)
    for each in {each.original.name: each for each in translated if each.original}.values():
        _edit_function(source, each)
    for statement in ast.walk(file.tree):
        if isinstance(statement, ast.ImportFrom):
            _edit_import(source, file, statement, copies.siblings)
    at_once, later = calls_needed(file, translated)
    staying = _staying(source, file, translated)
    for statement in staying:
        start = source.at(first_line(statement), 0)
        source.change(start, start, f"{MARK}\n")
    text = source.text.rstrip() + "\n" + "".join(f"\n\n{name}()\n" for name in at_once)
    needed = copies.kept | _needed(file, translated)
    rest = with_rest(text, needed, later, PACKAGE)
    lean = with_late_imports(
        without_husks(rest.text, file),
        file.tree,
        needed - _definitions(file),
        lambda path: _is_late(path, file, copies),
    )
    return Rest(
        _HEAD.format(file=file.name) + without_husks(lean, file).rstrip() + "\n", rest.function
    )


_HEAD = """\
# The implementations of {file}, as they were there. What it assigned to names of vLLM is declared
# in patches.py, which has this module imported when the first of its targets is.
"""


def calls_needed(file: OldFile, translated: Iterable[Translated]) -> tuple[list[str], list[str]]:
    """Return the functions that have something left to do and that the file does not call.

    The first give values that declarations name, the others do what stays.
    """
    with_value = _roots(file, _appliers_with_value(translated))
    staying = _roots(file, {each.applier for each in file.remarks if each.stays})
    return sorted(with_value), sorted(staying - with_value)


def _roots(file: OldFile, appliers: set[str]) -> set[str]:
    return {root for each in appliers - file.called for root in file.roots.get(each, ())}


def _appliers_with_value(translated: Iterable[Translated]) -> set[str]:
    return {
        each.assignment.applier for each in translated if each.assignment.given.kind == "expression"
    }


def _staying(source: Edited, file: OldFile, translated: Sequence[Translated]) -> list[ast.stmt]:
    """Return the statements that do what stays of a file; none where they cannot be done later."""
    with_value = _appliers_with_value(translated) - {""}
    lines = {each.line for each in file.remarks if each.stays and not each.applier}
    appliers = {each.applier for each in file.remarks if each.stays and each.applier}
    found = [
        each
        for each in file.tree.body
        if lines & set(range(first_line(each), (each.end_lineno or 0) + 1))
        or _called_in(each, file) & appliers
    ]
    can_be = all(_can_be_later(source, file, each, translated, with_value) for each in found)
    return found if can_be and not _is_read_at_once(file, translated) else []


def _called_in(statement: ast.stmt, file: OldFile) -> set[str]:
    """Return the appliers that a statement of module level calls, under conditions too."""
    lines = range(statement.lineno, (statement.end_lineno or 0) + 1)
    return {name for line, names in file.calls.items() if line in lines for name in names}


def _is_read_at_once(file: OldFile, translated: Iterable[Translated]) -> bool:
    """Tell whether a value that is declared is made of what stays to be done."""
    changed = [f"{path}." for each in file.remarks if each.stays for path in each.paths]
    read = [
        f"{path}."
        for each in translated
        if each.value and each.assignment.given.node is not None
        for path in file.imported.mentioned(each.assignment.given.node)
    ]
    return any(path.startswith(other) for path in read for other in changed)


def _can_be_later(
    source: Edited,
    file: OldFile,
    statement: ast.stmt,
    translated: Iterable[Translated],
    with_value: set[str],
) -> bool:
    """Tell whether nothing changes if a statement is executed after patches are applied."""
    if _called_in(statement, file) & with_value:
        return False
    stars = (each for each in ast.walk(statement) if isinstance(each, ast.ImportFrom))
    if any(alias.name == "*" for each in stars for alias in each.names):
        return False
    read = [f"{path}." for path in file.imported.mentioned(statement)]
    replaced = [
        f"{each.assignment.path}." for each in translated if each.assignment.line > statement.lineno
    ]
    if any(path.startswith(other) for path in read for other in replaced):
        return False
    inside = range(statement.lineno, (statement.end_lineno or 0) + 1)
    values = [each for each in translated if each.value and each.assignment.line in inside]
    start = source.at(first_line(statement), 0)
    return not values and source.is_alone(start, source.span(statement)[1])


def _needed(file: OldFile, translated: Iterable[Translated]) -> set[str]:
    """Return the names that declarations ask the copy for, and originals that it reads at once."""
    names = {each.value or each.assignment.given.name for each in translated}
    paths = {f"{each.assignment.path}." for each in translated}
    saved = {
        each.name
        for each in file.saved.values()
        if any(f"{each.path}.".startswith(path) for path in paths)
    }
    return {each for each in names if each.isidentifier()} | saved


def _definitions(file: OldFile) -> set[str]:
    return {each.name for each in file.tree.body if isinstance(each, DEFINITIONS)}


def _is_late(path: str, file: OldFile, copies: Copies) -> bool:
    """Tell whether importing a path may have vLLM imported: its own modules, the file's, copies."""
    top = path.partition(".")[0]
    own = {PACKAGE, file.package.partition(".")[0], copies.package}
    return bool(top) and top in own


def _edit_statement(source: Edited, group: list[Translated]) -> None:
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


def _heads(source: Edited, statement: ast.stmt) -> Iterator[tuple[int, int, str]]:
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


def _edit_function(source: Edited, translated: Translated) -> None:
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
    source: Edited, file: OldFile, statement: ast.ImportFrom, siblings: Mapping[str, str]
) -> None:
    """Name absolutely what is imported relatively, and the copies of files that have one."""
    base = file.imported.base(statement)
    if statement.names[0].name == "*" and file.imported.stars.get(base):
        _edit_star(source, file, statement, base)
        return
    new = siblings.get(base, base if statement.level else "")
    if not new or new.startswith(OWN):
        return
    start, end = source.span(statement)
    code = source.between(start, end)
    keyword = re.search(r"(?<=[\s.])import\b", code)
    assert keyword is not None
    source.change(start, start + len(code[: keyword.start()].encode()), f"from {new} ")


def _edit_star(source: Edited, file: OldFile, statement: ast.ImportFrom, base: str) -> None:
    """Import by name what a file uses of a module of vLLM."""
    used = {each.id for each in ast.walk(file.tree) if isinstance(each, ast.Name)}
    names = ", ".join(sorted(used & file.imported.stars[base]))
    source.change(*source.span(statement), f"from {base} import {names}" if names else "pass")
