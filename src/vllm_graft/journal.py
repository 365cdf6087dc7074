"""What happened in this process: the state of every patch, trace lines, and `status()`."""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from .aliases import Sweep
from .caches import PLACED_BY, fingerprint, switch_off
from .errors import ApplyError
from .patch import Patch
from .plan import Plan
from .process import PROCESS
from .standing import (
    current,
    required_and_never_fired,
    summary,
    under_another_name,
    without_its_group,
)
from .states import PatchStatus, State, Status
from .trace import Sink, trace_line

# A child of the logger that vLLM configures, so that our lines appear among its own and in its
# format. While vLLM has not configured it, warnings go to stderr as Python's logging has it.
LOGGER = logging.getLogger("vllm.graft")


class Journal:
    """The memory of the layer in one process. A forked child goes on with a copy of it."""

    def __init__(self) -> None:
        self.activated_by: str | None = None
        self._plan: Plan | None = None
        self._states: dict[str, PatchStatus] = {}
        self._patches: dict[str, Patch] = {}
        self._fired: set[str] = set()
        self._problems: list[str] = []
        self._fingerprint: str | None = None
        self._sink: Sink | None = None
        self._asked: set[str] = set()
        self._fatal: dict[str, ApplyError] = {}
        self._outer: Journal | None = None
        self._planned: dict[str, tuple[str, ...]] = {}  # notes that patches have from the plan

    def trace_to(self, sink: Sink | None) -> None:
        """Send trace lines to a sink from now on."""
        self._sink = sink

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Begin a block with an empty memory, and forget at its end what happened to its plan.

        What happens there to patches of the plan before is remembered.
        """
        before = vars(self).copy()
        outer = Journal()
        vars(outer).update(before)
        vars(self).update(vars(Journal()))
        self._sink, self._outer = before["_sink"], outer
        try:
            yield
        finally:
            vars(self).update(before)

    def begin(self, plan: Plan) -> None:
        """Take over a plan: its patches are armed or skipped from now on."""
        self._plan = plan
        self._planned = {each.patch.id: each.notes for each in plan.decisions if each.notes}
        # Now, before implementations run, which may change what their closures hold.
        self._fingerprint = fingerprint(plan.armed)
        for decision in plan.decisions:
            patch = decision.patch
            self._set(
                patch,
                "armed" if decision.armed else "skipped",
                decision.reason,
                notes=decision.notes,
            )
        counts = Counter("armed" if decision.armed else "skipped" for decision in plan.decisions)
        self.event("plan", detail=f"{counts['armed']} armed, {counts['skipped']} skipped")
        for decision in plan.decisions:
            if not decision.armed:
                self.event("skip", decision.patch, detail=decision.reason)
            for note in decision.notes:
                self.event("plan", decision.patch, detail=note)
        for warning in plan.warnings:
            LOGGER.warning("vllm-graft: %s", warning)
        for problem in plan.problems:
            self.problem(str(problem))
        if self.fingerprint and not any(patch.id in PLACED_BY for patch in plan.armed):
            self.distrust_caches("no built-in patch for it takes part with this vLLM")

    def fired(self, module: str, note: str | None) -> None:
        """Record that a module has been imported, and what is remarkable about it."""
        self._fired.add(module)
        self.event("fire", module=module, detail=note)
        if note:
            LOGGER.warning("vllm-graft: %s", note)

    def applied(self, patch: Patch, ms: float, notes: Iterable[str] = ()) -> None:
        """Record that a patch landed and was verified."""
        notes = tuple(notes)
        self._set(
            patch, "applied", ms=ms, notes=(*self._keeper(patch)._planned.get(patch.id, ()), *notes)
        )
        self._fatal.pop(patch.id, None)
        self.event("apply", patch, ms=ms, detail="; ".join(notes) or None)
        for note in notes:
            LOGGER.warning("vllm-graft: patch %r: %s", patch.id, note)

    def rebound(self, patch: Patch, found: Sweep) -> None:
        """Record which names in other modules follow a patch now, and what does not."""
        for alias in found.rebound:
            self.event("rebind", patch, detail=str(alias))
            self._note(patch, f"rebound {alias}")
        if found.held:
            left = f"not touched, with the original: {', '.join(found.held)}"
            self.event("rebind", patch, detail=left)
            self._note(patch, left)
            level = logging.WARNING if found.alarming else logging.DEBUG
            LOGGER.log(level, "vllm-graft: patch %r: %s", patch.id, left)

    def out_of_reach(self, patches: Iterable[Patch]) -> None:
        """Record that the module of patches is run under another name than its own."""
        for patch in patches:
            reason = under_another_name(patch)
            self._set(patch, "armed", reason)
            self.event("skip", patch, detail=reason)
            if PROCESS.roles != {"inspection"}:  # vLLM runs that one so itself
                LOGGER.warning("vllm-graft: patch %r: %s", patch.id, reason)

    def taken_back(self) -> None:
        """Record that nothing is in effect here any more."""
        for patch_id, status in self._states.items():
            if status.state in ("applied", "armed"):
                self._set(self._patches[patch_id], "skipped", "taken back")

    def left_out(self, patch: Patch, failure: str) -> None:
        """Record that a patch is not in effect because one that belongs with it failed."""
        reason = without_its_group(failure)
        self._set(patch, "failed", reason)
        self.event("fail", patch, detail=reason)
        LOGGER.warning("vllm-graft: patch %r is not in effect here: %s", patch.id, reason)

    def waits(self, patch: Patch) -> None:
        """Record that a patch's module is there and this process has none of its roles yet."""
        self._set(patch, "armed", f"waits for the role {' or '.join(sorted(patch.process or ()))}")

    def failed(self, patch: Patch, error: ApplyError, *, fatal: bool) -> None:
        """Record that a patch did not land; a fatal failure stops vLLM."""
        self._set(patch, "failed", str(error))
        self.event("fail", patch, detail=str(error))
        if fatal:
            self._fatal[patch.id] = error
        if patch.id in PLACED_BY and self.fingerprint:
            self.distrust_caches(str(error).partition("\n")[0])

    def distrust_caches(self, why: str) -> None:
        """Switch vLLM's compile cache off where its key would not tell what is ours apart."""
        if switch_off(os.environ):
            LOGGER.warning(
                "vllm-graft: vLLM's compile cache is off for this run: what is not vLLM's own "
                "cannot be put into its key (%s), and a graph compiled without it might be "
                "served. What vLLM has cached about models (modelinfos in its cache folder) may be "
                "from before as well",
                why,
            )

    def problem(self, text: str) -> None:
        """Record what stops vLLM and is not the failure of one patch."""
        self._problems.append(text)
        self.event("fail", detail=text)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the patches selected here; None where there are none."""
        return self._fingerprint

    @property
    def vllm(self) -> str | None:
        """The version of vLLM that the plan is for, as it was found."""
        return self._plan.vllm.text if self._plan else None

    def patch(self, patch_id: str) -> Patch | None:
        """Return a patch of the plan by its id."""
        return self._patches.get(patch_id)

    def is_applied(self, patch_id: str) -> bool:
        """Tell whether a patch is applied here; warn once about an id that nobody declared."""
        status = self._current(patch_id)
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
            patches=tuple(filter(None, map(self._current, tuple(self._states)))),
            problems=tuple(self._problems),
        )

    def started(self) -> None:
        """Log the one line that says how this process stands, once vLLM has started in it.

        Raises again what a required patch raised, if somebody caught it on the way here.
        """
        for error in self._fatal.values():
            raise error
        waiting = required_and_never_fired(self._plan, self._fired, self._states)
        for patch in waiting:
            if not self._states[patch.id].reason:  # else it is known, or was told before
                self._never_imported(patch)
        LOGGER.info("vllm-graft: %s", summary(self.status(), waiting))

    def _never_imported(self, patch: Patch) -> None:
        reason = f"{patch.target.module} had not been imported when this process had started"
        self._set(patch, "armed", reason)
        self.event("arm", patch, detail=f"required, and {reason}")

    def _current(self, patch_id: str) -> PatchStatus | None:
        status = self._states.get(patch_id)
        return status and current(status, self._patches[patch_id])

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
            vllm = self._plan.vllm if self._plan else None
            self._sink.write(trace_line(event, vllm, patch, module=module, ms=ms, detail=detail))
        except (OSError, ValueError) as error:  # ValueError: the folder's name cannot be one
            self._sink = None
            with suppress(OSError, ValueError):  # stderr may be closed as well
                LOGGER.warning("vllm-graft: tracing ends here: %s", error)

    def _set(
        self,
        patch: Patch,
        state: State,
        reason: str = "",
        *,
        ms: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        keeper = self._keeper(patch)
        keeper._patches[patch.id] = patch
        keeper._states[patch.id] = PatchStatus(
            patch.id, state, str(patch.target), patch.required, reason, ms, notes
        )

    def _note(self, patch: Patch, note: str) -> None:
        states = self._keeper(patch)._states
        status = states[patch.id]
        states[patch.id] = replace(status, notes=(*status.notes, note))

    def _keeper(self, patch: Patch) -> "Journal":
        """Return the memory that a patch belongs to: this one, or one that was set aside."""
        planned = self._plan.decisions if self._plan else ()
        if self._outer is None or any(each.patch.id == patch.id for each in planned):
            return self
        return self._outer._keeper(patch)


JOURNAL = Journal()
