"""How a process stands: what its patches are now, and the words for that."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from .groups import GROUPS
from .landing import LANDINGS
from .origin import overwritten
from .patch import Patch
from .plan import Plan
from .process import PROCESS
from .states import PatchStatus, Status


def current(status: PatchStatus, patch: Patch) -> PatchStatus:
    """Return the state of a patch now, from the one that was recorded.

    Its group may have failed in another process meanwhile, or others have changed its target.
    """
    if status.state not in ("applied", "armed"):
        return status
    failure = GROUPS.failure(patch)
    if failure is not None:
        return replace(status, state="failed", reason=without_its_group(failure))
    landing = LANDINGS.get(patch.id)
    other = overwritten(landing) if landing is not None else None
    return status if other is None else replace(status, state="failed", reason=other)


def required_and_never_fired(
    plan: Plan | None, fired: Collection[str], states: Mapping[str, PatchStatus]
) -> list[Patch]:
    """Return the required patches of this process whose module was not imported in it."""
    return [
        patch
        for patch in (plan.armed if plan else ())
        if patch.required
        and patch.target.module not in fired
        and states[patch.id].state == "armed"
        and PROCESS.holds(patch.process)
    ]


def summary(status: Status, waiting: Collection[Patch]) -> str:
    """Return the one line that says how a process stands; `waiting` are required patches."""
    ids = ", ".join(patch.id for patch in waiting)
    applied, skipped, failed, armed = status.counts.values()
    return (
        f"{status.process} ({', '.join(status.roles)}): {applied} applied, {skipped} skipped, "
        f"{failed} failed, {armed} waiting for an import{f' (required: {ids})' if ids else ''}"
    )


def without_its_group(failure: str) -> str:
    """Return why a patch is not in effect whose group failed."""
    return f"it belongs together with another patch: {failure}"


def under_another_name(patch: Patch) -> str:
    """Return why a patch cannot land on a module that is run as a program."""
    return (
        f"`python -m {patch.target.module}`, or runpy, runs this module under another name, where "
        "hooks by name do not reach it; start it by another command, as `vllm serve`"
    )
