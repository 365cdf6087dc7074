"""Which functions of an old file apply patches when they are called, and who calls them."""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from . import syntax
from .conditions import inverse
from .effects import changed_inside
from .imported import Imported


class Appliers:
    """The functions of a file that it calls without arguments, or others may, to have it patch.

    Those that something else is done with are none, nor those that it calls under a condition that
    `is_said` does not tell a declaration can say: what they change cannot be said to be changed.
    """

    def __init__(
        self, tree: ast.Module, excluded: set[str], is_said: Callable[[ast.expr], bool]
    ) -> None:
        self._tree = tree
        self._is_said = is_said
        counts = Counter(syntax.bound_names(tree.body))
        self._nodes = {
            each.name: each
            for each in _definitions(tree.body)
            if isinstance(each, ast.FunctionDef)
            and counts[each.name] == 1
            and each.name not in excluded
            and not syntax.needs_arguments(each)
            and not each.decorator_list
        }
        self._leave_out()
        self.calls = {name: list(self._calls(node.body)) for name, node in self._nodes.items()}
        self._called = [each for each in self._calls(tree.body) if each in self._nodes]

    @property
    def names(self) -> list[str]:
        """The names in the order in which the file calls them; what it does not call is last.

        One that is called by others comes after all of those.
        """
        done: list[str] = []
        open_: set[str] = set()

        def follow(name: str) -> None:
            if name in self._nodes and name not in open_:
                open_.add(name)
                for each in reversed(self.calls[name]):
                    follow(each)
                done.append(name)

        for name in reversed(dict.fromkeys([*self._called, *self._roots, *self._nodes])):
            follow(name)
        return done[::-1]

    @property
    def _roots(self) -> list[str]:
        inner = {each for name, calls in self.calls.items() for each in calls if each != name}
        return [each for each in self._nodes if each not in inner]

    @property
    def called(self) -> list[str]:
        """Those that the file calls itself, directly or not, in this order."""
        return list(dict.fromkeys(name for each in self._called for name in self.reached(each)))

    def reached(self, name: str) -> list[str]:
        """Return the appliers that calling one calls, itself among them."""
        found: list[str] = []

        def follow(name: str) -> None:
            if name in self._nodes and name not in found:
                found.append(name)
                for each in self.calls[name]:
                    follow(each)

        follow(name)
        return found

    def roots(self, name: str) -> list[str]:
        """Return those that nobody in the file calls and that call an applier, or are it."""
        return [each for each in self._roots if name in self.reached(each)]

    def _calls(self, statements: Iterable[ast.stmt]) -> Iterator[str]:
        """Yield the names that are called without arguments and for no result.

        That is in any case, or under a condition that a declaration can say.
        """
        for each in statements:
            name = syntax.called(each)
            if name:
                yield name
            elif isinstance(each, ast.Try):
                yield from self._calls([*each.body, *each.orelse])
            elif isinstance(each, ast.If):
                if self._is_said(each.test):
                    yield from self._calls(each.body)
                if each.orelse and self._is_said(inverse(each.test)):
                    yield from self._calls(each.orelse)

    def _leave_out(self) -> None:
        read = _loads(each for each in ast.walk(self._tree) if isinstance(each, syntax.DEFINITIONS))
        called = Counter(_all_calls(self._tree.body))
        plainly = Counter(self._calls(self._tree.body))
        while True:
            allowed = Counter(
                name for node in self._nodes.values() for name in self._calls(node.body)
            )
            gone = [
                name
                for name in self._nodes
                if read[name] > allowed[name] or called[name] > plainly[name]
            ]
            if not gone:
                return
            for name in gone:
                del self._nodes[name]


def changed_by_calls(
    statement: ast.stmt, definitions: Mapping[str, syntax.Definition], imported: Imported
) -> tuple[list[str], list[str]]:
    """Return what of the file a statement may call, and the paths of others that this changes."""
    seen: set[str] = set()
    waiting = list(own_names_called(statement)) + syntax.decorator_names(statement)
    paths: list[str] = []
    while waiting:
        name = waiting.pop(0)
        node = definitions.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        paths += [path for _, path in changed_inside(node, imported)]
        waiting += own_names_called(node)
    return [each for each in definitions if each in seen], paths


def own_names_called(node: ast.AST) -> Iterator[str]:
    """Yield the names whose functions, classes or methods a statement may call."""
    for each in ast.walk(node):
        function = each.func if isinstance(each, ast.Call) else None
        while isinstance(function, ast.Attribute):
            function = function.value
        if isinstance(function, ast.Name):
            yield function.id


def _loads(nodes: Iterable[ast.AST]) -> Counter[str]:
    found = {
        id(each): each.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    return Counter(found.values())


def _definitions(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for each in statements:
        if isinstance(each, syntax.DEFINITIONS):
            yield each
        else:
            for block in syntax.blocks(each):
                yield from _definitions(block)


def _all_calls(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that the statements of module level call, under conditions too."""
    for each in statements:
        if isinstance(each, syntax.DEFINITIONS) or (
            isinstance(each, ast.If) and syntax.is_main(each.test)
        ):
            continue
        inner = syntax.blocks(each)
        for block in inner:
            yield from _all_calls(block)
        if not inner:
            yield from own_names_called(each)
