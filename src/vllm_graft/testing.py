"""For the tests of patches: arm sets in the running interpreter, and take everything back.

    from vllm_graft.testing import armed

    def test_block_sizes():
        with armed(patches) as status:
            from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes
            assert resolve_kv_cache_block_sizes(...) == ...
            assert status().counts["failed"] == 0

Nothing of vLLM is imported that the test does not import.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from .boot import is_sentinel
from .caches import switched_off
from .catalog import Catalog
from .declare import PatchSet
from .errors import ConflictError
from .finder import FINDER
from .groups import GROUPS
from .hooks import arm, disarm
from .journal import JOURNAL
from .landing import LANDINGS
from .plan import Environment, Plan, make_plan
from .process import PROCESS
from .settings import Selection, Settings
from .states import Status
from .undo import take_back
from .version import find_version

__all__ = ["armed", "undo"]


@contextmanager
def armed(
    *sets: PatchSet, vllm: str | None = None, select: str = "", roles: Iterable[str] = ()
) -> Iterator[Callable[[], Status]]:
    """Arm patch sets in a block, as activation would, and restore everything at its end.

    Modules that are imported already are patched at once, the others when the block imports them;
    they stay imported, with what they had. Yields `status`, which answers for these sets alone, as
    does `vllm_graft.applied`. `vllm` is the version to assume, by default that of `VLLM_VERSION`,
    else the installed one; `select` is what `VLLM_GRAFT_PATCHES` would say; `roles` are held in
    the block. vLLM uses no compile cache meanwhile.

    Where the layer is active, what it has in effect stays. Where it is not, importing vLLM in the
    block does not activate it.

    Raises what would stop vLLM: `ApplyError`, `ConflictError`, `DeclarationError`,
    `UnknownVersionError`; `ConflictError` too where another patch has an id and is in effect.
    """
    version = vllm or os.environ.get("VLLM_VERSION") or None
    settings = Settings(selection=Selection.parse(select), version=version)
    for patch_set in sets:
        patch_set.seal()
    catalog = Catalog(sets, {each.name: "a test" for each in sets})
    plan = make_plan(catalog, Environment(find_version(version)), settings)
    for problem in (*plan.problems, *_twins(plan)):
        raise problem
    with (
        _without_activation(),
        switched_off(),
        GROUPS.set_aside(),
        JOURNAL.set_aside(),
        PROCESS.holding(roles),
    ):
        JOURNAL.begin(plan)
        with _taken_back(plan):
            arm(plan, settings, JOURNAL)
            yield JOURNAL.status


def _twins(plan: Plan) -> Iterator[ConflictError]:
    """Yield what is wrong with ids that other patches have which are in effect."""
    for patch in plan.armed:
        landing = LANDINGS.get(patch.id)
        if landing is not None and (
            landing.patch.target != patch.target
            or landing.patch.implementation is not patch.implementation
        ):
            yield ConflictError(
                f"{patch.location}: a patch with the id {patch.id!r} is in effect already, "
                f"declared at {landing.patch.location}. Give one of the two sets another name."
            )


@contextmanager
def _without_activation() -> Iterator[None]:
    """Let no import of vLLM activate the layer in a block."""
    waiting = [finder for finder in sys.meta_path if is_sentinel(finder)]
    sys.meta_path = [finder for finder in sys.meta_path if finder not in waiting]
    try:
        yield
    finally:
        sys.meta_path[:0] = waiting


@contextmanager
def _taken_back(plan: Plan) -> Iterator[None]:
    """Take back at the end of a block what of a plan has landed in it, and its hooks."""
    landings, hooks = list(LANDINGS), dict(FINDER.hooks)
    remembered, LANDINGS.remember_runs = LANDINGS.remember_runs, True
    ids = {patch.id for patch in plan.armed}
    for landing in landings:
        if landing.patch.id in ids:  # by the layer or a block around this one, and it stays
            JOURNAL.applied(landing.patch, ms=0)
    try:
        yield
    finally:
        LANDINGS.remember_runs = remembered
        disarm([hook for hook in FINDER.hooks.values() if hook not in hooks.values()])
        if not hooks and FINDER in sys.meta_path:
            sys.meta_path.remove(FINDER)
        FINDER.hooks.update(hooks)
        new = [landing for landing in LANDINGS if landing not in landings]
        take_back([landing for landing in new if landing.patch.id in ids])


def undo() -> None:
    """Take back every patch that is in effect in this interpreter, and apply none any more.

    vLLM's own code is back, but for what `run` patches changed outside of `armed`; what has been
    computed with a patch is as it is.
    """
    disarm(tuple(FINDER.hooks.values()))
    take_back(list(LANDINGS))
    JOURNAL.taken_back()
