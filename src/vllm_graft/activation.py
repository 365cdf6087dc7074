"""Activation: settings, version, catalog, plan and hooks in one pass."""

import os
import time
from dataclasses import replace

from .catalog import Catalog, load_catalog
from .errors import ApplyError, GraftError
from .hooks import arm
from .journal import JOURNAL, LOGGER
from .plan import Environment, Plan, make_plan
from .process import PROCESS, at_exit
from .settings import Settings
from .trace import open_sink
from .version import find_version


def run(by: str) -> GraftError | None:
    """Bring the layer into effect in this process; return the error that must stop vLLM."""
    start = time.perf_counter()
    try:
        JOURNAL.trace_to(open_sink(os.environ.get("VLLM_GRAFT_TRACE")))
        settings = Settings.read(os.environ)
        if not settings.enabled:
            JOURNAL.trace_to(None)
            return None
        JOURNAL.activated_by = by
        JOURNAL.event("boot", detail=by)
        plan = current_plan(settings)
        JOURNAL.begin(plan)
        if plan.problems:
            return _joined(plan.problems)
        PROCESS.watch(lambda role: JOURNAL.event("role", detail=role))
        arm(plan, settings, JOURNAL)
    except ApplyError as error:  # the journal has it
        return error
    except GraftError as error:
        JOURNAL.problem(str(error))
        return error
    os.register_at_fork(after_in_child=lambda: JOURNAL.event("fork"))
    at_exit(JOURNAL.end)
    JOURNAL.event("activate", ms=(time.perf_counter() - start) * 1000)
    LOGGER.debug("vllm-graft: activated by %s", by)
    return None


def current_plan(settings: Settings, catalog: Catalog | None = None) -> Plan:
    """Make the plan for the installed vLLM, or the one that `VLLM_VERSION` says."""
    vllm = find_version(settings.version)
    catalog = catalog or load_catalog()
    environment = Environment(vllm)
    if settings.lock is None:
        return make_plan(catalog, environment, settings)
    from .lock_guard import LockGuard  # reads sources, which only this setting needs

    guard = LockGuard(catalog.sets, vllm, settings.lock.file)
    plan = make_plan(catalog, replace(environment, unlike_locked=guard), settings)
    guard.end()
    return plan


def _joined(problems: tuple[GraftError, ...]) -> GraftError:
    if len(problems) == 1:
        return problems[0]
    return GraftError("\n".join(f"[{n}] {each}" for n, each in enumerate(problems, 1)))
