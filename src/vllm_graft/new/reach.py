"""Who else has a name: whether a patch at its definition reaches more than one elsewhere."""

import re
from collections.abc import Collection
from functools import lru_cache

from ..check.tree import Tree
from ..target import Target


def others(tree: Tree, definition: Target, patched: Collection[str]) -> list[str]:
    """Return the modules besides those patched that mention the name of a definition.

    Its own module counts if it uses the name itself. A mention need not be a use; so an answer of
    none is certain, and others are not.
    """
    name = definition.name.encode()
    word = re.compile(rb"\b" + re.escape(name) + rb"\b")
    return sorted(
        module
        for module, text in _texts(tree)
        if name in text
        and module not in patched
        and len(word.findall(text)) > (module == definition.module)
    )


@lru_cache(maxsize=1)  # of the tree that names are asked about one after the other: 40 MB
def _texts(tree: Tree) -> list[tuple[str, bytes]]:
    """Return the sources of all modules."""
    return [
        (path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), tree.read(path))
        for path in tree.files()
    ]
