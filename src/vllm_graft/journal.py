"""What happened in this process: the state of every patch, trace lines, and `status()`."""

import logging
import os
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .caches import fingerprint
from .errors import ApplyError
from .patch import Patch
from .plan import Plan
from .process import PROCESS
from .trace import Line, Sink

State = Literal["armed", "applied", "skipped", "failed"]

# A child of the logger that vLLM configures, so that our lines appear among its own and in its
# format. While vLLM has not configured it, warnings go to stderr as Python's logging has it.
LOGGER = logging.getLogger("vllm.graft")


@dataclass(frozen=True)
class PatchStatus:
    """The state of one patch in this process; `reason` says why it is skipped or failed.

    `ms` is how long applying it took, in milliseconds.
    """

    id: str
    state: State
    target: str
    required: bool
    reason: str = ""
    ms: float | None = None


@dataclass(frozen=True)
class Status:
    """What `status()` answers: the layer in this process.

    `activated_by` is `pth`, `start`, `sitecustomize` or `plugin` (late), or None where the layer
    is off or vLLM has not been imported.
    """

    activated_by: str | None
    process: str
    roles: tuple[str, ...]
    vllm: str | None
    version_source: str | None
    patches: tuple[PatchStatus, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many patches are in each state."""
        found = Counter(patch.state for patch in self.patches)
        return {state: found[state] for state in ("applied", "skipped", "failed", "armed")}

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain values, for JSON."""
        return asdict(self)


class Journal:
    """The memory of the layer in one process. A forked child goes on with a copy of it."""

    def __init__(self) -> None:
        self.activated_by: str | None = None
        self._plan: Plan | None = None
        self._states: dict[str, PatchStatus] = {}
        self._problems: list[str] = []
        self._sink: Sink | None = None
        self._asked: set[str] = set()
        self._fatal: dict[str, ApplyError] = {}

    def trace_to(self, sink: Sink | None) -> None:
        """Send trace lines to a sink from now on."""
        self._sink = sink

    def begin(self, plan: Plan) -> None:
        """Take over a plan: its patches are armed or skipped from now on."""
        self._plan = plan
        for decision in plan.decisions:
            patch = decision.patch
            self._set(patch, "armed" if decision.armed else "skipped", decision.reason)
        counts = Counter("armed" if decision.armed else "skipped" for decision in plan.decisions)
        self.event("plan", detail=f"{counts['armed']} armed, {counts['skipped']} skipped")
        for decision in plan.decisions:
            if not decision.armed:
                self.event("skip", decision.patch, detail=decision.reason)
        for warning in plan.warnings:
            LOGGER.warning("vllm-graft: %s", warning)
        for problem in plan.problems:
            self.problem(str(problem))

    def applied(self, patch: Patch, ms: float) -> None:
        """Record that a patch landed and was verified."""
        self._set(patch, "applied", ms=ms)
        self._fatal.pop(patch.id, None)
        self.event("apply", patch, ms=ms)

    def waits(self, patch: Patch) -> None:
        """Record that a patch's module is there and this process has none of its roles yet."""
        self._set(patch, "armed", f"waits for the role {' or '.join(sorted(patch.process or ()))}")

    def failed(self, patch: Patch, error: ApplyError, *, fatal: bool) -> None:
        """Record that a patch did not land; a fatal failure stops vLLM."""
        self._set(patch, "failed", str(error))
        self.event("fail", patch, detail=str(error))
        if fatal:
            self._fatal[patch.id] = error

    def problem(self, text: str) -> None:
        """Record what stops vLLM and is not the failure of one patch."""
        self._problems.append(text)
        self.event("fail", detail=text)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the patches selected here; None where there are none."""
        return fingerprint(self._plan.armed) if self._plan else None

    def is_applied(self, patch_id: str) -> bool:
        """Tell whether a patch is applied here; warn once about an id that nobody declared."""
        status = self._states.get(patch_id)
        if status is None and self._plan is not None and patch_id not in self._asked:
            self._asked.add(patch_id)
            LOGGER.warning("vllm-graft: applied(%r): no installed patch has this id", patch_id)
        return status is not None and status.state == "applied"

    def status(self) -> Status:
        """Return the state of the layer in this process."""
        vllm = self._plan.vllm if self._plan else None
        return Status(
            activated_by=self.activated_by,
            process=PROCESS.name,
            roles=tuple(sorted(PROCESS.roles)),
            vllm=vllm.text if vllm else None,
            version_source=vllm.source if vllm else None,
            patches=tuple(self._states.values()),
            problems=tuple(self._problems),
        )

    def started(self) -> None:
        """Log the one line that says how this process stands, once vLLM has started in it.

        Raises again what a required patch raised, if somebody caught it on the way here.
        """
        for error in self._fatal.values():
            raise error
        status = self.status()
        LOGGER.info(
            "vllm-graft: %s (%s): %d applied, %d skipped, %d failed, %d waiting for an import",
            status.process,
            ", ".join(status.roles),
            *status.counts.values(),
        )

    def never_fired(self) -> list[str]:
        """Return the ids of the patches whose target was never imported here."""
        return [each.id for each in self._states.values() if each.state == "armed"]

    def end(self) -> None:
        """Record the end of this process, with what never fired."""
        armed = self.never_fired()
        self.event("exit", detail=f"never fired: {', '.join(armed) or 'none'}")
        if armed:
            LOGGER.debug("vllm-graft: %s: never fired: %s", PROCESS.name, ", ".join(armed))

    def event(
        self,
        event: str,
        patch: Patch | None = None,
        *,
        module: str | None = None,
        ms: float | None = None,
        detail: str | None = None,
    ) -> None:
        """Write a trace line; where that fails, warn once and trace no more."""
        if self._sink is None:
            return
        try:
            self._sink.write(self._line(event, patch, module, ms, detail))
        except (OSError, ValueError) as error:  # ValueError: the folder's name cannot be one
            self._sink = None
            with suppress(OSError, ValueError):  # stderr may be closed as well
                LOGGER.warning("vllm-graft: tracing ends here: %s", error)

    def _line(
        self, event: str, patch: Patch | None, module: str | None, ms: float | None, detail: Any
    ) -> Line:
        vllm = self._plan.vllm if self._plan else None
        line = {
            "ts": time.time(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "process": PROCESS.name,
            "roles": sorted(PROCESS.roles),
            "event": event,
            "patch": patch.id if patch else None,
            "module": module or (patch.target.module if patch else None),
            "target": str(patch.target) if patch else None,
            "vllm": vllm.text if vllm else None,
            "version_source": vllm.source if vllm else None,
            "ms": None if ms is None else round(ms, 3),
            "detail": detail,
        }
        return {key: value for key, value in line.items() if value is not None}

    def _set(
        self, patch: Patch, state: State, reason: str = "", *, ms: float | None = None
    ) -> None:
        self._states[patch.id] = PatchStatus(
            patch.id, state, str(patch.target), patch.required, reason, ms
        )


JOURNAL = Journal()
