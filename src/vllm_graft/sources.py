"""What a module's source defines, read without importing it."""

import ast
import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from .target import MISSING, Target, find, spec_of

Definition = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Assign
    | ast.AnnAssign
    | ast.Import
    | ast.ImportFrom
)

_REFERENCES = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def exists(target: Target) -> bool:
    """Tell whether a target exists, from the module where it is imported, else from its source.

    A name that the source only makes at run time counts as there if it stands in it as a string,
    as in the tables of a module's lazy `__getattr__`.
    """
    module = sys.modules.get(target.module)
    if module is not None and find(module, target.qualname) is not MISSING:
        return True
    tree = parsed(target.module)
    return tree is not None and _defines(target, tree, frozenset())


def definition(body: ast.AST, name: str) -> Definition | None:
    """Return the last statement of a module's or class's body that binds a name."""
    found = None
    for node in _statements(body):
        if name in _bound(node):
            found = node
    return found


@functools.lru_cache(maxsize=64)
def parsed(module: str) -> ast.Module | None:
    """Return the syntax tree of a module; None where there is no source to read."""
    spec = spec_of(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    try:
        return ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def origin_of(module: str, name: str) -> str | None:
    """Return the module from which a module's source imports a name; None where it does not."""
    tree = parsed(module)
    found = definition(tree, name) if tree is not None else None
    if not isinstance(found, ast.ImportFrom):
        return None
    spec = spec_of(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return _origin(found, module if is_package else module.rpartition(".")[0])


def bases(target: Target) -> Iterator[Target]:
    """Yield where the bases of a class are defined, as far as sources say it."""
    found = _class_at(target)
    if found is None:
        return
    home, node = found
    for base in node.bases:
        written = Target(home.module, ast.unparse(base).partition("[")[0])
        there = _class_at(_through_module(written))
        if there is not None:
            yield there[0]


def _class_at(target: Target) -> tuple[Target, ast.ClassDef] | None:
    """Return a class's definition and where it is, following `from` imports of its name."""
    seen = set()
    while target not in seen:
        seen.add(target)
        tree = parsed(target.module)
        node: ast.AST | None = tree
        for part in target.qualname.split("."):
            node = definition(node, part) if node is not None else None
        if isinstance(node, ast.ClassDef):
            return target, node
        if not isinstance(node, ast.ImportFrom):
            return None
        imported = _imported(node, target.name, target.module)
        if imported is None:
            return None
        target = imported
    return None


def _imported(node: ast.ImportFrom, name: str, module: str) -> Target | None:
    origin = _origin(node, _package(module))
    there = next((each.name for each in node.names if (each.asname or each.name) == name), None)
    return Target(origin, there) if origin and there else None


def _through_module(target: Target) -> Target:
    """Return the target in the module that `module.Class` names, where `module` is imported."""
    first, *rest = target.qualname.split(".")
    tree = parsed(target.module)
    node = definition(tree, first) if tree is not None and rest else None
    if isinstance(node, ast.Import):
        alias = next(
            each for each in node.names if first == (each.asname or each.name.partition(".")[0])
        )
        path = alias.name.split(".") if alias.asname else [first, *rest[:-1]]
        return Target(".".join(path), rest[-1])
    if isinstance(node, ast.ImportFrom):
        imported = _imported(node, first, target.module)
        if imported is not None:
            return Target(".".join((imported.module, imported.qualname, *rest[:-1])), rest[-1])
    return target


def has_main_guard(module: str) -> bool:
    """Tell whether a module is meant to be run as a program too: `if __name__ == "__main__"`."""
    tree = parsed(module)
    return tree is not None and any(
        isinstance(node, ast.If) and "__main__" in ast.dump(node.test) for node in tree.body
    )


def imports(module: ModuleType) -> dict[str, str]:
    """Return for the names that the `from` statements of a module bind where they come from."""
    tree = parsed(module.__name__)
    nodes = ast.walk(tree) if tree is not None else ()
    package = getattr(module, "__package__", None) or ""
    return {
        alias.asname or alias.name: origin
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (origin := _origin(node, package))
        for alias in node.names
    }


def _defines(target: Target, tree: ast.Module, seen: frozenset[Target]) -> bool:
    if target in seen:
        return False
    seen |= {target}
    body: ast.AST = tree
    *parents, name = target.qualname.split(".")
    for parent in parents:
        found = definition(body, parent)
        if not isinstance(found, ast.ClassDef):
            return isinstance(found, _REFERENCES)  # what it has is not in this file
        body = found
    if definition(body, name) is not None:
        return True
    if isinstance(body, ast.ClassDef):
        return any(_in_base(target, base, tree, seen) for base in body.bases)
    return _lazily(tree, name) or any(
        _elsewhere(Target(origin, name), seen) for origin in _starred(target.module, tree)
    )


def _in_base(target: Target, base: ast.expr, tree: ast.Module, seen: frozenset[Target]) -> bool:
    name = ast.unparse(base).partition("[")[0]
    found = definition(tree, name)
    if isinstance(found, ast.ClassDef):
        return _defines(Target(target.module, f"{name}.{target.name}"), tree, seen)
    if isinstance(found, ast.ImportFrom):
        there = _imported(found, name, target.module)
        if there is not None:
            return _elsewhere(Target(there.module, f"{there.qualname}.{target.name}"), seen)
    return False


def _elsewhere(target: Target, seen: frozenset[Target]) -> bool:
    tree = parsed(target.module)
    return tree is not None and _defines(target, tree, seen)


def _lazily(tree: ast.Module, name: str) -> bool:
    return definition(tree, "__getattr__") is not None and any(
        isinstance(node, ast.Constant) and node.value == name for node in ast.walk(tree)
    )


def _starred(module: str, tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            origin = _origin(node, _package(module))
            if origin:
                yield origin


def _package(module: str) -> str:
    spec = spec_of(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return module if is_package else module.rpartition(".")[0]


def _origin(node: ast.ImportFrom, package: str) -> str | None:
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return None


def _statements(body: ast.AST) -> Iterator[Definition]:
    """Yield the statements of a body that bind names, those under conditions included."""
    for node in ast.iter_child_nodes(body):
        if isinstance(node, Definition):
            yield node
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _statements(node)


def _bound(node: Definition) -> set[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = (each for target in targets for each in ast.walk(target))
        # Not the object in an assignment to an attribute or item, which is only read.
        return {
            each.id
            for each in names
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
    return {node.name}
