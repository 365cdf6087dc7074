"""The plan: for each patch whether it is armed, or skipped and why. Pure: it does nothing."""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import metadata
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

from .builtin import BUILTIN, KNOWN
from .catalog import Catalog
from .errors import ConflictError, DeclarationError, GraftError, UnknownVersionError
from .imports import without_heavy_imports
from .locked import Unlike, refusal, warnings_of
from .models.registry import of_others
from .order import in_order
from .patch import EXCLUSIVE, Candidate, Patch, raise_if_conflicting
from .provided import addition_to, provided_by
from .ranges import written, written_requirement
from .settings import Settings
from .sources import exists
from .target import Target
from .version import VllmVersion

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Environment:
    """What a plan depends on besides the catalog; the argument of a patch's `when`.

    `system` and `machine` are as in `platform.uname()` (`"Linux"`, `"x86_64"`), `installed`
    returns the version of a distribution or None, `exists` tells whether there is a target, without
    importing its module, `provided` and `addition` where one is, or is to be, that its module
    provides lazily, `unlike_locked` how a patch is not as it was locked, if it is not.
    """

    vllm: VllmVersion
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    system: str = field(default_factory=platform.system)
    machine: str = field(default_factory=platform.machine)
    python: tuple[int, int] = sys.version_info[:2]
    installed: Callable[[str], str | None] = _installed
    exists: Callable[[Target], bool] = exists
    provided: Callable[[Target], Target] = provided_by
    addition: Callable[[Target], Target] = addition_to
    unlike_locked: Callable[[Patch], Unlike | None] = lambda _: None


Cause = Literal["selection", "version", "requires", "when", "together", "lock"]


@dataclass(frozen=True)
class Decision:
    """What is to happen with a patch: armed, or skipped for a cause, told in words by `reason`.

    `notes` are what is remarkable about one that is armed, `remedy` what to do about one that is
    not as it was locked, where the reason does not say that.
    """

    patch: Patch
    cause: Cause | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def armed(self) -> bool:
        """Whether the patch takes part."""
        return self.cause is None


