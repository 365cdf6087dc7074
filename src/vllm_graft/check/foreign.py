"""Targets in other packages than vLLM: they are at hand only beside the vLLM that is installed."""

from ..sources import exists
from ..target import Target, importable
from .resolution import Resolution
from .tree import Tree


def foreign(target: Target, tree: Tree) -> Resolution:
    """Return what can be said of a target outside vLLM, without importing its package."""
    package = target.module.partition(".")[0]
    if not tree.is_installed or not importable(package):
        return Resolution(target, "unknown", f"{package} is not part of these sources")
    if not importable(target.module):
        return Resolution(target, "missing", f"the {package} installed has no {target.module}")
    if not exists(target):
        reason = f"{target.module} as it is installed has no {target.qualname}"
        return Resolution(target, "missing", reason)
    return Resolution(
        target, "found", kind="outside" if target.qualname else "module", where=target
    )
