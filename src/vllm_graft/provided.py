"""Names that a module provides through its `__getattr__`, as `vllm` does with `LLM`."""

import importlib.util
import re
from pathlib import Path

from .errors import SourceError
from .target import Target, spec_of
from .version import package_folder


def provided_by(target: Target) -> Target:
    """Return where a target is that its module only provides lazily; any other as it is.

    A patch has to land there: the module would have to be asked for the name, and so import what
    vLLM has not imported yet. Nothing is imported here either.
    """
    if not target.qualname or not _may_be_provided(target):
        return target
    from .check.resolve import Resolver  # takes longer than the rest of a plan
    from .check.tree import FolderTree

    folder = package_folder()
    if folder is None:
        return target
    try:
        found = Resolver(FolderTree(folder.parent)).resolve(target)
    except SourceError:
        return target
    through_instance = any(step.startswith("through ") for step in found.steps)
    known = found.is_lazy and found.path and not through_instance
    return found.where if known and found.where else target


def addition_to(target: Target) -> Target:
    """Return where a name can be added that is to be one of a class that is provided lazily."""
    parent = provided_by(Target(target.module, target.parent))
    return Target(parent.module, f"{parent.qualname}.{target.name}".lstrip("."))


def _may_be_provided(target: Target) -> bool:
    """Tell from its text whether a module has a `__getattr__`, and does not define the name."""
    spec = spec_of(target.module) if target.module.partition(".")[0] == "vllm" else None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return False
    try:
        text = importlib.util.decode_source(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False
    name = target.qualname.partition(".")[0]
    defined = rf"^(?:(?:async )?def|class) {name}\b|^{name}\s*[:=]"
    return "def __getattr__" in text and re.search(defined, text, re.MULTILINE) is None
