"""What the sentinel calls when somebody imports vLLM: plan, arm, get out of the way.

This module imports nothing. The finders here run under importlib's own lock, where an import can
wait for another thread that waits for that lock; and Python 3.15 loads the module at every
interpreter start (vllm_graft.start).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

NAME = "VllmGraft"
"""The class name of every finder that waits for vLLM, the one of the `.pth` line included."""

_outcome: "list[Exception | None]" = []
_running: "list[str]" = []


class VllmGraft:
    """The sentinel of `install`: a finder that answers nothing and waits for the name `vllm`.

    Like Python's own `PathFinder` it is a class and not an instance, and so is the `.pth` line's.
    """

    by = "start"

    @classmethod
    def find_spec(cls, name: str, *_: object) -> "ModuleSpec | None":
        """Answer for `vllm` alone, as `find_spec` below does."""
        return find_spec(cls.by) if name == "vllm" else None


def install(by: str = "start") -> None:
    """Put a sentinel first on `sys.meta_path`, unless the layer is off or one is there."""
    import os

    if os.environ.get("VLLM_GRAFT") != "0" and not _outcome and not installed():
        VllmGraft.by = by
        sys.meta_path.insert(0, VllmGraft)


def installed() -> bool:
    """Tell whether a sentinel waits for vLLM in this interpreter."""
    return any(map(is_sentinel, sys.meta_path))


def is_sentinel(finder: object) -> bool:
    """Tell whether a finder is a sentinel, of the `.pth` line or of `install`."""
    return getattr(finder, "__name__", "") == NAME


def find_spec(by: str = "pth") -> "ModuleSpec | None":
    """Return what the other finders know of vLLM, with a loader that activates the layer first.

    Nothing happens before vLLM is really loaded: programs ask whether vLLM could be imported
    without ever doing so, and none of them must wait for us, or meet our errors.
    """
    return search("vllm", None, is_sentinel, lambda loader: _ActivatingLoader(loader, by))


def search(
    name: str,
    path: "Sequence[str] | None",
    is_ours: "Callable[[object], bool]",
    in_front: "Callable[[Any], Any]",
) -> "ModuleSpec | None":
    """Ask the finders that are not ours, and put a loader in front of what they answer.

    `importlib.util.find_spec` would import the parent package, and wait for its import by
    another thread while that thread waits for the lock that we are called under.
    """
    for finder in tuple(sys.meta_path):
        find = None if is_ours(finder) else getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, None) if find is not None else None
        if spec is not None:
            if hasattr(spec.loader, "exec_module"):
                spec.loader = in_front(spec.loader)
            return spec
    return None


class LoaderInFront:
    """A loader that stands in for another one until it has made the module."""

    def __init__(self, loader: "Any") -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__"):  # copy and pickle ask an object that has no `_loader` yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """Let the other loader make the module."""
        make = getattr(self._loader, "create_module", None)
        module: ModuleType | None = make(spec) if make is not None else None
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """Leave the module with its own loader, and let that execute it."""
        for holder, name in ((module, "__loader__"), (module.__spec__, "loader")):
            if getattr(holder, name, None) is self:
                setattr(holder, name, self._loader)
        self._loader.exec_module(module)


class _ActivatingLoader(LoaderInFront):
    """vLLM's loader, which activates the layer before it makes the module."""

    def __init__(self, loader: "Any", by: str) -> None:
        super().__init__(loader)
        self._by = by

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """Activate; `sys.modules` has no `vllm` yet, and an error leaves none there."""
        activate(self._by)
        finder = sys.modules.get("vllm_graft.finder")
        if finder is not None:  # `vllm` itself may have a hook by now
            self._loader = finder.FINDER.in_front(spec.name, self._loader)
        return super().create_module(spec)


def activate(by: str) -> None:
    """Plan and arm, once in a process and its forked children; raise again what was raised.

    Raises `GraftError` where vLLM must not start: a required patch that cannot land, a broken
    set, a setting without a meaning, an unknown version.
    """
    if _running:
        raise RuntimeError("a patch set or a condition imports vLLM while its patches are planned")
    if not _outcome:
        from .activation import run

        _running.append(by)
        try:
            _outcome.append(run(by))
        finally:
            _running.clear()
    error = _outcome[0]
    if error is not None:
        raise error.with_traceback(None)
    # A new list: another thread may be going through the old one.
    sys.meta_path = [finder for finder in sys.meta_path if not is_sentinel(finder)]


def activate_from_plugin() -> None:
    """Activate late, from vLLM's general plugins, where neither `.pth` nor stub ran."""
    import os

    if os.environ.get("VLLM_GRAFT") == "0":
        return
    if not _outcome:
        from .journal import LOGGER

        LOGGER.warning(
            "vllm-graft: activated late, by vLLM's plugin loader: its .pth file was not processed "
            "in this interpreter. Names that modules took from what is patched now are rebound, "
            "and what was computed or stored with the originals stays. Run 'vllm-graft doctor' "
            "for the cause, or start the program with 'vllm-graft run -- COMMAND'"
        )
    activate("plugin")
