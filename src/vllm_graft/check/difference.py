"""How the definition of a target differs between two vLLMs: as a diff of its source."""

import difflib
import re
from dataclasses import dataclass
from textwrap import dedent

from ..target import Target
from .cache import CachedResolver
from .resolve import Resolver
from .tree import Tree

_HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")
_AROUND = 3
"""Lines around what differs."""


@dataclass(frozen=True)
class _Definition:
    """The text of a definition in one vLLM, dedented, and where it is."""

    lines: tuple[str, ...]
    name: str
    first: int = 1


def difference(
    old: Tree | CachedResolver, old_target: Target, new: Tree | CachedResolver, new_target: Target
) -> str:
    """Return a unified diff of a target's definition, its decorators included.

    Only what differs is shown, with a few lines around it. Line numbers are those of
    the files. What is not there is an empty text; the diff is empty where nothing differs.
    """
    before, after = _defined(old, old_target), _defined(new, new_target)
    found = difflib.unified_diff(
        before.lines,
        after.lines,
        _header("a", before),
        _header("b", after),
        n=_AROUND,
        lineterm="",
    )
    return "".join(f"{_moved(each, before, after)}\n" for each in found)


def _header(side: str, defined: _Definition) -> str:
    return f"{side}/{defined.name}" if defined.lines else f"/dev/null {defined.name}"


def _moved(line: str, before: _Definition, after: _Definition) -> str:
    """Count the lines of a hunk from the beginning of the file."""
    hunk = _HUNK.fullmatch(line)
    if hunk is None:
        return line
    start = int(hunk[1]) + max(before.first - 1, 0), int(hunk[3]) + max(after.first - 1, 0)
    return f"@@ -{start[0]}{hunk[2] or ''} +{start[1]}{hunk[4] or ''} @@"


def _defined(source: Tree | CachedResolver, target: Target) -> _Definition:
    if isinstance(source, CachedResolver):
        resolver, version = source.resolver, source.version
    else:
        resolver, version = Resolver(source), source.version
    title = f"(vLLM {version.version or version.text})"
    found = resolver.resolve(target)
    if not found.path:
        return _Definition((), f"{target} {title}")
    node = found.node
    first, last = found.line, found.end_line
    place = resolver.tree.locate(found.where.module) if found.where else None
    text = resolver.tree.text(place) if place is not None else ""
    lines = text.split("\n")
    if node is None:  # a module
        first, last = 1, len(lines)
    for decorator in getattr(node, "decorator_list", ()):
        first = min(first, decorator.lineno)
    shown = dedent("\n".join(lines[first - 1 : last])).split("\n")
    name = f"{found.path}:{first} {title}"
    return _Definition(tuple(shown), name, first)
