"""What stays of an old file: taken out of its copy's module level, into a function of its own."""

import ast
import io
import textwrap
import tokenize
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from . import syntax
from .editing import Edited
from .import_order import ImportOrder
from .late_imports import executed_paths
from .name_uses import uses

MARK = "# to be done later"


@dataclass(frozen=True)
class Rest:
    """A copy and the name of the function in it that does what stays; empty without one."""

    text: str
    function: str = ""


def with_rest(text: str, needed: Collection[str], calls: Sequence[str], foreign: str) -> Rest:
    """Move what is marked, and what only that needs, into a function at the end.

    `needed` are names that others have from the copy once it is imported, `calls` functions to call
    in the end. `foreign` is the package that nothing should be asked of before. What cannot be
    moved, since something else needs it at once, stays where it is: then there is no function.
    """
    tree = ast.parse(text)
    marked = _marked(text, tree)
    moved = _with_setup(tree, marked, set(needed), foreign)
    clean = text.replace(f"{MARK}\n", "")
    if _is_needed_at_once(tree, moved, set(needed)):
        return Rest(clean + "".join(f"\n\n{name}()\n" for name in calls))
    if not moved and not calls:
        return Rest(clean)
    return _written(text, moved, calls)


def _marked(text: str, tree: ast.Module) -> list[ast.stmt]:
    lines = text.splitlines()
    return [each for each in tree.body if lines[first_line(each) - 2 :][:1] == [MARK]]


def first_line(statement: ast.stmt) -> int:
    """Return the line that a statement begins in, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _with_setup(
    tree: ast.Module, marked: list[ast.stmt], needed: set[str], foreign: str
) -> list[ast.stmt]:
    """Add the assignments that ask something of vLLM and that nothing else needs."""
    moved = list(marked)
    late = {
        alias.asname or alias.name.partition(".")[0]
        for each in tree.body
        if isinstance(each, (ast.Import, ast.ImportFrom))
        for alias in each.names
        if (getattr(each, "module", None) or alias.name).partition(".")[0] == foreign
    }
    while moved:
        names = late | set(syntax.bound_names(moved))
        more = [
            each
            for each in tree.body
            if each not in moved
            and isinstance(each, (ast.Assign, ast.AnnAssign, ast.Expr))
            and _read(each) & names
            and not _is_needed_at_once(tree, [*moved, each], needed)
        ]
        if not more:
            break
        moved.append(more[0])
    return [each for each in tree.body if each in moved]


def _is_needed_at_once(tree: ast.Module, moved: Collection[ast.stmt], needed: set[str]) -> bool:
    """Tell whether something that is not moved needs a name that moved statements bind."""
    names = set(syntax.bound_names(moved))
    others = [each for each in tree.body if each not in moved]
    read = _reached(others, needed).union(*map(_read, others))
    return bool(names & (read | needed))


def _reached(statements: Collection[ast.stmt], needed: set[str]) -> set[str]:
    """Return what the needed functions and classes read, and those that they call."""
    by_name = {each.name: each for each in statements if isinstance(each, syntax.DEFINITIONS)}
    read: set[str] = set()
    waiting = sorted(needed & by_name.keys())
    while waiting:
        found = uses(ast.Module([by_name.pop(waiting.pop())], [])).everywhere
        read |= {each.partition(".")[0] for each in found}
        waiting = sorted(read & by_name.keys())
    return read


def _read(statement: ast.stmt) -> set[str]:
    found = uses(ast.Module([statement], []))
    return {each.partition(".")[0] for each in found.outer}


def _written(text: str, moved: list[ast.stmt], calls: Sequence[str]) -> Rest:
    source = Edited(text)
    name = _free("apply_rest", text)
    body = []
    for each in moved:
        start, end = source.at(first_line(each), 0), source.span(each)[1]
        body.append(_indented(source.between(start, end), each))
        if not source.is_alone(start, end):
            source.change(start, end, "pass")
            continue
        mark = source.at(first_line(each) - 1, 0)
        is_marked = source.between(mark, start) == f"{MARK}\n"
        source.change(mark if is_marked else start, source.line_end(end), "")
    done = f"_{name}_is_done"
    names = sorted({done, *syntax.bound_names(moved)})
    body += [f"    {each}()" for each in calls]
    function = _FUNCTION.format(name=name, done=done, names=", ".join(names), body="\n".join(body))
    return Rest(source.text.rstrip() + "\n" + function, name)


_FUNCTION = '''

{done} = False


def {name}(module):
    """Do once what could not be translated."""
    global {names}
    if {done}:
        return
    {done} = True
{body}
'''


def _indented(code: str, statement: ast.stmt) -> str:
    has_long_strings = any(
        token.type == tokenize.STRING and token.start[0] != token.end[0] for token in _tokens(code)
    )
    # of several lines in one string the indentation would change
    return textwrap.indent(ast.unparse(statement) if has_long_strings else code, "    ")


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(code + "\n").readline)


def rest_modules(rest: Rest, order: ImportOrder) -> list[str]:
    """Return the modules of vLLM that are imported when the rest is done, sorted."""
    tree = ast.parse(rest.text)
    names = [ast.parse(f"{rest.function}()").body[0]]
    functions = [each for each in tree.body if isinstance(each, syntax.DEFINITIONS)]
    text = ast.unparse(ast.Module([*functions, *names], []))
    return [each for each in map(order.module_of, executed_paths(text)) if "." in each]


def _free(wished: str, text: str) -> str:
    name, number = wished, 2
    while name in text:
        name, number = f"{wished}_{number}", number + 1
    return name
