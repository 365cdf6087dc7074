"""Brings a plan into effect: one wrapt post-import hook for each module that it patches."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import wrapt

from .apply import apply
from .boot import LoaderInFront, search
from .errors import ApplyError, TargetNotFoundError
from .journal import LOGGER, Journal
from .patch import Patch
from .plan import Plan, is_required
from .process import PROCESS
from .settings import Settings
from .target import Target, find, importable
from .version import VllmVersion


def arm(plan: Plan, settings: Settings, journal: Journal) -> None:
    """Register a hook for every module of the plan.

    A hook fires when its module has been imported; for one that is imported already, at once.
    Raises `ApplyError` where a required patch cannot land: its module is not in this vLLM, or is
    imported already and does not take it.
    """
    by_module: dict[str, list[Patch]] = {}
    for patch in plan.armed:
        by_module.setdefault(patch.target.module, []).append(patch)
    hooks = [
        ModuleHook(module, patches, plan.vllm, settings, journal)
        for module, patches in by_module.items()
    ]
    present = [hook for hook in hooks if hook.check_module()]
    for hook in present:
        FINDER.hooks[hook.name] = hook
        PROCESS.watch(hook.role_gained)
        hook.register()
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)


class ModuleHook:
    """Applies the patches of one module, in their declared order, each time it is executed."""

    def __init__(
        self,
        name: str,
        patches: Iterable[Patch],
        vllm: VllmVersion,
        settings: Settings,
        journal: Journal,
    ) -> None:
        self.name = name
        self._patches = tuple(patches)
        self._vllm = vllm
        self._settings = settings
        self._journal = journal
        self._registering = False
        self._registered = False
        self._waiting: list[Patch] = []
        self._landed: dict[Target, object] = {}
        self._done: set[str] = set()

    def check_module(self) -> bool:
        """Tell whether the module can be imported; raise where that fails a required patch.

        Only vLLM's modules are looked for: other packages make some of theirs at run time.
        """
        if self.name.partition(".")[0] != "vllm" or self.name in sys.modules:
            return True
        if importable(self.name):
            return True
        for patch in self._patches:
            error = TargetNotFoundError(
                f"this vLLM has no module {self.name!r}. Name the module that has taken its "
                "place, or narrow the versions of the patch"
            )
            self._fail(patch, error)
        return False

    def register(self) -> None:
        """Hand the hook to wrapt, which calls it at once where the module is there already."""
        for patch in self._patches:
            self._journal.event("arm", patch)
        self._register()

    def role_gained(self, _role: str) -> None:
        """Apply what waited for a role of this process."""
        module = sys.modules.get(self.name)
        if self._waiting and module is not None:
            self._apply(tuple(self._waiting), module)

    def _register(self) -> None:
        self._registering = self._registered = True
        try:
            wrapt.register_post_import_hook(self, self.name)
        finally:
            self._registering = False

    def __call__(self, module: ModuleType) -> None:
        """Apply the patches to the module; wrapt calls this when it has been executed."""
        self._registered = False
        if self._registering and _when_executed(module, self._executed):
            return
        self._fire(module)

    def before_execution(self) -> None:
        """Register again where wrapt has called and so dropped the hook: a new import, a reload.

        wrapt calls a hook at once whose module it finds. The thread that imports a module has its
        lock, so nobody misses the module meanwhile.
        """
        if self._registered:
            return
        module = sys.modules.pop(self.name, None)
        self._register()
        if module is not None:
            sys.modules[self.name] = module

    def _executed(self) -> None:
        module = sys.modules.get(self.name)
        if module is not None:  # else its execution failed
            self._fire(module)

    def _fire(self, module: ModuleType) -> None:
        # A lazy module may have put another object in its place while it was executed.
        module = sys.modules.get(self.name, module)
        self._journal.event("fire", module=self.name)
        try:
            self._apply(self._without_what_is_there(module), module)
        except ApplyError:
            if _initializing(module):  # the import fails; importlib forgets what it can
                sys.modules.pop(self.name, None)
            raise

    def _without_what_is_there(self, module: ModuleType) -> list[Patch]:
        """Leave out what has landed on targets that executing the module again does not remake."""
        there = {
            target
            for target, value in self._landed.items()
            if find(module, target.qualname) is value
        }
        return [
            patch
            for patch in self._patches
            if patch.id not in self._done or patch.target not in there
        ]

    def _apply(self, patches: Iterable[Patch], module: ModuleType) -> None:
        self._waiting = []
        for patch in patches:
            if not PROCESS.holds(patch.process):
                self._waiting.append(patch)
                self._journal.waits(patch)
                continue
            start = time.perf_counter()
            try:
                apply(patch, module)
            except ApplyError as error:
                self._fail(patch, error)
            else:
                if patch.operation != "run":
                    self._landed[patch.target] = find(module, patch.target.qualname)
                    self._done.add(patch.id)
                self._journal.applied(patch, (time.perf_counter() - start) * 1000)

    def _fail(self, patch: Patch, error: ApplyError) -> None:
        message = (
            f"patch {patch.id!r} cannot be applied to {patch.target}: {error}.\n"
            f"  vLLM: {self._vllm}; the patch is for {patch.vllm}\n"
            f"  declared at: {patch.location}\n"
            f"  process: {PROCESS.name} ({', '.join(sorted(PROCESS.roles))})\n"
            f"  to go on without it: VLLM_GRAFT_PATCHES=-{patch.id}"
        )
        fatal = is_required(patch, self._settings)
        explained = type(error)(message)
        explained.__cause__ = error
        self._journal.failed(patch, explained, fatal=fatal)
        if fatal:
            raise explained
        LOGGER.warning("vllm-graft: optional %s", message)


class _HookFinder:
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

    def __init__(self, loader: Any, hook: ModuleHook) -> None:
        super().__init__(loader)
        self._hook = hook

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and let wrapt call the hooks that it has for it."""
        self._hook.before_execution()
        super().exec_module(module)
        wrapt.notify_module_loaded(module)


FINDER = _HookFinder()


def _initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _when_executed(module: ModuleType, callback: Callable[[], None]) -> bool:
    """Arrange a call at the end of a module's execution; return False where that has ended."""
    spec = getattr(module, "__spec__", None)
    if not _initializing(module) or type(spec) is not ModuleSpec:
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
