"""Tests on vLLM's version, as the ranges of versions for which they hold."""

import ast
import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..ranges import written
from .imported import Imported, constant

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.Gt: ">",
    ast.LtE: "<=",
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", ">": "<", ">=": "<=", "<=": ">="}
_VERSION_IS = "vllm_version_is"
"""What vLLM's hardware plugins call their function that compares with one release."""
_VERSIONS = frozenset({"vllm.__version__", "vllm.version.__version__"})
_METADATA = ("importlib.metadata.version", "importlib_metadata.version")
_PARSERS = frozenset({"Version", "parse"})
_MINOR = re.compile(r"((?:\d+\.)*\d+)\.|(\d+\.\d\d+)")
"""What a version may start with that no version of another minor release starts with."""


def versions(test: ast.expr, imported: Imported) -> str:
    """Return the versions of vLLM for which a test holds; empty where that cannot be said."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _opposite(versions(test.operand, imported))
    if isinstance(test, ast.Call):
        return _of_call(test, imported)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ""
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        is_in = isinstance(operator, ast.In)
        return _of_membership(left, right, imported, is_in=is_in)
    sign = _SIGNS.get(type(operator))
    if sign is None:
        return ""
    if _is_version(right, imported):
        return _of_comparison(right, _SWAPPED[sign], left, imported)
    return _of_comparison(left, sign, right, imported)


def _of_comparison(version: ast.expr, sign: str, other: ast.expr, imported: Imported) -> str:
    """Return the versions that compare like this; texts are not ordered as versions are."""
    if not _is_version(version, imported):
        return ""
    text = _release(version, other, imported)
    is_ordered = not _is_text(version, imported)
    return _checked(f"{sign}{text}") if text and (is_ordered or sign in ("==", "!=")) else ""


def _release(version: ast.expr, other: ast.expr, imported: Imported) -> str:
    """Return the release that another expression is, of the kind that the version is of."""
    text = constant(other) if _is_text(version, imported) else _parsed(other, imported)
    return text if text and _is_release(text) else ""


def _is_release(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _of_membership(left: ast.expr, right: ast.expr, imported: Imported, *, is_in: bool) -> str:
    """Return the versions that are in something, or that are not.

    That a version is one of several is no range: between any two of them there may be others.
    """
    if not _is_version(left, imported):
        return ""
    if not isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        return _of_set(right, imported) if is_in else _opposite(_of_set(right, imported))
    releases = [_release(left, each, imported) for each in right.elts]
    if not releases or not all(releases):
        return ""
    if is_in and len(set(map(Version, releases))) > 1:
        return ""
    sign = "==" if is_in else "!="
    return _checked(",".join(f"{sign}{each}" for each in sorted(set(map(Version, releases)))))


def _opposite(specifier: str) -> str:
    """Return the versions that a specifier leaves out; empty where it has several clauses."""
    match = re.fullmatch(r"(==|!=|<=|>=|<|>)([^,]+)", specifier)
    if match is None:
        return ""
    opposites = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
    return f"{opposites[match[1]]}{match[2]}"


def _of_call(call: ast.Call, imported: Imported) -> str:
    function = _function(call, imported)
    text = constant(call.args[0]) if len(call.args) == 1 else None
    if function == _VERSION_IS and text and _is_release(text):
        return _checked(f"=={text}")
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return ""
    if function == "contains" and _is_version(call.args[0], imported):
        return _of_set(call.func.value, imported)
    if function == "startswith" and text and _is_text(call.func.value, imported):
        match = _MINOR.fullmatch(text)
        return _checked(f"=={match[1] or match[2]}.*") if match else ""
    return ""


def _of_set(expression: ast.expr, imported: Imported) -> str:
    is_call = isinstance(expression, ast.Call) and len(expression.args) == 1
    if is_call and _function(expression, imported) == "SpecifierSet":
        assert isinstance(expression, ast.Call)
        return _checked(constant(expression.args[0]) or "")
    return ""


def _function(call: ast.expr, imported: Imported) -> str:
    """Return the last name of a function that is called, as it is defined; empty for no call."""
    if not isinstance(call, ast.Call):
        return ""
    return (imported.path(call.func) or ast.unparse(call.func)).rpartition(".")[2]


def _is_version(expression: ast.expr, imported: Imported) -> bool:
    """Tell whether an expression is vLLM's version, as a text or parsed."""
    if isinstance(expression, ast.Call) and _function(expression, imported) in _PARSERS:
        return len(expression.args) == 1 and _is_text(expression.args[0], imported)
    return _is_text(expression, imported)


def _is_text(expression: ast.expr, imported: Imported) -> bool:
    """Tell whether an expression is the text of vLLM's version."""
    if isinstance(expression, ast.Call) and len(expression.args) == 1:
        asks = imported.path(expression.func) in _METADATA
        return asks and constant(expression.args[0]) == "vllm"
    return imported.path(expression) in _VERSIONS


def _parsed(expression: ast.expr, imported: Imported) -> str:
    """Return the version that an expression parses; empty where it is no text."""
    if isinstance(expression, ast.Call) and _function(expression, imported) in _PARSERS:
        return constant(expression.args[0]) or "" if expression.args else ""
    return ""


def _checked(specifier: str) -> str:
    try:
        return written(SpecifierSet(specifier)) if specifier else ""
    except InvalidSpecifier:
        return ""
