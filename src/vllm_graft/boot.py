"""What the sentinel calls when somebody imports vLLM: plan, arm, get out of the way.

This module is loaded in the middle of `import vllm`. It imports nothing itself, so that Python
3.15, which loads it at every interpreter start (vllm_graft.start), pays next to nothing.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

SENTINEL = "VllmGraftSentinel"
"""The class name of every finder that waits for vLLM, the one of the `.pth` line included."""

_searching: "set[int]" = set()
_outcome: "list[Exception | None]" = []


class VllmGraftSentinel:
    """A finder that answers nothing and waits for the name `vllm`."""

    def __init__(self, by: str) -> None:
        self.by = by

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Answer for `vllm` alone, as `find_spec` below does."""
        return find_spec(name, self.by) if name == "vllm" else None


def install(by: str = "start") -> None:
    """Put a sentinel first on `sys.meta_path`, unless the layer is off or one is there."""
    import os

    if os.environ.get("VLLM_GRAFT") != "0" and not _outcome and not installed():
        sys.meta_path.insert(0, VllmGraftSentinel(by))


def installed() -> bool:
    """Tell whether a sentinel waits for vLLM in this interpreter."""
    return any(type(finder).__name__ == SENTINEL for finder in sys.meta_path)


def find_spec(name: str, by: str = "pth") -> "ModuleSpec | None":
    """Return what the other finders know of vLLM, with a loader that activates the layer first.

    Nothing happens before vLLM is really loaded: programs ask whether vLLM could be imported
    without ever doing so, and none of them must wait for us, or meet our errors.
    """
    import threading
    from importlib import util

    thread = threading.get_ident()
    if thread in _searching:
        return None
    _searching.add(thread)
    try:
        spec = util.find_spec(name)
    finally:
        _searching.discard(thread)
    if spec is not None and spec.loader is not None:
        spec.loader = _ActivatingLoader(spec.loader, by)  # type: ignore[assignment]
    return spec


class _ActivatingLoader:
    """vLLM's loader, which activates the layer before it makes the module."""

    def __init__(self, loader: "Any", by: str) -> None:
        self._loader = loader
        self._by = by

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """Activate; `sys.modules` has no `vllm` yet, and an error leaves none there."""
        from importlib import util

        activate(self._by)
        found = util.find_spec(spec.name)  # anew: `vllm` itself may have a hook by now
        if found is not None and found.loader is not None:
            self._loader = found.loader
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """Leave the module with its own loader, and execute it."""
        for holder, name in ((module, "__loader__"), (module.__spec__, "loader")):
            if getattr(holder, name, None) is self:
                setattr(holder, name, self._loader)
        self._loader.exec_module(module)


def activate(by: str) -> None:
    """Plan and arm, once in a process and its forked children; raise again what was raised.

    Raises `GraftError` where vLLM must not start: a required patch that cannot land, a broken
    set, a setting without a meaning, an unknown version.
    """
    if not _outcome:
        from .activation import run

        _outcome.append(run(by))
    error = _outcome[0]
    if error is not None:
        raise error
    sys.meta_path[:] = [item for item in sys.meta_path if type(item).__name__ != SENTINEL]


def activate_from_plugin() -> None:
    """Activate late, from vLLM's general plugins, where neither `.pth` nor stub ran."""
    import os

    if _outcome or os.environ.get("VLLM_GRAFT") == "0":
        return
    from .journal import LOGGER

    LOGGER.warning(
        "vllm-graft: activated late, by vLLM's plugin loader: its .pth file was not processed in "
        "this interpreter, so modules that vLLM has already imported keep the originals under the "
        "names they took. Run 'vllm-graft doctor' for the cause, or start the program with "
        "'vllm-graft run -- COMMAND'"
    )
    activate("plugin")
