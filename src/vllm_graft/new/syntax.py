"""Questions about statements of Python."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, TypeGuard

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_TOLERATED = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


def blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of statements in a compound statement; none for a simple one."""
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    found = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    handlers = [handler.body for handler in getattr(statement, "handlers", [])]
    return [each for each in (*found, *handlers) if each]


def bound_names(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind in their own scope, each as often as it is bound."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield alias.asname or alias.name.partition(".")[0]
            continue
        inner = blocks(statement)
        for block in inner:
            yield from bound_names(block)
        for node in _without_blocks(statement) if inner else ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                yield node.id


def _without_blocks(statement: ast.stmt) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, (ast.expr, ast.withitem)):
            yield from ast.walk(child)


def bound_by_head(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that the head of a loop or `with` binds, each with what they are made of."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        pairs = [(statement.target, statement.iter)]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        pairs = [(item.optional_vars, item.context_expr) for item in statement.items]
    for target, value in pairs:
        for node in ast.walk(target) if target is not None else ():
            if isinstance(node, ast.Name):
                yield node.id, value


def definitions(statements: Iterable[ast.stmt]) -> dict[str, ast.AST | None]:
    """Return the functions that statements define and bind nothing else to, by name."""
    counts = Counter(bound_names(statements))
    return {
        each.name: each
        for each in statements
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and counts[each.name] == 1
    }


def global_names(function: ast.AST) -> set[str]:
    """Return the names that a function declares global."""
    return {
        name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names
    }


def needs_arguments(function: "ast.FunctionDef | ast.AsyncFunctionDef") -> bool:
    """Tell whether a function cannot be called without arguments."""
    arguments = function.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    return len(by_place) > len(arguments.defaults) or None in arguments.kw_defaults


def called(statement: ast.stmt) -> str:
    """Return the name of the function that a statement calls without arguments and result."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        return "" if call.args or call.keywords else call.func.id
    return ""


def is_call_of(node: ast.AST | None, name: str) -> TypeGuard[ast.Call]:
    """Tell whether an expression calls a function by this name, with arguments."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    return isinstance(node.func, ast.Name) and node.func.id == name


def root(node: ast.AST) -> str:
    """Return the name that a dotted path or an item begins with; empty for others."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def head(statement: ast.stmt) -> str:
    """Return the first line of a compound statement."""
    return ast.unparse(statement).splitlines()[0].rstrip(":")


def is_main(test: ast.expr) -> bool:
    """Tell whether a condition asks if the file is run as a script."""
    return isinstance(test, ast.Compare) and ast.unparse(test.left) == "__name__"


def is_type_checking(test: ast.expr) -> bool:
    """Tell whether a condition is for type checkers only."""
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def is_tolerant(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler lets a file go on where a name of others does not exist."""
    if any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return False
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind).rpartition(".")[2] in _TOLERATED for kind in kinds)


def values(statements: Iterable[ast.stmt], bound: Mapping[str, int]) -> dict[str, ast.expr]:
    """Return what the names stand for that statements bind once, by a plain assignment."""
    return {
        target.id: each.value
        for each in statements
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name) and bound[target.id] == 1
    }


def is_done_once(statement: ast.stmt, function: ast.AST | None, tree: ast.AST) -> bool:
    """Tell whether an `if` asks whether something was done before, so as to do it once.

    That is by a global name that its function sets, or by a mark that the file puts somewhere.
    """
    test = statement.test if isinstance(statement, ast.If) else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Name):
        return function is not None and test.id in global_names(function)
    if is_call_of(test, "getattr") or is_call_of(test, "hasattr"):
        marks = {mark for node in ast.walk(tree) for mark in _marks(node)}
        return len(test.args) > 1 and _said(test.args[1]) in marks
    return False


def _marks(node: ast.AST) -> Iterator[str]:
    """Yield the names of attributes that a statement makes true."""
    if isinstance(node, ast.Assign) and _is_true(node.value):
        yield from (each.attr for each in node.targets if isinstance(each, ast.Attribute))
    elif is_call_of(node, "setattr") and len(node.args) == 3 and _is_true(node.args[2]):
        yield _said(node.args[1])


def _is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _said(node: ast.AST) -> str:
    """Return what a name or string says."""
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def way_out(statement: ast.stmt) -> Literal["", "guard", "except", "somewhere"]:
    """Return where in a compound statement its function may end, if it may.

    A `guard` is an `if` whose block ends so, `except` is a handler that does.
    """
    ends = sum(isinstance(each, ast.Return) for each in _own(statement))
    if not ends or isinstance(statement, (ast.Return, *DEFINITIONS)):
        return ""
    blocks = [statement.body] if isinstance(statement, ast.If) else []
    if isinstance(statement, ast.Try):
        blocks = [handler.body for handler in statement.handlers]
    if ends != sum(isinstance(each[-1], ast.Return) for each in blocks):
        return "somewhere"
    return "guard" if isinstance(statement, ast.If) else "except"


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without those of functions and classes in it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, DEFINITIONS):
            yield from _own(child)


def only_assigns(block: list[ast.stmt]) -> bool:
    """Tell whether a block does nothing but import and assign."""
    return all(isinstance(each, (ast.Import, ast.ImportFrom, ast.Assign)) for each in block)


def decorator_names(node: ast.stmt) -> list[str]:
    """Return the decorators of a statement that are plain names."""
    return [each.id for each in getattr(node, "decorator_list", []) if isinstance(each, ast.Name)]
