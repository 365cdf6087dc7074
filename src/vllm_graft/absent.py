"""What to say where a target does not exist: what is missing, and where it may be found."""

import importlib.util
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from .errors import TargetNotFoundError
from .landing import own
from .patch import Patch
from .target import MISSING, Target, find, importable, is_lazy


def not_found(patch: Patch, module: ModuleType) -> TargetNotFoundError:
    """Return the error for a target that is not in its module, with the part that is missing."""
    target = patch.target
    namespace, path, missing = _end(target, module)
    part = missing[0]
    if namespace is module and hasattr(module, "__getattr__"):
        hint = _lazy_hint(module, missing)
    else:
        close = get_close_matches(part, _alike(namespace, part), 1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        hint += "Name the place that it has in this version, or narrow the versions of the patch"
    several = ", and none of the other candidates exists" if len(patch.candidates) > 1 else ""
    return TargetNotFoundError(f"{target} does not exist: {path} has no {part!r}{several}. {hint}")


def _end(target: Target, module: ModuleType) -> tuple[Any, str, list[str]]:
    """Return the last namespace on the way to a target, its path, and the names from there on."""
    namespace: Any = module
    path = target.module
    parts = target.qualname.split(".")
    while len(parts) > 1 and (found := find(namespace, parts[0])) is not MISSING:
        namespace, path = found, f"{path}.{parts.pop(0)}"
    return namespace, path, parts


def _alike(namespace: Any, part: str) -> list[str]:
    """Return the names of a namespace that a name may have been meant to be."""
    special = part.startswith("__")
    return [name for name in dir(namespace) if special or not name.startswith("__")]


def _lazy_hint(module: ModuleType, missing: list[str]) -> str:
    """Say where a module takes a name from that it provides by its `__getattr__`."""
    part, path = missing[0], module.__name__
    variables = own(module).get("environment_variables")  # as vllm/envs.py has it
    if isinstance(variables, dict) and part in variables:
        return (
            f"{path} computes it at each access: use `run` on {path!r} and change "
            f"environment_variables[{part!r}] there"
        )
    home = _home(module, part)
    if home is None:
        return f"If {path} provides it lazily, name the module that defines it"
    return f"{path} provides it lazily: name '{'.'.join([str(home), *missing[1:]])}'"


def _home(module: ModuleType, name: str) -> Target | None:
    """Return what defines a name, by a table of the module, as vllm/__init__.py has one."""
    for table in own(module).values():
        if type(table) is dict and name in table:
            home = _reference(table[name], module, name)
            if home is not None:
                return home
    return None


def _reference(value: object, module: ModuleType, name: str) -> Target | None:
    """Read `"module:name"`, `"module"` or `("module", "name")`; None where there is no such."""
    parts = value.split(":") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not parts:
        return None
    if not all(isinstance(each, str) for each in parts):
        return None
    try:
        home = importlib.util.resolve_name(parts[0], module.__package__)
    except ImportError:  # relative to what is no package
        return None
    text = f"{home}:{parts[1] if len(parts) > 1 else name}"
    return Target.parse(text) if is_lazy(text) and importable(home) else None
