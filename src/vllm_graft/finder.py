"""Finds the modules that have a hook, so that it fires when they have been executed."""

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import wrapt

from .boot import LoaderInFront, search

if TYPE_CHECKING:
    from .module_hook import ModuleHook


class HookFinder:
    """Finds the modules that have a hook, in front of wrapt's own finder.

    wrapt's finder calls `importlib.util.find_spec` under importlib's lock. While another thread
    imports the parent package, each of the two waits for what the other holds.
    """

    def __init__(self) -> None:
        self.hooks: dict[str, ModuleHook] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for modules with a hook what the other finders do."""
        if name not in self.hooks:
            return None
        return search(name, path, self._is_ours, lambda loader: self.in_front(name, loader))

    def in_front(self, name: str, loader: Any) -> Any:
        """Return a loader that fires the hook of a module, or the given one if there is none."""
        hook = self.hooks.get(name)
        return loader if hook is None else _HookLoader(loader, hook)

    def _is_ours(self, finder: object) -> bool:
        return (
            finder is self or type(finder).__module__ == wrapt.register_post_import_hook.__module__
        )


class _HookLoader(LoaderInFront):
    """The loader of a module that has a hook."""

    def __init__(self, loader: Any, hook: "ModuleHook") -> None:
        super().__init__(loader)
        self._hook = hook

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and let wrapt call the hooks that it has for it."""
        self._hook.before_execution()
        super().exec_module(module)
        wrapt.notify_module_loaded(module)

    def get_code(self, name: str) -> Any:
        """Return the module's code, to somebody who runs it without importing it (runpy)."""
        self._hook.out_of_reach()
        return self._loader.get_code(name)


FINDER = HookFinder()
