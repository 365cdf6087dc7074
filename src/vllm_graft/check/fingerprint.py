"""What a definition does, as a short text that only changes when that does."""

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from .bindings import Function

_DOCUMENTED = (*Function, ast.ClassDef)
_IGNORED = frozenset({"ctx", "type_comment", "kind"})
"""Fields of nodes that say how something is written, or what follows from the rest."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


def fingerprint(node: ast.AST) -> str:
    """Return the same for definitions that differ in comments, docstrings and formatting only.

    It covers the body, the decorators and what a class inherits from, but neither the name nor the
    parameters, which the signature has. Every Python that can parse a definition gives the same.
    """
    written = [type(node).__name__] if isinstance(node, _DOCUMENTED) else []
    for part in _parts(node):
        _write(part, written)
    return hashlib.sha256("\0".join(written).encode()).hexdigest()[:16]


def similarity(first: ast.AST, second: ast.AST) -> float:
    """Return how much two definitions have in common, from 0 to 1: pairs of tokens in both.

    What both have is counted against the mean of what each has (Dice).
    """
    ours, theirs = _pairs(first), _pairs(second)
    total = sum(ours.values()) + sum(theirs.values())
    return 2 * sum((ours & theirs).values()) / total if total else 1.0


def _pairs(node: ast.AST) -> Counter[tuple[str, str]]:
    tokens = [
        token
        for part in _parts(node)
        for statement in (part if isinstance(part, list) else [part])
        for token in _TOKEN.findall(ast.unparse(_without_docstrings(statement)))
    ]
    return Counter(pairwise(["", *tokens]))


def _parts(node: ast.AST) -> Iterator["ast.AST | list[ast.AST]"]:
    """Yield what makes up a definition, its name and parameters left out."""
    if isinstance(node, _DOCUMENTED):
        yield list(node.decorator_list)
        if isinstance(node, ast.ClassDef):
            yield [*node.bases, *node.keywords]
        yield list(_body(node))
    elif isinstance(node, ast.Module):
        yield list(_body(node))
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        yield node.value
    else:
        yield node


def _write(value: object, written: list[str]) -> None:
    """Write a syntax tree as texts, without what differs between versions of Python.

    `ast.dump` will not do: it has fields that some versions do not know, and leaves others out
    where they are empty.
    """
    if isinstance(value, ast.AST):
        written.append(type(value).__name__)
        for name in value._fields:
            field = getattr(value, name, None)
            if field is None or field == [] or name in _IGNORED:
                continue
            if name == "body" and isinstance(value, _DOCUMENTED):
                field = _body(value)
            elif name == "values" and isinstance(value, ast.JoinedStr):
                field = _joined(value.values)
            written.append(name)
            _write(field, written)
        written.append(")")
    elif isinstance(value, list):
        written.append("[")
        for each in value:
            _write(each, written)
        written.append("]")
    else:
        written.append(repr(value))


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """Return the parts of an f-string with neighbouring texts in one, as Python 3.12 has them."""
    joined: list[ast.expr] = []
    for value in values:
        last = joined[-1] if joined else None
        if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(f"{last.value!s}{value.value!s}")
        else:
            joined.append(value)
    return [each for each in joined if not isinstance(each, ast.Constant) or each.value]


def _body(node: ast.AST) -> list[ast.stmt]:
    """Return the statements of a function or class without its docstring."""
    body: list[ast.stmt] = getattr(node, "body", [])
    first = body[0] if body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        body = body[1:]
    return body or [ast.Pass()]


def _without_docstrings(node: ast.AST) -> ast.AST:
    if not any(isinstance(each, _DOCUMENTED) for each in ast.walk(node)):
        return node
    copy: ast.AST = _Undocumented().visit(ast.parse(ast.unparse(node)))
    return copy


class _Undocumented(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, _DOCUMENTED):
            node.body = _body(node)
        return node
