"""What the statements of a module or class bind a name to, those under conditions included."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .conditions import ALWAYS, LIKELY, NEVER, UNLIKELY, likelihood
from .outline import Block, Outline

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Binding:
    """A statement that binds a name, and how likely it is that it does.

    `block` is there for a class that stands on its own: its `node` has no body worth reading.
    `stars` are imports by `*`, which may bind the name or not.
    """

    node: ast.stmt
    likelihood: int
    block: Block | None = None
    star: bool = False


@dataclass(frozen=True)
class Scope:
    """The statements of a module or class body: blocks of its text, or nodes where it is parsed."""

    outline: Outline
    blocks: tuple[Block, ...] = ()
    nodes: tuple[ast.stmt, ...] = ()
    platform: str = "cuda"

    def bindings(self, name: str) -> list[Binding]:
        """Return what may bind a name, what a run takes first.

        Of bindings that are as good the last one counts, as it does when the statements run. A
        branch that is most likely taken is as good as no condition at all.
        """
        found = [*self._defined(name), *self._starred()]
        order = sorted(
            range(len(found)),
            key=lambda index: (min(found[index].likelihood, LIKELY), _line(found[index]), index),
            reverse=True,
        )
        return [found[index] for index in order]

    def statements(self) -> Iterator[ast.stmt]:
        """Yield all statements."""
        yield from self.nodes
        for block in self.blocks:
            yield from self.outline.nodes(block)

    def mentioned(self, name: str) -> Iterator[ast.stmt]:
        """Yield the statements in which a name stands anywhere, whatever they do with it."""
        yield from self.nodes
        for block in self.blocks:
            if self.outline.text.find(name, block.start, block.end) >= 0:
                yield from self.outline.nodes(block)

    def _defined(self, name: str) -> Iterator[Binding]:
        yield from _bound(self.nodes, name, ALWAYS, self.platform)
        for block in self.outline.mentioning(name, self.blocks):
            if block.is_class:
                yield Binding(self.outline.header(block), ALWAYS, block)
            else:
                yield from _bound(self.outline.nodes(block), name, ALWAYS, self.platform)

    def _starred(self) -> Iterator[Binding]:
        if not self.outline.has_stars:
            return
        for block in self.blocks:
            if block.name is None and self.outline.text.find("*", block.start, block.end) >= 0:
                yield from _bound(self.outline.nodes(block), "*", ALWAYS, self.platform)


def imported(node: ast.stmt, name: str) -> ast.alias | None:
    """Return what an import statement binds a name to; None for other statements."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            if (alias.asname or _first(node, alias)) == name:
                return alias
    return None


def _first(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    return alias.name if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0]


def _line(binding: Binding) -> int:
    return binding.node.lineno


def _bound(nodes: Iterable[ast.stmt], name: str, taken: int, platform: str) -> Iterator[Binding]:
    """Yield the statements that bind a name, with how likely their branches are."""
    for node in nodes:
        if binds(node, name):
            yield Binding(node, taken, star=name == "*")
        for body, likely in _branches(node, platform):
            yield from _bound(body, name, min(taken, likely), platform)


def _branches(node: ast.stmt, platform: str) -> Iterator[tuple[list[ast.stmt], int]]:
    if isinstance(node, ast.If):
        likely = likelihood(node.test, platform)
        yield node.body, likely
        yield node.orelse, ALWAYS - likely
    elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        assert isinstance(node, ast.Try)
        yield node.body, ALWAYS
        yield from ((handler.body, UNLIKELY) for handler in node.handlers)
        yield node.orelse, ALWAYS
        yield node.finalbody, ALWAYS
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        yield node.body, LIKELY
        yield node.orelse, ALWAYS
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield node.body, ALWAYS
    elif isinstance(node, ast.Match):
        for index, case in enumerate(node.cases):
            yield case.body, UNLIKELY if index else LIKELY


def binds(node: ast.stmt, name: str) -> bool:
    """Tell whether a statement binds a name itself, or deletes it; `*` is a name here."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return imported(node, name) is not None
    return any(_names(target, name) for target in _targets(node))


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, (ast.Assign, ast.Delete)):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.For, ast.AsyncFor)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in node.items if item.optional_vars is not None]
    if type(node).__name__ == "TypeAlias":  # from Python 3.12 on
        return [node.name]  # type: ignore[attr-defined]  # mypy looks as Python 3.10 does
    if isinstance(node, (ast.Expr, ast.If, ast.While)):
        value = node.value if isinstance(node, ast.Expr) else node.test
        return [each.target for each in ast.walk(value) if isinstance(each, ast.NamedExpr)]
    return []


def _names(target: ast.expr, name: str) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_names(each, name) for each in target.elts)
    if isinstance(target, ast.Starred):
        return _names(target.value, name)
    return isinstance(target, ast.Name) and target.id == name


def is_bound_at_run_time(binding: Binding) -> bool:
    """Tell whether a binding is there at all, not for type checkers alone, and binds a value."""
    node = binding.node
    declares = isinstance(node, ast.AnnAssign) and node.value is None
    return binding.likelihood > NEVER and not declares


def is_part(node: ast.stmt, name: str, rest: int) -> bool:
    """Tell whether a definition is only a part of the one before: an overload, a setter."""
    if isinstance(node, Function) and rest:
        for decorator in node.decorator_list:
            text = ast.unparse(decorator)
            if text.rpartition(".")[2] in ("overload", "setter", "deleter"):
                return True
    value = getattr(node, "value", None)
    passes_on = isinstance(value, ast.Call) and any(
        isinstance(each, ast.Name) and each.id == name for each in value.args
    )
    return rest > 0 and passes_on  # `f = decorate(f)`


def is_alone(node: ast.stmt | None) -> bool:
    """Tell whether an assignment gives its whole value to one name."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return all(isinstance(target, ast.Name) for target in targets)
