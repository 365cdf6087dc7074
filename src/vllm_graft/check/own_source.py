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
from contextlib import suppress
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, get_args

from ..declare import PatchSet
from ..models.registry import Registration
from ..patch import Operation, Patch, Value
from ..target import Target
from .bindings import Function
from .fingerprint import fingerprint
from .implementation import definition, statements
from .module_names import ModuleNames

_OPERATIONS = frozenset(get_args(Operation))
_Definition = (*Function, ast.ClassDef)

UNREAD = ""
"""Stands for an implementation without any source to read."""


def own_source(patch: Patch) -> str:
    """Return the fingerprint of a patch's operation and implementation, `UNREAD` without one.

    It covers the function or class that is given, what it uses in its own file, and that uses in
    turn; what a factory gave it; the whole file of a module that a `run` imports; or the value.
    What an implementation calls in other modules is not covered.
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
    if isinstance(node, ast.Module):
        return _written(node)
    body = statements(reference)
    return _written(node) + _names_of(body).used_by([node])


@lru_cache(maxsize=32)
def _names_of(body: tuple[ast.stmt, ...]) -> ModuleNames:
    return ModuleNames(body, _stripped, _written)


def _written(node: ast.AST) -> str:
    """Describe a definition with its parameters, and without the decorators that declare it."""
    return f"{_arguments(node)}{fingerprint(_stripped(node))}"


def _stripped(node: ast.AST) -> ast.AST:
    if not isinstance(node, _Definition):
        return node
    alone = copy.copy(node)
    alone.decorator_list = [each for each in node.decorator_list if not _declares(each)]
    return alone


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
    if isinstance(value, PatchSet):  # another patch in it is no change of this one
        return "PatchSet"
    return _of_code(value, described)


_PLAIN = (str, bytes, bool, int, float, complex)


def _of_code(value: Any, described: "functools.partial[str]") -> str:
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {described(value.__func__)}"
    if isinstance(value, functools.partial):
        return f"partial {described((value.func, value.args, value.keywords))}"
    if inspect.ismethod(value):
        return f"{described(value.__func__)} of {described(value.__self__)}"
    if isinstance(value, FunctionType):
        return _of_function(value, described)
    inner = inspect.unwrap(value) if callable(value) else value
    if isinstance(inner, FunctionType):
        return described(inner)
    if isinstance(inner, type):
        return _of_class(inner)
    if inspect.isbuiltin(inner):
        return f"{inner.__module__} {inner.__qualname__}"
    made_of = f"{_of_class(type(inner))} " if callable(inner) else ""
    if getattr(type(inner), "__repr__", None) is object.__repr__ or callable(inner):
        return f"{made_of}{described(getattr(inner, '__dict__', None))}"
    return f"{type(inner).__qualname__} {re.sub(r' at 0x[0-9a-fA-F]+', '', repr(inner))}"


def _of_function(function: FunctionType, described: "functools.partial[str]") -> str:
    code = function.__code__
    wrapped = getattr(function, "__wrapped__", None)
    if _is_library(function.__globals__.get("__name__")):
        rest = described(wrapped) if wrapped is not None else ""
        return f"{function.__globals__['__name__']} {code.co_name} {rest}"
    text = _text(code.co_filename, function.__globals__)
    nodes = _definitions(text).get((code.co_name, code.co_firstlineno), [])
    written = _joined(nodes, text, code.co_freevars)
    held = [f"{name}={_held(each, described)}" for name, each in _given(function)]
    return " ".join([written, *held])


def _given(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function that was made by another has from there."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty yet
            if name != "__class__":
                yield name, cell.cell_contents
    if "<locals>" in function.__qualname__:
        yield "defaults", function.__defaults__
        yield "keywords", function.__kwdefaults__


def _held(value: Any, described: "functools.partial[str]") -> str:
    """Describe what a function was given; of objects whose state may be anything their type."""
    if isinstance(value, str) and Path(value).is_absolute():
        return repr(Path(value).name)  # elsewhere it is in another folder
    if isinstance(value, _CONTAINERS) and not any(
        value is each for each in described.keywords["within"]
    ):
        inner = functools.partial(_described, within=(*described.keywords["within"], value))
        pairs = value.items() if isinstance(value, dict) else value
        found = [_held(each, inner) for each in pairs]
        return f"{type(value).__name__}({sorted(found) if isinstance(value, _SETS) else found})"
    if value is None or type(value) in _PLAIN or isinstance(value, _DESCRIBED):
        with suppress(_Unread):
            return described(value)
    return f"{type(value).__module__} {type(value).__qualname__}"


_SETS = (set, frozenset)
_CONTAINERS = (list, tuple, dict, *_SETS)
_DESCRIBED = (Value, enum.Enum, ModuleType, FunctionType, MethodType, type, functools.partial)


def _is_library(module: str | None) -> bool:
    """Tell whether a module comes with Python, which has its own text in every version."""
    return (module or "").partition(".")[0] in sys.stdlib_module_names


def _of_class(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py") or _is_library(cls.__module__):
        return f"{cls.__module__} {cls.__qualname__}"
    text = _text(file, vars(module))
    name = cls.__qualname__.replace("<locals>.", "")
    return _joined(_definitions(text).get((name, 0), []), text)


def _text(file: str, names: dict[str, Any]) -> str:
    """Return the text of a file, which may be in an archive that only the loader reads."""
    read = getattr(names.get("__loader__"), "get_data", None) or _bytes
    try:
        return decode_source(read(file))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _Unread from error


def _bytes(file: str) -> bytes:
    return Path(file).read_bytes()


def _joined(nodes: list[ast.AST], text: str, hidden: tuple[str, ...] = ()) -> str:
    """Describe what may be meant: two lambdas on one line cannot be told apart."""
    if not nodes:
        raise _Unread
    return " ".join(map(_written, nodes)) + _names_of(_tree(text)).used_by(nodes, hidden)


@lru_cache(maxsize=32)
def _tree(text: str) -> tuple[ast.stmt, ...]:
    try:
        return tuple(ast.parse(text).body)
    except (SyntaxError, ValueError):
        return ()


@lru_cache(maxsize=32)
def _definitions(text: str) -> dict[tuple[str, int], list[ast.AST]]:
    """Return the functions of a text by name and first line, its classes by qualified name."""
    found: dict[tuple[str, int], list[ast.AST]] = {}
    for name, node in _walked(ast.Module([*_tree(text)], []), ""):
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
