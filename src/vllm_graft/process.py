"""Which roles this process has for vLLM."""

import atexit
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import util

# multiprocessing's names, by prefix: vllm/v1/engine/utils.py (EngineCore, EngineCore_DP0),
# v1/executor/multiproc_executor.py (VllmWorker-0), v1/utils.py (ApiServer_0),
# v1/engine/coordinator.py, entrypoints/launchers/dp_supervisor.py (APIServer_DPRank_0).
_BY_NAME = (
    ("EngineCore", "engine_core"),
    ("VllmWorker", "worker"),
    ("ApiServer_", "api_server"),
    ("APIServer_", "api_server"),
    ("VLLM_DP_Coordinator", "coordinator"),
)
_INSPECTION = "vllm.model_executor.models.registry"  # run with `python -m` by itself


class Process:
    """The roles of this process. They are gained as vLLM's entry points run, and never lost.

    A spawned child has its multiprocessing name before it imports vLLM; a forked one gets it
    after the fork. So names are read whenever the roles are asked for, never remembered.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._gained: set[str] = set()
        self._watchers: list[Callable[[str], None]] = []

    @property
    def name(self) -> str:
        """The name that multiprocessing gave this process; `MainProcess` where it gave none."""
        return multiprocessing.current_process().name

    @property
    def roles(self) -> frozenset[str]:
        """The roles held now."""
        self._forget_parent()
        return frozenset(self._gained) | {self._initial()}

    def gain(self, role: str) -> None:
        """Hold a role from now on, and tell those who watch.

        They are told although the process's name gives the role: in a forked child nothing else
        says that the name has changed.
        """
        self._forget_parent()
        if role in self._gained:
            return
        self._gained.add(role)
        for watcher in tuple(self._watchers):
            watcher(role)

    @contextmanager
    def holding(self, roles: Iterable[str]) -> Iterator[None]:
        """Hold roles in a block, and forget afterwards what was gained in it."""
        before = set(self._gained)
        for role in roles:
            self.gain(role)
        try:
            yield
        finally:
            self._gained = before

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call `watcher(role)` for every role that is gained from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[str], None]) -> None:
        """Call a watcher no more."""
        self._watchers = [each for each in self._watchers if each != watcher]

    @property
    def program(self) -> str | None:
        """The module that `python -m` runs in this process as `__main__`."""
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        if spec is not None:
            return str(spec.name)
        # Python sets this while it looks for the module, and imports its parents (sys.argv).
        if sys.argv[:1] != ["-m"]:
            return None
        return re.sub(r"^-\w*?m", "", sys.orig_argv[-len(sys.argv)])

    def holds(self, roles: Iterable[str] | None) -> bool:
        """Tell whether one of the roles is held; None stands for any process."""
        return roles is None or not self.roles.isdisjoint(roles)

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._gained.clear()

    def _initial(self) -> str:
        name = self.name
        for prefix, role in _BY_NAME:
            if name.startswith(prefix):
                return role
        arguments = sys.orig_argv
        if "-m" in arguments and _INSPECTION in arguments:
            return "inspection"
        return "main"


PROCESS = Process()


def at_exit(callback: Callable[[], None]) -> None:
    """Call back when this process ends, and when a child forked from it does.

    A process that is killed, or ends by `os._exit`, tells nobody.
    """
    atexit.register(callback)
    # A forked child of multiprocessing ends by os._exit, and drops the finalizers of its parent.
    # The registry holds its key weakly; the function registered with atexit keeps it alive.
    util.register_after_fork(callback, lambda _: util.Finalize(None, callback, exitpriority=0))
