"""Who else has a name: whether a patch at its definition reaches more than one elsewhere."""

import re
from collections.abc import Collection

from ..check.tree import Tree
from ..target import Target


def others(tree: Tree, definition: Target, patched: Collection[str]) -> list[str]:
    """Return the modules besides those patched that mention the name of a definition.

    Its own module counts if it uses the name itself. A mention need not be a use; so an answer of
    none is certain, and others are not.
    """
    word = re.compile(rb"\b" + re.escape(definition.name.encode()) + rb"\b")
    found = []
    for path in tree.files():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module in patched:
            continue
        mentions = len(word.findall(tree.read(path)))
        if mentions > (module == definition.module):
            found.append(module)
    return sorted(found)
