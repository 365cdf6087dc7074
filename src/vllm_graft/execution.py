"""Modules that are still being executed: a call when that has ended, their packages meanwhile."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


def initializing(module: ModuleType) -> bool:
    """Tell whether importlib is executing a module."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def when_executed(module: ModuleType, callback: Callable[[], None]) -> bool:
    """Arrange a call at the end of a module's execution; return False where that has ended."""
    spec = getattr(module, "__spec__", None)
    if not initializing(module) or type(spec) not in (ModuleSpec, _WatchedSpec):
        return False
    callbacks: list[Callable[[], None]] = vars(spec).setdefault(_CALLBACKS, [])
    callbacks.append(callback)
    spec.__class__ = _WatchedSpec
    if vars(spec)["_initializing"]:
        return True
    # Its thread has ended the execution meanwhile; whoever takes the callback makes the call.
    spec.__class__ = ModuleSpec
    try:
        callbacks.remove(callback)
    except ValueError:
        return True
    return False


_CALLBACKS = "_graft_callbacks"


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
        callbacks = vars(self).get(_CALLBACKS, [])
        try:
            while callbacks:  # one of them may add another
                callbacks.pop(0)()
        finally:
            vars(self).pop(_CALLBACKS, None)
            self.__class__ = ModuleSpec  # type: ignore[assignment]  # what it was before
            vars(self)["_initializing"] = False


@contextmanager
def bound_in_parent(module: ModuleType) -> Iterator[None]:
    """Let a module that is being imported be an attribute of its package already in a block.

    importlib does that last, and code in the block may say `package.module` as others do later.
    A block that fails takes it back.
    """
    package, _, name = module.__name__.rpartition(".")
    parent = sys.modules.get(package)
    if parent is None or not initializing(module) or name in vars(parent):
        yield
        return
    setattr(parent, name, module)
    try:
        yield
    except BaseException:
        if vars(parent).get(name) is module:
            delattr(parent, name)
        raise
