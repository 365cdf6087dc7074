"""Whether a vLLM has the fix already for which a patch exists."""

import inspect
from collections.abc import Callable
from typing import Any

from packaging.version import Version

from ..errors import DeclarationError
from ..patch import Patch
from ..target import Target, load
from .resolution import Resolution
from .source import Source


def fixed(patch: Patch, source: Source, target: Target, found: Resolution | None) -> str | None:
    """Say why a patch is no longer needed on a vLLM; None where it is, or where nothing tells.

    A version counts from that release on. A function is given the text of the target's definition,
    or that of the target's module if its parameter is named `module`; what is not there is an empty
    text. Raises `DeclarationError` where the function cannot be had or raises.
    """
    probe = patch.fixed_by
    if probe is None:
        return None
    if isinstance(probe, Version):
        version = source.version.version
        is_fixed = version is not None and version >= probe
        return f"vLLM has the fix since {probe}" if is_fixed else None
    try:
        function: Callable[[str], Any] = load(probe) if isinstance(probe, str) else probe
        answer = function(_asked(function, source, target, found))
    except Exception as error:
        raise DeclarationError(
            f"{patch.location}: fixed_by= of patch {patch.id!r} cannot tell whether vLLM "
            f"{source.title} has the fix: {type(error).__name__}: {error}. Give it a function of "
            "one text, the source of the target or of its `module`"
        ) from error
    return "its fixed_by= finds the fix in the source" if answer else None


def _asked(
    function: Callable[[str], Any], source: Source, target: Target, found: Resolution | None
) -> str:
    name = next(iter(inspect.signature(function).parameters), "")
    if name == "module":
        place = source.tree.locate(target.module)
        return source.tree.text(place) if place is not None else ""
    if found is None or not found.path:
        return ""
    from textwrap import dedent  # few patches have a probe

    return dedent(source.tree.lines(found.path, found.line, found.end_line))
