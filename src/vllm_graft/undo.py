"""Taking patches back, together with the names that other modules took from them meanwhile."""

import sys
import types
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .landing import LANDINGS, Landing, own
from .sources import imports
from .target import MISSING, find


def take_back(landings: Sequence[Landing]) -> None:
    """Revert patches, the last first, and give every module the original that it would have.

    What landed on top of one of them must be among them.
    """
    for landing in reversed(landings):
        LANDINGS.revert(landing)
    gone = {id(value): landing for landing in landings for value in _takeable(landing)}
    if not gone:
        return
    for module in tuple(sys.modules.values()):
        for name, value in tuple(own(module).items()):
            if id(value) in gone:
                _follow(gone[id(value)], module, name)


def _takeable(landing: Landing) -> list[Any]:
    """Return what others may have taken from the target by name: a function or a class."""
    value = _function(landing.value)
    return [value] if isinstance(value, (types.FunctionType, type)) else []


def _follow(landing: Landing, module: ModuleType, name: str) -> None:
    """Bind a name to what its target is now."""
    target = landing.patch.target
    home = sys.modules.get(target.module)
    if home is None or (module is home and name == target.qualname):
        return
    of_author = isinstance(landing.value, type) or landing.patch.operation in ("set", "add")
    if of_author and imports(module).get(name) != target.module:
        return  # the patch author's own module has it by rights
    now = _function(find(home, target.qualname))
    if now is not MISSING:
        setattr(module, name, now)


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod) else value
