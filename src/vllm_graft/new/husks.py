"""What has become empty in a copy, since what was in it is declared: left out."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence

from . import syntax
from .conditions import conditions_of
from .editing import Edited
from .old_file import OldFile

_HARMLESS = (
    *(ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Name, ast.Constant, ast.expr_context),
    *(ast.Tuple, ast.List, ast.Set, ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot),
)


def without_husks(text: str, file: OldFile) -> str:
    """Return a copy without the `if` and `try` statements that do nothing.

    Only those at module level and in functions that apply patches have become empty.
    """
    tree = ast.parse(text)
    source = Edited(text)
    is_husk = _Husks(file).is_husk
    _leave_out(source, tree.body, lambda each: is_husk(each, inside=False), needs_one=False)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in file.roots:
            _leave_out(source, node.body, lambda each: is_husk(each, inside=True), needs_one=True)
    return source.text


class _Husks:
    """Tells what of a file does nothing, whatever its conditions are."""

    def __init__(self, file: OldFile) -> None:
        values = syntax.values(file.tree.body, Counter(syntax.bound_names(file.tree.body)))
        self._asked = conditions_of(file.tree, file.package, values)

    def is_husk(self, statement: ast.stmt, *, inside: bool) -> bool:
        """Tell whether executing a statement has no effect; `inside` that it is in a function."""
        if isinstance(statement, ast.If):
            blocks = (*statement.body, *statement.orelse)
            return self._is_harmless(statement.test) and self._are(blocks, inside)
        if isinstance(statement, ast.Try):
            blocks = (*statement.body, *statement.orelse, *statement.finalbody)
            makes_local = inside and any(map(_binds, statement.handlers))
            return self._are(blocks, inside) and not makes_local
        return isinstance(statement, ast.Pass)

    def _are(self, statements: Sequence[ast.stmt], inside: bool) -> bool:
        return all(self.is_husk(each, inside=inside) for each in statements)

    def _is_harmless(self, test: ast.expr) -> bool:
        """Tell whether a test only looks, and cannot fail."""
        if syntax.is_type_checking(test):
            return True
        asked = self._asked(test)
        if asked is None:
            return False
        return not asked.when or all(map(_only_looks, ast.walk(ast.parse(asked.when, mode="eval"))))


def _only_looks(node: ast.AST) -> bool:
    """Tell whether a part of a condition on the environment has no effect and cannot fail."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("environment.environ.get", "bool", "str")
    if isinstance(node, ast.Attribute):
        return node.attr in ("environ", "get")
    if isinstance(node, ast.Compare):
        in_what = (ast.Attribute, ast.Tuple, ast.List, ast.Set)  # not a text, which may be None
        is_in = any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops)
        return not is_in or all(isinstance(each, in_what) for each in node.comparators)
    return isinstance(node, (ast.Expression, *_HARMLESS))


def _binds(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler makes a name one of the function, or the function a generator."""
    kinds = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    names = [*syntax.bound_names(handler.body), *filter(None, [handler.name])]
    return bool(names) or any(isinstance(each, kinds) for each in ast.walk(handler))


def _leave_out(
    source: Edited,
    statements: Sequence[ast.stmt],
    is_husk: Callable[[ast.stmt], bool],
    *,
    needs_one: bool,
) -> None:
    """Take husks out of a block, and out of what is left in it; a block may need a statement."""
    husks = [each for each in statements if not isinstance(each, ast.Pass) and is_husk(each)]
    for each in husks:
        is_last = needs_one and len(husks) == len(statements) and each is statements[-1]
        _take_out(source, each, "pass" if is_last else "")
    for each in statements:
        if each not in husks and isinstance(each, (ast.If, ast.Try)):
            for block in syntax.blocks(each):
                _leave_out(source, block, is_husk, needs_one=True)


def _take_out(source: Edited, statement: ast.stmt, instead: str) -> None:
    start, end = source.span(statement)
    before = source.line_before(start)
    if source.between(start, end).startswith("elif"):
        instead = ""  # what it is the other branch of has one of its own
    if instead or before.strip() or not source.ends_line(end):
        source.change(start, end, "pass")
    else:
        source.change(start - len(before.encode()), source.line_end(end), "")
