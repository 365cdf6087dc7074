"""Whether a module is still being executed, and a call when that has ended."""

from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType


def initializing(module: ModuleType) -> bool:
    """Tell whether importlib is executing a module."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def when_executed(module: ModuleType, callback: Callable[[], None]) -> bool:
    """Arrange a call at the end of a module's execution; return False where that has ended."""
    spec = getattr(module, "__spec__", None)
    if not initializing(module) or type(spec) is not ModuleSpec:
        return False
    vars(spec)["_graft_callback"] = callback
    spec.__class__ = _WatchedSpec
    if vars(spec)["_initializing"]:
        return True
    # Its thread has ended the execution meanwhile; whoever takes the callback makes the call.
    mine = vars(spec).pop("_graft_callback", None) is not None
    spec.__class__ = ModuleSpec
    return not mine


class _WatchedSpec(ModuleSpec):
    """The spec of a module under execution, which calls back when importlib marks its end.

    importlib sets `_initializing` to False as the last thing it does for a module, under the
    module's lock (importlib/_bootstrap.py, `_load_unlocked`); there is no public sign of it.
    """

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        if value:
            return
        callback = vars(self).pop("_graft_callback", None)
        self.__class__ = ModuleSpec  # type: ignore[assignment]  # what it was before
        try:
            if callback is not None:
                callback()
        finally:
            vars(self)["_initializing"] = False
