"""Where an assignment of an old file belongs in one vLLM, and by which operation."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..check import describe
from ..check.resolution import Move, Resolution
from ..check.source import Source
from ..check.tree import PACKAGE
from ..patch import Operation
from ..target import Target
from .imported import Choice
from .old_file import Assignment, Given

_FUNCTIONS = ("function", "method", "staticmethod", "classmethod", "property")
_TRANSPARENT = frozenset({"wraps", "inference_mode", "no_grad", "contextmanager", "override"})
"""Decorators that leave a plain function."""


@dataclass(frozen=True)
class Place:
    """Where an assignment belongs in one vLLM.

    `named` is the target that the file names, `choice` by which of its paths, and `target` the one
    to patch. `definition` is where a
    name is defined that the named module only has from elsewhere. `problem` says why the
    operation cannot land there.
    """

    source: Source
    named: Target
    target: Target
    operation: Operation
    kind: str | None = None
    definition: Target | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
    choice: Choice | None = None


def target_of(path: str, module: str, sources: "tuple[Source, ...] | list[Source]") -> Target:
    """Split a dotted path where its module ends: as some vLLM has it, or as the file imports it.

    The target has no qualified name where the path is a module itself.
    """
    prefix = path if path.partition(".")[0] == PACKAGE else ""
    while prefix and not any(source.tree.locate(prefix) for source in sources):
        prefix = prefix.rpartition(".")[0]
    module = max(prefix, module, key=len)
    return Target(module, path[len(module) + 1 :])


def place(assignment: Assignment, named: Target, source: Source, *, calls_original: bool) -> Place:
    """Return where an assignment belongs in one vLLM; raise `SourceError` where that is broken.

    `calls_original` tells that the file reads what it replaces, so that it must exist.
    """
    if named.module.partition(".")[0] != PACKAGE:
        return Place(source, named, named, "set", notes=("it is outside of vLLM: not checked",))
    target = _through_class(named, source)
    resolution = source.resolver.resolve(target)
    if resolution.state == "missing":
        return _missing(assignment, named, target, source, resolution, calls_original)
    definition = _defined_elsewhere(target, resolution)
    if resolution.is_lazy and definition is None:
        note = f"{target.module} gives it by its __getattr__, which `add` comes before"
        return Place(source, named, target, "add", notes=(note,))
    if resolution.state == "unknown":
        return Place(source, named, target, "set", notes=(f"not certain: {resolution.reason}",))
    if resolution.is_lazy and definition is not None:
        target = definition
    operation = fitting(assignment.given, resolution, source)
    notes = tuple(_why_set(operation, assignment.given, resolution))
    return Place(source, named, target, operation, resolution.kind, definition, notes=notes)


def fitting(given: Given, found: Resolution, source: Source) -> Operation:
    """Return the operation that does to what is there what the assignment did.

    `replace` keeps what kind of method the target is, so it is only the same for a function of the
    same kind. Everything else is `set`, which puts the very object there.
    """
    if found.kind == "class":
        return "replace" if _is_class(given) else "set"
    if found.kind not in _FUNCTIONS or not _is_function(given):
        return "set"
    kind = found.kind if found.kind in ("staticmethod", "classmethod", "property") else ""
    if kind != given.descriptor:
        return "set"
    return "set" if kind == "property" and not _is_plain_property(found, source) else "replace"


def _why_set(operation: Operation, given: Given, found: Resolution) -> Iterator[str]:
    if operation == "set" and given.kind in ("function", "class"):
        given_kind = given.descriptor or given.kind
        yield (
            f"`set`, since the target is a {found.kind} and the file puts a {given_kind} there: "
            "`replace` would keep its kind, or needs an undecorated function"
        )


def _through_class(named: Target, source: Source) -> Target:
    """Name a member by the class that it is looked up in, wherever that has been imported from."""
    if not named.parent:
        return named
    parent = source.resolver.resolve(Target(named.module, named.parent))
    if parent.state != "found" or parent.kind != "class" or parent.where is None:
        return named
    return Target(parent.where.module, f"{parent.where.qualname}.{named.name}")


def _defined_elsewhere(target: Target, resolution: Resolution) -> Target | None:
    where = resolution.where
    if target.parent or where is None or not resolution.path or where.module == target.module:
        return None
    return where


def _missing(
    assignment: Assignment,
    named: Target,
    target: Target,
    source: Source,
    resolution: Resolution,
    calls_original: bool,
) -> Place:
    moves = [each for each in source.resolver.moves(target) if each.is_likely]
    parent = source.resolver.resolve(Target(target.module, target.parent))
    has_parent = parent.state == "found" and parent.kind in ("class", "module")
    if has_parent and not moves and not calls_original:
        note = (
            f"vLLM {source.version.version} has no such name, hence `add`; the file may have been "
            "written for one that had it"
        )
        return Place(source, named, target, "add", notes=(note,))
    operation = as_written(assignment.given)
    problem = resolution.reason + "".join(map(_likely, moves[:1]))
    return Place(source, named, target, operation, problem=problem)


def _likely(move: Move) -> str:
    return f"; it may be {str(move.target)!r} now"


def as_written(given: Given) -> Operation:
    return "replace" if _is_function(given) or _is_class(given) else "set"


def _is_function(given: Given) -> bool:
    if isinstance(given.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set(describe.decorators(given.node)) <= _TRANSPARENT
    if given.kind == "value":  # imported by the file: by the convention for names
        return not given.descriptor and given.name.lower() == given.name
    return isinstance(given.node, ast.Lambda)


def _is_class(given: Given) -> bool:
    if given.kind == "value":
        return given.name[:1].isupper() and given.name.upper() != given.name
    return given.kind == "class"


def _is_plain_property(found: Resolution, source: Source) -> bool:
    """Tell whether a property can be read only, and is no cached one."""
    node = found.node or source.resolver.resolver.resolve(found.target).node
    if describe.decorators(node) != ["property"] or found.where is None:
        return False
    text = source.tree.read(found.path).decode(errors="replace")
    name = found.where.name
    return f"@{name}.setter" not in text and f"@{name}.deleter" not in text
