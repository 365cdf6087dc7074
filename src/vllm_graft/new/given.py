"""What kind of thing an old file assigns."""

import ast
from collections.abc import Mapping

from .old_file import Given

DESCRIPTORS = ("staticmethod", "classmethod", "property")


def given(
    text: str,
    value: ast.expr,
    definitions: Mapping[str, ast.AST],
    bound: Mapping[str, int],
    nested: Mapping[str, ast.AST | None],
) -> Given:
    """Return what an expression of a file gives.

    `definitions` are the functions and classes of the file, `bound` says how often it binds each
    of its names, `nested` has the names of the function around, and which of them are functions.
    """
    source = ast.get_source_segment(text, value) or ast.unparse(value)
    inner, descriptor = _unwrapped(value)
    if isinstance(inner, ast.Name) and inner.id in nested:
        return Given("expression", source, node=value if descriptor else nested[inner.id] or value)
    if isinstance(inner, ast.Name):
        node = definitions.get(inner.id)
        if node is not None:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            return Given(kind, source, inner.id, descriptor, node)  # type: ignore[arg-type]
        if not descriptor and bound.get(inner.id) == 1:
            return Given("value", source, inner.id, node=value)
    if _is_literal(value):
        return Given("literal", literal(ast.literal_eval(value)), node=value)
    return Given("expression", source, node=value)


def literal(value: object) -> str:
    """Return the source of a literal, in the quotes that formatters prefer."""
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    shown = repr(value)
    if isinstance(value, str) and shown[0] == "'" and '"' not in shown and "\\'" not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def _unwrapped(value: ast.expr) -> tuple[ast.expr, str]:
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in DESCRIPTORS
        and len(value.args) == 1
        and not value.keywords
    ):
        return value.args[0], value.func.id
    return value, ""


def _is_literal(value: ast.expr) -> bool:
    """Tell whether an expression is a constant that can be written down and never changes."""
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub) and _is_literal(value.operand)
    if isinstance(value, ast.Tuple):
        return all(map(_is_literal, value.elts))
    return isinstance(value, ast.Constant) and not isinstance(value.value, type(...))
