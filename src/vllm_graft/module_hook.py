"""One wrapt post-import hook: the patches of one module, applied each time it is executed."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType

import wrapt

from .aliases import sweep
from .apply import apply
from .errors import ApplyError, TargetNotFoundError
from .execution import bound_in_parent, initializing, when_executed
from .finder import FINDER
from .groups import GROUPS
from .journal import LOGGER, Journal
from .landing import LANDINGS, Landing
from .origin import edited
from .patch import Patch
from .plan import Plan, is_required
from .process import PROCESS
from .settings import Settings
from .target import MISSING, Target, importable
from .undo import take_back


class ModuleHook:
    """Applies the patches of one module, in their declared order, each time it is executed."""

    def __init__(
        self,
        name: str,
        patches: Iterable[Patch],
        plan: Plan,
        settings: Settings,
        journal: Journal,
    ) -> None:
        self.name = name
        self.active = True
        self.watcher: Callable[[str], None] | None = None
        self._patches = tuple(patches)
        self._rank = {patch.id: rank for rank, patch in enumerate(self._patches)}
        self._plan = plan
        self._settings = settings
        self._journal = journal
        self._registering = False
        self._registered = False
        self._run_elsewhere = False
        self._waiting: list[Patch] = []
        self._postponed: set[str] = set()
        self._late: list[Landing] = []

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

    def register(self) -> list[Landing]:
        """Hand the hook to wrapt, which calls it at once where the module is there already.

        Returns what landed then; other modules may have the originals.
        """
        for patch in self._patches:
            self._journal.event("arm", patch)
        if self.name == PROCESS.program:
            self.out_of_reach()
        self._register()
        late, self._late = self._late, []
        return late

    def out_of_reach(self) -> None:
        """Say, once, that the module is run under another name, where no hook meets it."""
        if not self._run_elsewhere:
            self._run_elsewhere = True
            self._journal.out_of_reach(self._patches)

    def role_gained(self) -> list[Landing]:
        """Apply what waited for a role of this process, and return what landed."""
        module = sys.modules.get(self.name)
        if not self.active or not self._waiting or module is None:
            return []
        return self._apply(tuple(self._waiting), module)

    def _register(self) -> None:
        self._registering = self._registered = True
        try:
            wrapt.register_post_import_hook(self, self.name)
        finally:
            self._registering = False

    def __call__(self, module: ModuleType) -> None:
        """Apply the patches to the module; wrapt calls this when it has been executed."""
        self._registered = False
        if not self.active:
            return
        if not self._registering:
            landed = self._fire(module)
            rebind(landed, self._journal, self.name)
        elif not when_executed(module, self._executed):
            self._late = self._fire(module)

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
        if module is not None and self.active:  # else its execution failed
            rebind(self._fire(module), self._journal)

    def _fire(self, module: ModuleType) -> list[Landing]:
        # A lazy module may have put another object in its place while it was executed.
        module = sys.modules.get(self.name, module)
        self._journal.fired(self.name, edited(module))
        try:
            with bound_in_parent(module):
                return self._apply(self._without_what_is_there(module), module)
        except ApplyError:
            if initializing(module):  # the import fails; importlib forgets what it can
                sys.modules.pop(self.name, None)
            raise

    def _without_what_is_there(self, module: ModuleType) -> list[Patch]:
        """Leave out what stands on targets that executing the module again has not remade."""
        before = [each for each in map(LANDINGS.get, self._rank) if each is not None]
        there = {landing.patch.target for landing in before if landing.stands(module)}
        for landing in before:
            if landing.patch.target not in there:
                LANDINGS.forget(landing)
        return [patch for patch in self._patches if LANDINGS.get(patch.id) is None]

    def _apply(self, patches: Iterable[Patch], module: ModuleType) -> list[Landing]:
        """Apply patches, each at its place in the chain of its target; return what landed."""
        self._waiting = []
        landed: list[Landing] = []
        for patch in patches:
            failure = GROUPS.failure(patch)
            if failure is not None:
                self._journal.left_out(patch, failure)
            elif not PROCESS.holds(patch.process):
                self._waiting.append(patch)
                self._journal.waits(patch)
            else:
                landed += self._insert(patch, module)
        return landed

    def _insert(self, patch: Patch, module: ModuleType) -> list[Landing]:
        """Apply a patch below those that come after it, which may have landed before it."""
        above = [
            landing
            for landing in LANDINGS.chain(patch.target)
            if patch.operation != "run"
            and self._rank.get(landing.patch.id, -1) > self._rank[patch.id]
        ]
        for landing in reversed(above):
            LANDINGS.revert(landing)
        landed: list[Landing] = []
        try:
            landed += self._land(patch, module)
        finally:
            landed += self._land_again(above, module)
        return landed

    def _land(self, patch: Patch, module: ModuleType) -> list[Landing]:
        start = time.perf_counter()
        try:
            landing = apply(patch, module)
        except ApplyError as error:
            if not self._put_off(patch):
                self._fail(patch, error)
            return []
        LANDINGS.add(landing)
        self._journal.applied(patch, (time.perf_counter() - start) * 1000, landing.notes)
        return [landing]

    def _put_off(self, patch: Patch) -> bool:
        """Wait for a lazy implementation whose own imports have led here; once for each patch."""
        name = Target.parse(patch.lazy).module if patch.lazy else ""
        implementation = sys.modules.get(name)
        if implementation is None or patch.id in self._postponed:
            return False
        self._postponed.add(patch.id)
        return when_executed(implementation, partial(self._implemented, patch))

    def _implemented(self, patch: Patch) -> None:
        module = sys.modules.get(self.name)
        if self.active and module is not None and LANDINGS.get(patch.id) is None:
            rebind(self._insert(patch, module), self._journal)
        self._postponed.discard(patch.id)

    def _land_again(self, reverted: Iterable[Landing], module: ModuleType) -> list[Landing]:
        landed = []
        for before in reverted:
            if GROUPS.failure(before.patch) is not None:
                take_back([before])
                continue
            try:
                landing = apply(before.patch, module)
            except ApplyError as error:
                take_back([before])  # names in other modules have it still
                self._fail(before.patch, error)
                continue
            landing.former = before.value if before.former is MISSING else before.former
            LANDINGS.add(landing)
            landed.append(landing)
        return landed

    def take_out(self, landing: Landing) -> None:
        """Take one patch out of the chain of its target."""
        chain = LANDINGS.chain(landing.patch.target)
        taken = chain[chain.index(landing) :]
        take_back(taken)
        if self.name in sys.modules:
            rebind(self._land_again(taken[1:], sys.modules[self.name]), self._journal)

    def _fail(self, patch: Patch, error: ApplyError) -> None:
        message = (
            f"patch {patch.id!r} cannot be applied to {patch.declared_target}: {error}.\n"
            f"  vLLM: {self._plan.vllm}; the patch is for {patch.versions}\n"
            f"  declared at: {patch.location}\n"
            f"  process: {PROCESS.name} ({', '.join(sorted(PROCESS.roles))})\n"
            f"  to go on without it: VLLM_GRAFT_PATCHES=-{patch.id}"
        )
        members = [each for each in self._plan.armed if each.group and each.group == patch.group]
        fatal = any(is_required(each, self._settings) for each in (patch, *members))
        explained = type(error)(message)
        explained.__cause__ = error
        self._journal.failed(patch, explained, fatal=fatal)
        GROUPS.fail(patch, str(error))
        for member in members:
            leave_out(member, self._journal)
        if fatal:
            raise explained
        LOGGER.warning("vllm-graft: optional %s", message)


def leave_out(member: Patch, journal: Journal) -> None:
    """Take back a patch whose group has failed."""
    landing = LANDINGS.get(member.id)
    hook = FINDER.hooks.get(member.target.module)
    if landing is not None and hook is not None:
        hook.take_out(landing)
        journal.left_out(member, GROUPS.failure(member) or "")


def rebind(landings: Sequence[Landing], journal: Journal, executed: str | None = None) -> None:
    """Rebind the names that modules took from targets before patches landed there."""
    patches = {landing.patch.id: landing.patch for landing in landings}
    for patch_id, found in sweep(landings, executed).items():
        journal.rebound(patches[patch_id], found)
