"""Which modules a vLLM imports when it imports one, told from its sources."""

import re
from collections.abc import Iterator

from ..check.tree import PACKAGE, Tree

_IMPORT = re.compile(
    r"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
"""An import in the first column: what is indented may never be executed."""


class ImportOrder:
    """What the modules of one vLLM import, directly or through others."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._direct: dict[str, set[str]] = {}
        self._all: dict[str, set[str]] = {}

    def imported_by(self, module: str) -> set[str]:
        """Return all modules that have been asked for once a module is executed."""
        if module not in self._all:
            seen: set[str] = set()
            waiting = [module]
            while waiting:
                new = self._directly(waiting.pop()) - seen
                seen |= new
                waiting += new
            self._all[module] = seen
        return self._all[module]

    def is_complete(self, module: str, once: str) -> bool:
        """Tell whether a module is executed for certain once another one is."""
        if module == once:
            return True
        return module in self.imported_by(once) and once not in self.imported_by(module)

    def last(self, modules: list[str]) -> list[str]:
        """Return the modules that no other one of them imports, in whose imports all others are.

        Of several that import each other it is the first.
        """
        found: list[str] = []
        for module in modules:
            others = [each for each in modules if each != module]
            if not any(
                module in self.imported_by(other)
                and (other not in self.imported_by(module) or other in found)
                for other in others
            ):
                found.append(module)
        return found

    def module_of(self, path: str) -> str:
        """Return the longest part of a dotted path that is a module."""
        while "." in path and not self._tree.locate(path):
            path = path.rpartition(".")[0]
        return path

    def _directly(self, module: str) -> set[str]:
        if module not in self._direct:
            parents = set(_parents(module))
            self._direct[module] = parents | {
                each for path in self._named(module) for each in (path, *_parents(path))
            } - {module}
        return self._direct[module]

    def _named(self, module: str) -> Iterator[str]:
        place = self._tree.locate(module)
        if place is None or place.kind in ("folder", "compiled"):
            return
        text = self._tree.read(place.path).decode(errors="replace")
        for base, names, plain in _IMPORT.findall(text):
            for path in _paths(base, names, plain, place.package):
                if path.partition(".")[0] == PACKAGE:
                    yield self.module_of(path)


def _paths(base: str, names: str, plain: str, package: str) -> Iterator[str]:
    if plain:
        yield from _names(plain)
        return
    level = len(base) - len(base.lstrip("."))
    if level:
        before = package.split(".")
        base = ".".join([*before[: len(before) - level + 1], *filter(None, [base[level:]])])
    yield from (f"{base}.{name}" for name in _names(names))


def _names(text: str) -> list[str]:
    without_comments = re.sub(r"#[^\n]*", "", text).strip("() \t\n")
    return [each.split()[0] for each in without_comments.split(",") if each.split()]


def _parents(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module
