"""What a statement of an old file changes that others provide."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import syntax
from .given import DESCRIPTORS
from .imported import Choice, Imported, constant, quoted
from .name_uses import own_names

_MUTATORS = frozenset(
    {"append", "add", "update", "extend", "insert", "setdefault", "pop", "remove", "discard"}
    | {"clear", "appendleft", "__setitem__", "__setattr__"}
)
_REGISTERS = ("register", "patch", "override", "install", "monkey", "set_", "define", "impl")
_MADE_AT_RUN_TIME = "torch.ops."
_LOGS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "print"})
_HARMLESS_DECORATORS = frozenset({"wraps", "update_wrapper"})


@dataclass(frozen=True)
class Assigned:
    """A path that is assigned to, the expression that is assigned, and all paths it may be."""

    path: str
    value: ast.expr
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Changed:
    """A path that something is done to; `reason` says why that is no plain assignment."""

    path: str
    reason: str = ""


def assigned(statement: ast.stmt, imported: Imported) -> Iterator[Assigned]:
    """Yield what a statement assigns to names of others, in the ways that can be translated."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        for target in _targets(statement):
            path = imported.foreign(target) if isinstance(target, ast.Attribute) else None
            if path:
                yield Assigned(path, statement.value, _foreign_choices(target, imported))
    call = _call(statement)
    if call is not None and _is_setattr(call):
        before, name = imported.foreign(call.args[0]), constant(call.args[1])
        if before and name:
            choices = _foreign_choices(call.args[0], imported)
            members = tuple(replace(each, path=f"{each.path}.{name}") for each in choices)
            yield Assigned(f"{before}.{name}", call.args[2], members)


def _foreign_choices(target: ast.expr, imported: Imported) -> tuple[Choice, ...]:
    choices = imported.choices_of(target)
    return tuple(each for each in choices if imported.is_foreign(each.path))


def changed(statement: ast.stmt, imported: Imported, *, calls: bool = False) -> Iterator[Changed]:
    """Yield what a simple statement does to names of others, in whatever way.

    With `calls` any call of what others provide counts, since it may do anything.
    """
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        yield from _assignment(statement, imported)
    elif isinstance(statement, ast.AugAssign):
        path = _base(statement.target, imported)
        if path:
            yield Changed(path, "it changes a value in place")
    elif isinstance(statement, ast.Delete):
        for target in statement.targets:
            path = _base(target, imported)
            if path:
                yield Changed(path, "it deletes a name")
    else:
        call = _call(statement)
        if call is not None:
            yield from _of_call(call, imported, calls)


def read(statement: ast.stmt, imported: Imported) -> Iterator[str]:
    """Yield the paths of others that a simple statement reads; what it logs does not count."""
    call = _call(statement)
    if call is not None and _logs(imported.foreign(call.func) or ast.unparse(call.func)):
        return
    if call is not None and _is_setattr(call):
        yield from imported.mentioned(call.args[2])
        return
    value = getattr(statement, "value", None)
    if isinstance(value, ast.expr):
        yield from imported.mentioned(value)


def _logs(function: str) -> bool:
    return function.rpartition(".")[2].removesuffix("_once") in _LOGS


def _assignment(statement: "ast.Assign | ast.AnnAssign", imported: Imported) -> Iterator[Changed]:
    paths = [_base(target, imported) for target in _targets(statement)]
    for target in _targets(statement):
        origin = imported.origin(target)
        if origin and isinstance(target, (ast.Attribute, ast.Subscript)):
            yield Changed(origin, f"what `{ast.unparse(target)}` is, is only known at run time")
    if not any(paths):
        return
    for target, path in zip(_targets(statement), paths, strict=True):
        if path is None or isinstance(target, (ast.Tuple, ast.List)):
            yield Changed(path or next(filter(None, paths)), "it assigns several things at once")
        elif path == "sys.modules":
            yield Changed(_module_key(target), "it puts another module in the place of one")
        elif isinstance(target, ast.Subscript):
            yield Changed(path, "it changes a container in place")
        elif path.startswith(_MADE_AT_RUN_TIME):
            yield Changed(path, "torch makes this name at run time, when it is asked for")
        else:
            yield Changed(path)


