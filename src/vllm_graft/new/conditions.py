"""Conditions of an old file, in the words that a declaration has for them: `when=` and versions."""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from ..ranges import written
from .imported import Imported
from .version_tests import versions

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Condition:
    """What has to hold: of the environment, as the text of `when=`, and of vLLM's version."""

    when: str = ""
    vllm: str = ""

    def __bool__(self) -> bool:
        return bool(self.when or self.vllm)

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(_both(self.when, other.when, "and"), joined(self.vllm, other.vllm))

    def __or__(self, other: "Condition") -> "Condition | None":
        """Return that one of two holds; None where a declaration cannot say that."""
        if self == other:
            return self
        if self.vllm != other.vllm:
            return None
        if not self.when or not other.when:
            return Condition("", self.vllm)
        return Condition(_both(self.when, other.when, "or"), self.vllm)


def joined(*specifiers: str) -> str:
    """Return the specifier of the versions that are in each of these."""
    found = SpecifierSet(",".join(filter(None, specifiers)))
    exact = [each for each in found if each.operator == "==" and "*" not in each.version]
    if exact and found.contains(exact[0].version, prereleases=True):
        return str(exact[0])
    kept = dict.fromkeys(str(each) for each in found if not _is_idle(each, found))
    return written(SpecifierSet(",".join(kept)))


def _is_idle(specifier: Specifier, among: SpecifierSet) -> bool:
    """Tell whether a clause says nothing, since another one leaves out as much and more."""
    if "*" in specifier.version or specifier.operator not in (">=", "<", "!="):
        return False
    if specifier.operator == "!=":
        others = ",".join(str(each) for each in among if each != specifier)
        return not SpecifierSet(others).contains(specifier.version, prereleases=True)
    same = [Version(each.version) for each in among if each.operator == specifier.operator]
    tightest = max(same) if specifier.operator == ">=" else min(same)
    return Version(specifier.version) != tightest


def _both(first: str, second: str, word: str) -> str:
    if not first or not second or first == second:
        return first or second
    return f"{operand(first)} {word} {operand(second)}"


def operand(text: str) -> str:
    """Return a test as it may stand beside `and`."""
    parsed = ast.parse(text, mode="eval").body
    is_loose = isinstance(parsed, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or (
        isinstance(parsed, ast.BoolOp) and isinstance(parsed.op, ast.Or)
    )
    return f"({text})" if is_loose else text


def condition(
    test: ast.expr, imported: Imported, values: Mapping[str, ast.expr]
) -> Condition | None:
    """Return what a test asks; None where a declaration cannot say it.

    `values` are the expressions that names of the file stand for.
    """
    return _condition(_expanded(test, imported, values), imported)


def conditions_of(
    tree: ast.Module, package: str, values: Mapping[str, ast.expr]
) -> Callable[[ast.expr], Condition | None]:
    """Return what tells, by all imports of a file, what a test asks, as `condition` does.

    Where a condition stands, its names may mean something else: that is to be asked again.
    """
    imported = Imported(package)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported.read(node)
    return lambda test: condition(test, imported, values)


def inverse(test: ast.expr) -> ast.expr:
    """Return the test that holds where another does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        opposite = _OPPOSITE[type(test.ops[0])]()
        return ast.Compare(test.left, [opposite], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def _condition(test: ast.expr, imported: Imported) -> Condition | None:
    when = _on_environment(test)
    if when:
        return Condition(when=when)
    parts = _parts(test)
    if len(parts) > 1:
        return _all([_condition(each, imported) for each in parts])
    vllm = versions(test, imported)
    return Condition(vllm=vllm) if vllm else None


def _parts(test: ast.expr) -> list[ast.expr]:
    """Return the tests that all have to hold for one to hold: those of `and`, links of a chain."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return test.values
    if isinstance(test, ast.Compare):
        operands = [test.left, *test.comparators]
        links = zip(operands, test.ops, operands[1:], strict=False)
        return [ast.Compare(left, [sign], [right]) for left, sign, right in links]
    return [test]


def _all(parts: "list[Condition | None]") -> Condition | None:
    found = Condition()
    for part in parts:
        if part is None:
            return None
        found &= part
    return found


def _expanded(test: ast.expr, imported: Imported, values: Mapping[str, ast.expr]) -> ast.expr:
    copy = ast.parse(ast.unparse(test), mode="eval").body
    expanded: ast.expr = _Expanded(imported, values).visit(copy)
    return expanded


class _Expanded(ast.NodeTransformer):
    """Puts what names stand for in their place."""

    def __init__(self, imported: Imported, values: Mapping[str, ast.expr]) -> None:
        self._imported = imported
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        path = self._imported.paths.get(node.id)
        if path in ("os", "os.environ", "os.getenv"):
            return ast.parse(path, mode="eval").body
        value = self._values.get(node.id) if path is None else None
        if value is not None:
            rest = {name: each for name, each in self._values.items() if name != node.id}
            return _expanded(value, self._imported, rest)
        return ast.Name(f"{node.id}_") if node.id == "os" else node  # the file's own `os`


def _on_environment(test: ast.expr) -> str:
    """Return a test on environment variables in the words of `when=`; empty for another."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    if names - {"os", "bool", "int", "str"} or "os" not in names:
        return ""
    text = re.sub(r"'([^'\"\\\\]*)'", r'"\1"', ast.unparse(test))
    text = text.replace("os.environ", "environment.environ")
    text = text.replace("os.getenv(", "environment.environ.get(")
    return "" if re.search(r"\bos\b", text) else text
