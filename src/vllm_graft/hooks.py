"""Brings a plan into effect: one wrapt post-import hook for each module that it patches."""

import sys
from collections.abc import Iterable
from functools import partial

from .finder import FINDER
from .groups import GROUPS
from .journal import Journal
from .landing import LANDINGS, Landing
from .module_hook import ModuleHook, leave_out, rebind
from .patch import Patch
from .plan import Plan
from .process import PROCESS
from .settings import Settings


def arm(plan: Plan, settings: Settings, journal: Journal) -> list[ModuleHook]:
    """Register a hook for every module of the plan, and return the hooks.

    A hook fires when its module has been imported; for one that is imported already, at once.
    Raises `ApplyError` where a required patch cannot land: its module is not in this vLLM, or is
    imported already and does not take it.
    """
    by_module: dict[str, list[Patch]] = {}
    for patch in plan.armed:
        by_module.setdefault(patch.target.module, []).append(patch)
    _share_groups(plan)
    hooks = [
        ModuleHook(module, patches, plan, settings, journal)
        for module, patches in by_module.items()
    ]
    present = [hook for hook in hooks if hook.check_module()]
    watcher = partial(_role_gained, present, journal)
    PROCESS.watch(watcher)
    late: list[Landing] = []
    for hook in present:
        FINDER.hooks[hook.name] = hook
        hook.watcher = watcher
        late += hook.register()
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    rebind(late, journal)  # one pass through all modules for all of them
    return present


def _share_groups(plan: Plan) -> None:
    """Tell the other processes of the run what belongs to a group and is skipped in this one."""
    members = [decision for decision in plan.decisions if decision.patch.group]
    if members:
        GROUPS.share()
    for decision in members:
        if not decision.armed and decision.cause != "together":
            GROUPS.fail(decision.patch, decision.reason, "is skipped")


def disarm(hooks: Iterable[ModuleHook]) -> None:
    """Let hooks do nothing from now on. wrapt has no way to take them back."""
    for hook in hooks:
        hook.active = False
        FINDER.hooks.pop(hook.name, None)
        if hook.watcher is not None:
            PROCESS.unwatch(hook.watcher)


def _role_gained(hooks: Iterable[ModuleHook], journal: Journal, _role: str) -> None:
    landed = [landing for hook in hooks for landing in hook.role_gained()]
    rebind(landed, journal)  # one pass through all modules for all of them


def take_out_failed_groups(journal: Journal) -> None:
    """Take back what belongs together with a patch that failed in another process of the run."""
    for landing in LANDINGS:
        if GROUPS.failure(landing.patch) is not None:
            leave_out(landing.patch, journal)