@dataclass(frozen=True)
class Plan:
    """The decisions in the order of application, what stops vLLM, and what deserves a warning."""

    vllm: VllmVersion
    decisions: tuple[Decision, ...]
    problems: tuple[GraftError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def armed(self) -> tuple[Patch, ...]:
        """The patches that take part."""
        return tuple(decision.patch for decision in self.decisions if decision.armed)


def make_plan(catalog: Catalog, environment: Environment, settings: Settings) -> Plan:
    """Decide for every patch of the catalog."""
    vllm = environment.vllm
    problems: list[GraftError] = [
        found.error for found in catalog.broken if settings.selection.selects_set(found.name)
    ]
    decisions = []
    for patch in catalog.patches:
        try:
            decisions.append(_decide(patch, environment, settings))
        except DeclarationError as error:
            problems.append(error)
            decisions.append(Decision(patch, "when", str(error)))
    decisions = _grouped(decisions)
    if settings.lock is not None and vllm.version is not None:
        decisions = [_compared(decision, environment, settings) for decision in decisions]
        problems.extend(
            refusal(decision, vllm)
            for decision in decisions
            if decision.cause == "lock" and is_required(decision.patch, settings)
        )
        decisions = _grouped(decisions)
    armed = [decision.patch for decision in decisions if decision.armed]
    problems.extend(_conflicts(armed))
    if vllm.version is None:
        problems.extend(_unknown_version(armed, vllm, settings))
        decisions = [_unknown(decision, vllm) for decision in decisions]
    elif not problems:
        try:
            rank = {patch.id: index for index, patch in enumerate(in_order(armed))}
            decisions.sort(key=lambda decision: rank.get(decision.patch.id, -1))
        except ConflictError as error:
            problems.append(error)
    warnings = (
        *_beyond_known(decisions, vllm),
        *_unused_globs(catalog, settings),
        *warnings_of(decisions, is_refused=bool(problems)),
    )
    return Plan(vllm, tuple(decisions), tuple(problems), warnings)


def _unknown(decision: Decision, vllm: VllmVersion) -> Decision:
    if not decision.armed:
        return decision
    return Decision(decision.patch, "version", f"the version of vLLM is unknown: {vllm}")


def is_required(patch: Patch, settings: Settings) -> bool:
    """Tell whether failing to land stops vLLM; built-in patches never do."""
    built_in = patch.set_name in BUILTIN and not of_others(patch)
    return patch.required or (settings.strict and not built_in)


def _decide(patch: Patch, environment: Environment, settings: Settings) -> Decision:
    vllm = environment.vllm
    if not settings.selection.selects(patch.id):
        return Decision(patch, "selection", "not selected by VLLM_GRAFT_PATCHES")
    if vllm.version is not None and not vllm.matches(patch.vllm):
        return Decision(patch, "version", f"vLLM {vllm} is outside {patch.versions}")
    candidates = [
        each
        for each in patch.candidates
        if each.vllm is None or vllm.version is None or vllm.matches(each.vllm)
    ]
    if patch.candidates and not candidates:
        return Decision(
            patch,
            "version",
            f"vLLM {vllm} is outside the versions of each target: {patch.declared_target}",
        )
    for requirement in patch.requires:
        reason = _unmet(requirement, environment)
        if reason:
            return Decision(patch, "requires", reason)
    if patch.when is not None and not _holds(patch, environment):
        return Decision(patch, "when", "its condition `when` does not hold here")
    return Decision(_placed(patch, candidates, environment))


def _placed(patch: Patch, candidates: Sequence[Candidate], environment: Environment) -> Patch:
    """Choose among the targets of a patch the first that exists.

    Where none does it keeps them all, and fails by the first when it is applied.
    """
    if len(patch.candidates) > 1:
        there = candidates
        if len(candidates) > 1:
            there = [each for each in candidates if environment.exists(each.target)]
        kept = there[:1] or candidates
        patch = replace(patch, target=kept[0].target, candidates=tuple(kept))
    find = environment.addition if patch.operation == "add" else environment.provided
    where = find(patch.target)
    return patch if where == patch.target else replace(patch, target=where)


def _grouped(decisions: Sequence[Decision]) -> list[Decision]:
    """Skip every patch that belongs together with one that is skipped."""
    skipped: dict[str, Decision] = {}
    for decision in decisions:
        if decision.patch.group and not decision.armed:
            skipped.setdefault(decision.patch.group, decision)
    return [
        Decision(decision.patch, "together", f"together with {cause.patch.id!r}: {cause.reason}")
        if decision.armed and (cause := skipped.get(decision.patch.group or "")) is not None
        else decision
        for decision in decisions
    ]


def _compared(decision: Decision, environment: Environment, settings: Settings) -> Decision:
    """Do with a patch that is not as it was locked what the settings ask."""
    unlike = environment.unlike_locked(decision.patch) if decision.armed else None
    if unlike is None or settings.lock is None:
        return decision
    if settings.lock.mode == "warn":
        return replace(decision, notes=(unlike.reason,))
    return Decision(decision.patch, "lock", unlike.reason, remedy=unlike.remedy)


def _unmet(requirement: "Requirement", environment: Environment) -> str | None:
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    version = environment.installed(requirement.name)
    asked = written_requirement(requirement)
    if version is None:
        return f"requires {asked}, which is not installed"
    try:
        found = Version(version)
        forms = (found, Version(found.public))  # a local part counts where one is asked for
        met = any(requirement.specifier.contains(form, prereleases=True) for form in forms)
    except InvalidVersion:  # a version from the time before PEP 440
        met = not requirement.specifier
    return None if met else f"requires {asked}, and {version} is installed"


def _holds(patch: Patch, environment: Environment) -> bool:
    assert patch.when is not None
    try:
        with without_heavy_imports():
            return bool(patch.when(environment))
    except Exception as error:
        raise DeclarationError(
            f"{patch.location}: the condition `when` of patch {patch.id!r} raised "
            f"{type(error).__name__}: {error}. Mend it, or exclude the patch with "
            f"VLLM_GRAFT_PATCHES=-{patch.id}."
        ) from error


def _conflicts(armed: Iterable[Patch]) -> list[ConflictError]:
    claimed: dict[Target, list[Patch]] = {}
    found = []
    for patch in armed:
        if patch.operation in EXCLUSIVE:
            for rival in claimed.setdefault(patch.target, []):
                try:
                    raise_if_conflicting(rival, patch)
                except ConflictError as error:
                    found.append(error)
            claimed[patch.target].append(patch)
    return found


def _unknown_version(
    armed: Iterable[Patch], vllm: VllmVersion, settings: Settings
) -> list[UnknownVersionError]:
    required = [patch.id for patch in armed if is_required(patch, settings)]
    if vllm.version is not None or not required:
        return []
    return [
        UnknownVersionError(
            f"the version of vLLM is unknown: {vllm}. The required patches "
            f"{', '.join(required)} cannot be chosen by version. Set VLLM_VERSION to the release "
            "that this build behaves like, for example VLLM_VERSION=0.32.0, or exclude them with "
            "VLLM_GRAFT_PATCHES."
        )
    ]


def _beyond_known(decisions: Iterable[Decision], vllm: VllmVersion) -> tuple[str, ...]:
    skipped = [
        decision.patch.id
        for decision in decisions
        if decision.patch.set_name in BUILTIN and decision.cause == "version"
    ]
    if vllm.matches(KNOWN) or not skipped:
        return ()
    return (
        f"built-in patches know vLLM {written(KNOWN)}, and this is {vllm}; "
        f"skipped: {', '.join(skipped)}",
    )


def _unused_globs(catalog: Catalog, settings: Settings) -> tuple[str, ...]:
    """Warn of globs that select nothing: a typing mistake there switches patches off in silence."""
    ids = [patch.id for patch in catalog.patches] + [f"{each.name}/*" for each in catalog.broken]
    globs = (*settings.selection.include, *settings.selection.exclude)
    return tuple(
        f"VLLM_GRAFT_PATCHES has {glob!r}, which matches no installed patch"
        for glob in globs
        if not any(fnmatchcase(name, glob) for name in ids)
    )
