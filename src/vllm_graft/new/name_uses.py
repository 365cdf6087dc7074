"""Where a file uses the names of its imports: when it is executed, in functions, or for types."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import syntax

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Uses:
    """The uses of names, as the dotted paths that are written, by where they are.

    `outer` are those of module level, `inner` those of each function of the file, `types` those
    that type checkers alone read. `called` are the names that are called at module level.
    """

    outer: set[str] = field(default_factory=set)
    inner: dict[Function, set[str]] = field(default_factory=lambda: defaultdict(set))
    types: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)

    @property
    def everywhere(self) -> set[str]:
        """All uses."""
        return self.outer.union(self.types, *self.inner.values())


def uses(tree: ast.Module) -> Uses:
    """Return the uses of names in a file, or in some of its statements."""
    later = any(
        isinstance(each, ast.ImportFrom)
        and each.module == "__future__"
        and any(alias.name == "annotations" for alias in each.names)
        for each in tree.body
    )
    reader = _Reader(later)
    for each in tree.body:
        reader.outer(each)
    return reader.found


class _Reader:
    def __init__(self, annotations_are_later: bool) -> None:
        self.found = Uses()
        self._later = annotations_are_later

    def outer(self, node: ast.AST) -> None:
        """Read what is executed with the file, without what only functions do."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(node)
            return
        if isinstance(node, ast.If) and syntax.is_type_checking(node.test):
            self.found.types |= set(_paths(node.body))
            self._all(node.orelse)
            return
        if isinstance(node, ast.AnnAssign):
            self._annotation(node.annotation)
            self._all([node.target, *filter(None, [node.value])])
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self.found.called.add(node.func.id)
        path = _path(node)
        if path:
            self.found.outer |= {path} - {_stored(node)}
            return
        self._all(ast.iter_child_nodes(node))

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for each in nodes:
            self.outer(each)

    def _function(self, node: Function) -> None:
        self._all(node.decorator_list)
        self.found.called |= {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        self._all([*node.args.defaults, *filter(None, node.args.kw_defaults)])
        for annotation in (*(each.annotation for each in parameters(node)), node.returns):
            if annotation is not None:
                self._annotation(annotation)
        own = own_names(node)
        nested = names_bound_inside(node) - own
        for path in _paths(node.body):
            name = path.partition(".")[0]
            if name in nested:
                self.found.outer.add(path)  # whether it is the file's name, scopes would tell
            elif name not in own:
                self.found.inner[node].add(path)

    def _annotation(self, node: ast.expr) -> None:
        if self._later:
            self.found.types |= set(_paths([node]))
        else:
            self.outer(node)
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                self.found.types |= set(_quoted(each.value))


def parameters(node: Function) -> list[ast.arg]:
    """Return the parameters of a function."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*named, *filter(None, [arguments.vararg, arguments.kwarg])]


def own_names(node: Function) -> set[str]:
    """Return the names that are a function's own."""
    bound = {each.arg for each in parameters(node)} | set(syntax.bound_names(node.body))
    return bound - syntax.global_names(node)


def names_bound_inside(node: Function) -> set[str]:
    """Return the names that a function or the scopes in it bind."""
    found: set[str | None] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            found.add(each.arg)
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            found.add(each.id)
        elif isinstance(each, (ast.Import, ast.ImportFrom)):
            found |= set(syntax.bound_names([each]))
        elif isinstance(each, (*syntax.DEFINITIONS, ast.ExceptHandler)):
            found.add(each.name)
    return {each for each in found if each and each != node.name}


def _paths(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names in some code, each as the longest dotted path that is written."""
    found: list[str] = []
    for node in nodes:
        path = _path(node)
        if path and path != _stored(node):
            found.append(path)
        elif not path:
            found += _paths(ast.iter_child_nodes(node))
    return found


def _quoted(text: str) -> list[str]:
    """Return the names in an annotation that is written as a string."""
    try:
        return _paths([ast.parse(text, mode="eval").body])
    except SyntaxError:
        return []


def _path(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _path(node.value)
        return before and f"{before}.{node.attr}"
    return ""


def _stored(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
