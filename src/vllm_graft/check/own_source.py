"""What a patch does itself, as a short text that only changes when that does.

Lazy implementations are read, not imported. Neither comments, docstrings and formatting count, nor
what a declaration says beside its implementation, nor the Python that reads it.
"""

import ast
import copy
import enum
import functools
import hashlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_args

from ..models.registry import Registration
from ..patch import Operation, Patch, Value
from ..target import Target
from .bindings import Function
from .fingerprint import fingerprint
from .implementation import definition

_OPERATIONS = frozenset(get_args(Operation))
_Definition = (*Function, ast.ClassDef)

UNREAD = ""
"""Stands for an implementation without any source to read."""


def own_source(patch: Patch) -> str:
    """Return the fingerprint of a patch's operation and implementation, `UNREAD` without one.

    It covers the function or class that is given, the whole file of a module that a `run` imports,
    or the value. What an implementation calls is not covered.
    """
    known = _KNOWN.get(id(patch))
    if known is None or known[0] is not patch:
        known = _KNOWN[id(patch)] = patch, _of_patch(patch)
    return known[1]


_KNOWN: dict[int, tuple[Patch, str]] = {}
"""Patches are few and cannot be hashed; each is held, so that its id stays its own."""


def _of_patch(patch: Patch) -> str:
    try:
        if patch.lazy is not None:
            written = _named(Target.parse(patch.lazy))
        else:
            written = _described(patch.implementation)
    except _Unread:
        return UNREAD
    return hashlib.sha256(f"{patch.operation}\0{written}".encode()).hexdigest()[:16]


class _Unread(Exception):
    """Part of an implementation has no source here."""


def _named(reference: Target) -> str:
    """Describe what a name in a module stands for, by sources alone."""
    node = definition(reference)
    if node is None:
        raise _Unread
    return _written(node)


def _written(node: ast.AST) -> str:
    """Describe a definition with its parameters, and without the decorators that declare it."""
    if not isinstance(node, _Definition):
        return f"{_arguments(node)}{fingerprint(node)}"
    alone = copy.copy(node)
    alone.decorator_list = [each for each in node.decorator_list if not _declares(each)]
    return f"{_arguments(node)}{fingerprint(alone)}"


def _arguments(node: ast.AST) -> str:
    arguments = getattr(node, "args", None)
    return f"{fingerprint(arguments)} " if isinstance(arguments, ast.arguments) else ""


def _declares(decorator: ast.expr) -> bool:
    """Tell whether a decorator looks like `@patches.wrap(…)`."""
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in _OPERATIONS
    )


def _described(value: Any, within: tuple[Any, ...] = ()) -> str:
    """Describe a value alike in every process and under every Python."""
    if any(value is each for each in within):
        return "itself"
    described = functools.partial(_described, within=(*within, value))
    if isinstance(value, Value):
        return described(value.value)
    if isinstance(value, Registration):  # what it registers is what it does
        return _named(Target.parse(value.model.factory))
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({sorted(map(described, value))})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({[described(each) for each in value]})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({[described(pair) for pair in value.items()]})"
    if isinstance(value, ModuleType):
        return value.__name__
    return _of_code(value, described)


_PLAIN = (str, bytes, bool, int, float, complex)


def _of_code(value: Any, described: "functools.partial[str]") -> str:
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {described(value.__func__)}"
    if isinstance(value, functools.partial):
        return f"partial {described((value.func, value.args, value.keywords))}"
    if inspect.ismethod(value):
        return f"{described(value.__func__)} of {described(value.__self__)}"
    inner = inspect.unwrap(value) if callable(value) else value
    if isinstance(inner, FunctionType):
        return _of_function(inner)
    if isinstance(inner, type):
        return _of_class(inner)
    if inspect.isbuiltin(inner):
        return f"{inner.__module__} {inner.__qualname__}"
    made_of = f"{_of_class(type(inner))} " if callable(inner) else ""
    if getattr(type(inner), "__repr__", None) is object.__repr__ or callable(inner):
        return f"{made_of}{described(getattr(inner, '__dict__', None))}"
    return f"{type(inner).__qualname__} {re.sub(r' at 0x[0-9a-fA-F]+', '', repr(inner))}"


def _of_function(function: FunctionType) -> str:
    code = function.__code__
    text = _text(code.co_filename, function.__globals__)
    return _joined(_definitions(text).get((code.co_name, code.co_firstlineno), []))


def _of_class(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):  # of the standard library, or compiled
        return f"{cls.__module__} {cls.__qualname__}"
    text = _text(file, vars(module))
    name = cls.__qualname__.replace("<locals>.", "")
    return _joined(_definitions(text).get((name, 0), []))


def _text(file: str, names: dict[str, Any]) -> str:
    """Return the text of a file, which may be in an archive that only the loader reads."""
    read = getattr(names.get("__loader__"), "get_data", None) or _bytes
    try:
        return decode_source(read(file))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _Unread from error


def _bytes(file: str) -> bytes:
    return Path(file).read_bytes()


def _joined(nodes: list[ast.AST]) -> str:
    """Describe what may be meant: two lambdas on one line cannot be told apart."""
    if not nodes:
        raise _Unread
    return " ".join(map(_written, nodes))


@lru_cache(maxsize=32)
def _definitions(text: str) -> dict[tuple[str, int], list[ast.AST]]:
    """Return the functions of a text by name and first line, its classes by qualified name."""
    found: dict[tuple[str, int], list[ast.AST]] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return found
    for name, node in _walked(tree, ""):
        if isinstance(node, ast.ClassDef):
            found.setdefault((name, 0), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, Function):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found


def _walked(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.AST]]:
    for each in ast.iter_child_nodes(node):
        name = f"{outer}.{each.name}".lstrip(".") if isinstance(each, _Definition) else outer
        yield name, each
        yield from _walked(each, name)
