"""What becomes of one patch on one vLLM: the verdict, and what it rests on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..patch import Candidate, Patch
from ..target import Target
from ..version import VllmVersion
from .cache import CachedResolver
from .calls import refused_call
from .example import AnyExample, likely_moves
from .implementation import Implementation, implementation, lack
from .resolution import Move, Resolution

State: TypeAlias = Literal["ok", "out-of-range", "missing", "moved", "signature", "kind", "unknown"]

ExampleOf: TypeAlias = Callable[[Target], AnyExample | None]
"""Answers how a target is defined in a release that has it."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a patch on one vLLM.

    `fit` is the answer whatever the declared range says: `ok` where it would land. `in_range` is
    None where the version is unknown. `target` is the candidate that was chosen. `compared` names
    what shows how a missing target was defined, `hint` says what it may have been meant to be.
    """

    patch: Patch
    target: Target
    version: VllmVersion
    fit: State
    reason: str = ""
    in_range: bool | None = None
    resolution: Resolution | None = None
    moves: tuple[Move, ...] = ()
    compared: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    signatures: tuple[str, str] | None = None
    """Those of the target and of the implementation, where they do not go together."""

    @property
    def state(self) -> State:
        """The verdict: a version out of the declared range comes before everything else."""
        return "out-of-range" if self.in_range is False else self.fit

    @property
    def explained(self) -> str:
        """The reason, and what a missing target may have been meant to be."""
        return ". ".join(filter(None, [self.reason, self.hint]))


def judge(patch: Patch, resolver: CachedResolver, example: ExampleOf = lambda _: None) -> Verdict:
    """Return the verdict of a patch on one tree; raise `SourceError` where that cannot be read."""
    version = resolver.version
    target, resolution = placed(patch, resolver, version)
    in_range = None if version.version is None else version.matches(patch.vllm)
    finding = _Finding("ok")
    if patch.operation == "add":
        finding = _addable(target, resolver, resolution)
    elif resolution.state == "unknown":
        finding = _Finding("unknown", resolution.reason)
    elif resolution.state == "missing":
        finding = _missing(patch, target, resolver, resolution, example)
    elif resolution.is_lazy and resolution.where == target:
        finding = _computed(target, resolution)
    elif patch.operation != "run":
        finding = _fitting(patch, target, resolution)
    if finding.fit == "ok" and patch.lazy is not None:
        finding = _without_implementation(Target.parse(patch.lazy)) or finding
    return Verdict(
        patch=patch,
        target=target,
        version=version,
        fit=finding.fit,
        reason=finding.reason,
        in_range=in_range,
        resolution=resolution,
        moves=finding.moves,
        compared=finding.compared,
        hint=finding.hint,
        notes=(*resolution.steps, *finding.notes),
        signatures=finding.signatures,
    )


@dataclass(frozen=True)
class _Finding:
    fit: State
    reason: str = ""
    moves: tuple[Move, ...] = ()
    compared: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    signatures: tuple[str, str] | None = None


def placed(
    patch: Patch, resolver: CachedResolver, version: VllmVersion
) -> tuple[Target, Resolution]:
    """Return the first target for the version that exists, or else the first, and what it is."""
    candidates = patch.candidates or (Candidate(patch.target),)
    for_version = [
        each for each in candidates if each.vllm is None or version.matches(each.vllm)
    ] or list(candidates)
    answers = [(each.target, resolver.resolve(each.target)) for each in for_version[:1]]
    if answers[0][1].state == "missing":
        answers += [(each.target, resolver.resolve(each.target)) for each in for_version[1:]]
    return next((each for each in answers if each[1].state != "missing"), answers[0])


def _addable(target: Target, resolver: CachedResolver, resolution: Resolution) -> _Finding:
    if resolution.state == "found" and not resolution.is_lazy:
        return _Finding("kind", f"{target} exists already, so `add` has nothing to add")
    if resolution.state == "unknown":
        return _Finding("unknown", resolution.reason)
    parent = resolver.resolve(Target(target.module, target.parent))
    if parent.state != "found":
        state: State = "missing" if parent.state == "missing" else "unknown"
        return _Finding(state, parent.reason, hint=parent.hint)
    return _Finding("ok")


def _missing(
    patch: Patch,
    target: Target,
    resolver: CachedResolver,
    resolution: Resolution,
    example: ExampleOf,
) -> _Finding:
    known = example(target)
    if resolution.meant and known is None:  # nobody has ever had it under that name
        return _Finding("missing", resolution.reason, hint=resolution.hint)
    found = resolver.moves(target, known)
    compared = known.of if known is not None else ""
    likely = likely_moves(found, target, known)
    if likely:
        return replace(_moved(patch, resolver, resolution, likely, known), compared=compared)
    others = ", ".join(map(str, found[:3]))
    notes = (f"the same name is at {others}",) if others else ()
    hint = "" if known is not None else resolution.hint  # what another vLLM has is not misspelt
    return _Finding("missing", resolution.reason, compared=compared, hint=hint, notes=notes)


def _moved(
    patch: Patch,
    resolver: CachedResolver,
    resolution: Resolution,
    likely: list[Move],
    known: AnyExample | None,
) -> _Finding:
    """Say where a target is now, and whether the patch would fit there.

    A definition that a module has only ceased to import has not moved: what called it there calls
    something else.
    """
    place = likely[0].target
    there = _Finding("ok")
    if patch.operation != "run":
        there = _fitting(patch, place, resolver.resolve(place))
    fits = "where it would fit" if there.fit == "ok" else f"where it would not fit: {there.reason}"
    reason = f"{resolution.reason}; it is at {likely[0]}, {fits}"
    target = resolution.target
    was_imported = known is not None and place == known.where and not target.parent
    if was_imported and resolver.tree.locate(target.module) is not None:
        reason = (
            f"{target.module} no longer imports {target.name!r}; it is still at {likely[0]}, {fits}"
            ", but for other callers"
        )
    return _Finding("moved", reason, tuple(likely), signatures=there.signatures)


def _without_implementation(reference: Target) -> _Finding | None:
    """Refuse a lazy implementation that cannot be there."""
    found = lack(reference)
    if found is None:
        return None
    return _Finding("kind" if found.is_certain else "unknown", found.reason)


def _computed(target: Target, found: Resolution) -> _Finding:
    change = f" and change {found.computed_by} there" if found.computed_by else ""
    return _Finding(
        "kind",
        f"{target.module} computes {target.name!r} each time it is asked, so there is nothing to "
        f"put anything in the place of. Use `run` on {target.module!r}{change}",
    )


def _fitting(patch: Patch, target: Target, found: Resolution) -> _Finding:
    """Tell whether the operation fits what is there, and the implementation how it is called."""
    if found.peculiarity == "property part":
        return _Finding(
            "kind", _IN_PROPERTY.format(target.name, f"{target.module}:{target.parent}")
        )
    if patch.operation == "set":
        return _settable(target, found)
    if patch.operation == "subclass" and found.peculiarity in _NO_SUBCLASS:
        return _Finding("kind", _NO_SUBCLASS[found.peculiarity])
    if found.kind == "outside":
        return _Finding("ok", notes=(f"what {found.where} is cannot be told from here",))
    if patch.operation == "subclass":
        return _Finding("ok") if found.kind == "class" else _no_class(found)
    if found.peculiarity == "cache method":
        return _Finding("kind", f"{found.where} is a method of functools' cache. Use `set`")
    given = implementation(patch)
    if found.kind == "class":
        return _class(patch, found, given)
    if found.kind not in ("function", "method", "staticmethod", "classmethod", "property"):
        return _no_function(found)
    if _through_instance(found):
        return _Finding(
            "kind",
            f"{target.module}:{target.parent} is an object, and {target.name!r} of its class "
            f"would not be bound there. Patch {str(found.where)!r}",
        )
    return _flavoured(patch, found, given) or _called(patch, target, found, given)


_IN_PROPERTY = (
    "{!r} of a property lets itself not be set. A `wrap` of {!r} is around its getter; for the "
    "setter use `run` on the module, and put a new property there"
)


_NO_SUBCLASS: dict[str, str] = {
    "enum": "it is an Enum with members, of which no class can inherit. Patch its methods",
    "struct": "it is a msgspec.Struct, whose decoders make instances without calling the class. "
    "Patch its methods",
    "typed dict": "it is a TypedDict, whose subclasses do not inherit from it. Use `replace`",
    "fixed": "it is a class of compiled code, which lets no attribute be set. Use `replace`",
}


def _settable(target: Target, found: Resolution) -> _Finding:
    if found.peculiarity == "enum member" and not _through_instance(found):
        return _Finding(
            "kind", f"{found.where} is a member of an Enum, which lets none be set. Patch its users"
        )
    return _Finding("ok")


def _class(patch: Patch, found: Resolution, given: Implementation) -> _Finding:
    if patch.operation == "wrap":
        return _Finding("kind", "it is a class. Patch its methods, or use `subclass`")
    if patch.lazy is None and not given.is_class:
        return _Finding("kind", "it is a class, and the implementation is not")
    return _against(found, given, wraps=False, is_method=False)


def _called(patch: Patch, target: Target, found: Resolution, given: Implementation) -> _Finding:
    is_method = bool(target.parent) and found.kind != "staticmethod"
    return _against(found, given, wraps=patch.operation == "wrap", is_method=is_method)


def _against(found: Resolution, given: Implementation, *, wraps: bool, is_method: bool) -> _Finding:
    if given.takes_all and found.kind != "class" and not wraps:
        return _Finding("ok", notes=(f"how {given.name} is called is only known when it is",))
    theirs, ours = found.parameters, given.signature
    if theirs is None or ours is None:
        return _Finding("ok", notes=(given.note,) if given.note else ())
    problem = refused_call(theirs, ours, wraps=wraps, is_method=is_method)
    if problem is None:
        return _Finding("ok")
    shown = (str(found.signature), f"{given.name}{ours}")
    return _Finding("signature", problem, signatures=shown)


def _flavoured(patch: Patch, found: Resolution, given: Implementation) -> _Finding | None:
    """Refuse an implementation that gives a coroutine where the target does not, and the like."""
    theirs, ours = found.flavour, given.flavour
    allowed = {theirs} | ({"plain"} if patch.operation == "wrap" or found.hidden else set())
    if theirs is None or ours is None or ours in allowed:
        return None
    return _Finding("kind", f"it is a {theirs} function, and the implementation a {ours} function")


def _no_class(found: Resolution) -> _Finding:
    if found.kind == "variable" and found.computed:
        return _Finding("unknown", f"{found.where} is what an expression gives at run time")
    return _Finding("kind", f"it is {_a(found)}, not a class")


def _no_function(found: Resolution) -> _Finding:
    if found.kind == "variable" and found.computed:
        return _Finding("unknown", f"{found.where} is what an expression gives at run time")
    return _Finding("kind", f"it is {_a(found)}, not a function, method or property. Use `set`")


def _through_instance(found: Resolution) -> bool:
    return any(step.startswith("through ") for step in found.steps)


def _a(found: Resolution) -> str:
    article = "an" if found.kind and found.kind[0] in "aeiou" else "a"
    return f"{article} {found.kind}"
