"""The text of the declarations, and the package around them."""

import textwrap
from collections.abc import Iterator

from .names import Names
from .package import common_files, filled, shared_values
from .translation import Translation

_WIDTH = 100

_HEAD = '''\
"""The patches of {distribution}, translated from {files}.

Every process of vLLM loads this before vLLM's first line: import neither vllm nor torch here. The
implementations are in {package}.impl, each imported when its target is.
"""

from vllm_graft import {imports}

patches = PatchSet("{patch_set}")
'''

_REST = """\
# What was not translated. Where it does something to vLLM, the copy still does it when imported.
"""


def declarations(done: Translation, names: Names) -> str:
    """Return the module that declares what old files become."""
    taken: set[str] = set()
    blocks = ["\n".join(each.lines(taken)) + "\n" for each in done.declarations]
    has_value = any(each.implementation.startswith("Value(") for each in done.declarations)
    head = _HEAD.format(
        distribution=names.distribution,
        files=", ".join(each.name for each in done.files),
        package=names.package,
        imports="PatchSet, Value" if has_value else "PatchSet",
        patch_set=names.patch_set,
    )
    if done.left:
        blocks.append(_REST + "\n".join(_comments(done)) + "\n")
    return "\n".join([head, *blocks])


def translated_files(done: Translation, names: Names) -> dict[str, str]:
    """Return the files of a package with what old files become, by their paths."""
    versions = sorted(filter(None, (each.version.version for each in done.sources)))
    values = shared_values(names, list(dict.fromkeys(map(str, versions))))
    more = filled(
        "translated.md",
        {
            "files": ", ".join(f"`{each.name}`" for each in done.files),
            "package": names.package,
            "rest": "What was not translated is listed at the end of\n`patches.py`."
            if done.left
            else "",
        },
    )
    test = filled("test_translated.py", {**values, "count": str(len(done.declarations))})
    return (
        common_files(names, values, more)
        | done.copies
        | {
            f"src/{names.package}/patches.py": declarations(done, names),
            f"src/{names.package}/impl/__init__.py": _IMPL,
            "tests/test_patches.py": test,
        }
    )


_IMPL = '"""Implementations: they may import vllm and torch, since they are imported late."""\n'


def _comments(done: Translation) -> Iterator[str]:
    for line in done.left:
        yield from textwrap.wrap(
            line,
            _WIDTH,
            initial_indent="# - ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
