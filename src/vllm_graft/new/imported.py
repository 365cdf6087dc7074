"""What the names of an old file stand for, by its imports, without importing anything."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

OWN = "."
"""What the path of something begins with that the file's own package provides."""


@dataclass(frozen=True)
class Choice:
    """One of the paths that an expression may stand for.

    `base` is the part of it that has to be there for the file to take it, `vllm` the versions for
    which the file takes it, empty where it tries one after the other.
    """

    path: str
    base: str
    vllm: str = ""


@dataclass
class Imported:
    """Names of a scope, each with the dotted path of what it stands for.

    `choices` has the names that stand for one of several paths, in the order of the file; the
    first is in `paths`, too. `modules` are the paths that an import statement takes for modules.
    `package` is what relative imports start from, empty where the file is in no package. What is
    `derived` is made of these paths in a way that is only known at run time. `stars` are the
    modules of which everything is imported, with the names that `star` says they have.
    """

    package: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    derived: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stars: dict[str, frozenset[str]] = field(default_factory=dict)
    star: Callable[[str], frozenset[str]] = lambda module: frozenset()
    choices: dict[str, tuple[Choice, ...]] = field(default_factory=dict)

    def inner(self, *hidden: str) -> "Imported":
        """Return the names of a scope inside, where `hidden` ones stand for something else."""
        kept = {name: path for name, path in self.paths.items() if name not in hidden}
        derived = {name: paths for name, paths in self.derived.items() if name not in hidden}
        choices = {name: each for name, each in self.choices.items() if name not in hidden}
        return Imported(self.package, kept, self.modules, derived, self.stars, self.star, choices)

    def forget(self, name: str) -> None:
        """Take note that a name stands for something of the file's own from here on."""
        self.paths.pop(name, None)
        self.derived.pop(name, None)
        self.choices.pop(name, None)

    def bind(self, name: str, choices: "tuple[Choice, ...]") -> None:
        """Take note of what a name stands for, one path or one of several."""
        self.forget(name)
        self.paths[name] = choices[0].path
        if len(choices) > 1 or choices[0].vllm:
            self.choices[name] = choices

    def assign(self, name: str, value: ast.AST | None) -> str | None:
        """Take note of what a name is assigned; return its path where others provide that."""
        if isinstance(value, ast.expr):
            path = self.foreign(value)
            if path is not None:
                self.bind(name, self.choices_of(value))
                return path
            self.derive(name, value)
        else:
            self.forget(name)
        return None

    def derive(self, name: str, value: ast.AST) -> None:
        """Take note that a name stands for something that is made of what a value mentions."""
        self.forget(name)
        paths = dict.fromkeys((*self.mentioned(value), *quoted(value)))
        for node in ast.walk(value):
            if isinstance(node, ast.Name):
                paths.update(dict.fromkeys(self.derived.get(node.id, ())))
        if paths:
            self.derived[name] = tuple(paths)

    def origin(self, expression: ast.expr) -> str | None:
        """Return the first path that a derived object is made of; None for other expressions."""
        while isinstance(expression, (ast.Attribute, ast.Subscript)):
            expression = expression.value
        name = expression.id if isinstance(expression, ast.Name) else ""
        return next(iter(self.derived.get(name, ())), None)

    def read(self, statement: "ast.Import | ast.ImportFrom") -> None:
        """Take note of what an import statement binds."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                self._note_modules(alias.name)
                top = alias.name.partition(".")[0]
                self._bind_import(alias.asname or top, alias.name if alias.asname else top)
            return
        base = self.base(statement)
        self._note_modules(base)
        for alias in statement.names:
            if alias.name == "*":
                self.stars[base] = self.star(base)
                for name in self.stars[base]:
                    self._bind_import(name, f"{base}.{name}")
            else:
                self._bind_import(alias.asname or alias.name, f"{base}.{alias.name}")

    def _bind_import(self, name: str, path: str) -> None:
        self.bind(name, (Choice(path, path),))

    def base(self, statement: ast.ImportFrom) -> str:
        """Return the module that names are imported from."""
        if not statement.level:
            return statement.module or ""
        parts = self.package.split(".") if self.package else []
        known = parts[: len(parts) - statement.level + 1]
        if not known:
            return f"{OWN}{statement.module or ''}"
        return ".".join([*known, *filter(None, [statement.module])])

    def path(self, expression: ast.expr) -> str | None:
        """Return the dotted path that an expression stands for, where imports tell it."""
        if isinstance(expression, ast.Name):
            return self.paths.get(expression.id)
        if isinstance(expression, ast.Attribute):
            before = self.path(expression.value)
            return before and f"{before}.{expression.attr}"
        if isinstance(expression, ast.Call):
            return self._called(expression)
        if isinstance(expression, ast.Subscript):
            name = constant(expression.slice)
            return self._module(name) if self.path(expression.value) == "sys.modules" else None
        return None

    def choices_of(self, expression: ast.expr) -> tuple[Choice, ...]:
        """Return all the paths that an expression may stand for, `path` first; none without one."""
        path, name = self.path(expression), _root(expression)
        if path is None:
            return ()
        found = self.choices.get(name)
        if found is None:
            return (Choice(path, self.paths.get(name, path)),)
        return tuple(replace(each, path=self._path_by(name, each, expression)) for each in found)

    def _path_by(self, name: str, choice: Choice, expression: ast.expr) -> str:
        other = self.inner()
        other.paths[name] = choice.path
        return other.path(expression) or choice.path

    def foreign(self, expression: ast.expr) -> str | None:
        """Return the path of what others provide: not the file's package, nor Python itself."""
        path = self.path(expression)
        return path if path is not None and self.is_foreign(path) else None

    def is_foreign(self, path: str) -> bool:
        """Tell whether a path leads to what others provide."""
        top = path.partition(".")[0]
        own = self.package.partition(".")[0]
        return bool(top) and top != own and top not in sys.stdlib_module_names

    def mentioned(self, node: ast.AST) -> Iterator[str]:
        """Yield the foreign paths that appear anywhere in a piece of code, the whole ones only."""
        if isinstance(node, ast.expr):
            path = self.foreign(node)
            if path is not None:
                yield path
                return
        for child in ast.iter_child_nodes(node):
            yield from self.mentioned(child)

    def _called(self, call: ast.Call) -> str | None:
        """Follow `getattr(x, "name")` and `importlib.import_module("name")`."""
        constants = [constant(each) for each in call.args]
        if isinstance(call.func, ast.Name) and call.func.id == "getattr" and len(constants) == 2:
            before = self.path(call.args[0])
            return f"{before}.{constants[1]}" if before and constants[1] else None
        if self.path(call.func) == "importlib.import_module" and constants:
            return self._module(constants[0])
        return None

    def _module(self, name: str | None) -> str | None:
        if name is not None:
            self._note_modules(name)
        return name

    def _note_modules(self, name: str) -> None:
        parts = name.split(".")
        self.modules.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _root(expression: ast.expr) -> str:
    """Return the name whose path the path of an expression begins with; empty where none."""
    while not isinstance(expression, ast.Name):
        if isinstance(expression, ast.Attribute):
            expression = expression.value
        elif isinstance(expression, ast.Call) and expression.args:
            expression = expression.args[0]  # of `getattr`
        else:
            return ""
    return expression.id


def quoted(node: ast.AST) -> Iterator[str]:
    """Yield the dotted paths of vLLM that are written as strings."""
    for each in ast.walk(node):
        text = constant(each)
        if text is not None and text.startswith("vllm."):
            yield text


def constant(node: ast.AST) -> str | None:
    """Return the string that an expression is; None for others."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def package_of(path: Path) -> str:
    """Return the package that a file is in, by the `__init__.py` of the folders above it."""
    names: list[str] = []
    folder = path.resolve().parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def known_module(path: str, modules: Iterable[str]) -> str:
    """Return the longest part of a path that an import statement takes for a module."""
    known = set(modules)
    return next((each for each in _prefixes(path) if each in known), path.partition(".")[0])


def _prefixes(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]