def _of_call(call: ast.Call, imported: Imported, calls: bool) -> Iterator[Changed]:
    if _is_setattr(call):
        path = imported.foreign(call.args[0])
        origin = imported.origin(call.args[0])
        if origin:
            what = ast.unparse(call.args[0])
            yield Changed(origin, f"what `{what}` is, is only known at run time")
        if path:
            is_known = constant(call.args[1]) is not None
            yield Changed(path, "" if is_known else "the name is only known at run time")
        return
    function = imported.foreign(call.func)
    if function and _logs(function):
        return
    arguments = [path for each in call.args for path in imported.mentioned(each)]
    written = list(quoted(call))
    name = ast.unparse(call.func)
    if function and function.rpartition(".")[2] in _MUTATORS:
        yield Changed(function.rpartition(".")[0], "it changes an object in place")
    elif name.startswith(("delattr", "setattr", "exec", "globals")) and (arguments or written):
        yield Changed((arguments + written)[0], f"what `{name}` does here cannot be told")
    elif written and ("patch" in name or "start" in name):
        yield Changed(written[0], "it patches by a tool for tests")
    elif function and (calls or any(each in function.lower() for each in _REGISTERS)):
        yield Changed(function, "it is a call, and what that changes cannot be told")
    elif arguments and "patch" in name.lower():
        yield Changed(arguments[0], f"what `{name}` does with what it is given cannot be told")


def targets_of_decorator(decorator: ast.expr, imported: Imported) -> Iterator[str]:
    """Yield the paths that a decorator may change, by its name or by what it is given."""
    if not isinstance(decorator, ast.Call):
        return
    name = ast.unparse(decorator.func).rpartition(".")[2]
    if name in _HARMLESS_DECORATORS:
        return
    function = imported.foreign(decorator.func)
    if function and any(each in name.lower() for each in _REGISTERS):
        yield function
    arguments = (*decorator.args, *(each.value for each in decorator.keywords))
    for argument in arguments:
        if imported.foreign(argument):
            yield from imported.mentioned(argument)
    if "patch" in ast.unparse(decorator.func):
        yield from quoted(decorator)


def given_names(tree: ast.Module) -> set[str]:
    """Return the names of a file that are assigned to attributes: the implementations."""
    names = set()
    for node in ast.walk(tree):
        value: ast.expr | None = None
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Attribute) for each in node.targets
        ):
            value = node.value
        elif isinstance(node, ast.Call) and _is_setattr(node):
            value = node.args[2]
        if isinstance(value, ast.Call) and ast.unparse(value.func) in DESCRIPTORS and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name):
            names.add(value.id)
    return names


def asks_for_what_is_assigned(statement: ast.If, imported: Imported) -> bool:
    """Tell whether `if hasattr(x, "name")` is around assignments to `x.name` alone."""
    test = statement.test
    if statement.orelse or not isinstance(test, ast.Call) or len(test.args) != 2:
        return False
    if not isinstance(test.func, ast.Name) or test.func.id != "hasattr":
        return False
    before, name = imported.foreign(test.args[0]), constant(test.args[1])
    if before is None or name is None:
        return False
    return all(
        [each.path for each in assigned(inner, imported)] == [f"{before}.{name}"]
        for inner in statement.body
    )


def asks_for_what_there_is(statement: ast.If, imported: Imported) -> bool:
    """Tell whether an `if` asks for what is assigned in it, or for where that belongs.

    What it defines besides would be missing where a copy is loaded before vLLM has that.
    """
    if not statement.orelse and asks_whether_imported(statement.test, imported):
        return all(isinstance(each, (ast.Assign, ast.Expr)) for each in statement.body)
    return asks_for_what_is_assigned(statement, imported)


def asks_whether_imported(test: ast.expr, imported: Imported) -> bool:
    """Tell whether a test is `X` or `X is not None` of a name that others provide."""
    if isinstance(test, ast.Compare) and ast.unparse(test).endswith(" is not None"):
        test = test.left
    return isinstance(test, ast.Name) and imported.foreign(test) is not None


def _targets(statement: "ast.Assign | ast.AnnAssign") -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _call(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def _is_setattr(call: ast.Call) -> bool:
    is_named = isinstance(call.func, ast.Name) and call.func.id == "setattr"
    return is_named and len(call.args) == 3


def _base(target: ast.expr, imported: Imported) -> str | None:
    """Return the path of what a target changes something of; None where it is nobody else's."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return next(filter(None, (_base(each, imported) for each in target.elts)), None)
    if isinstance(target, ast.Subscript):
        path = imported.path(target.value)
        return path if path and (imported.is_foreign(path) or path == "sys.modules") else None
    return imported.foreign(target) if isinstance(target, ast.Attribute) else None


def _module_key(target: ast.expr) -> str:
    key = constant(target.slice) if isinstance(target, ast.Subscript) else None
    return key or "sys.modules"


def changed_inside(node: syntax.Definition, imported: Imported) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements of a definition that change what others provide, with its path."""
    hidden = () if isinstance(node, ast.ClassDef) else sorted(own_names(node))
    inner = imported.inner(*hidden)
    for each in ast.walk(node):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            inner.read(each)
    for statement in ast.walk(node):
        if isinstance(statement, ast.stmt) and statement is not node:
            for found in changed(statement, inner):
                yield statement, found.path
