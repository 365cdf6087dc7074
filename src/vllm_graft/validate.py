"""Reading one declaration: every keyword checked, every mistake with its place and its remedy."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from .errors import DeclarationError
from .patch import ROLES, Candidate, Location, Operation, Patch, PatchOptions
from .ranges import written_requirement
from .target import Target, is_lazy, is_module

if TYPE_CHECKING:
    from datetime import date

_T = TypeVar("_T")

NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
"""What the two parts of a patch id look like: the set's name and the patch's."""

_PROSE = {
    "why": "what goes wrong without the patch",
    "how": "what the patch does about it",
    "upstream": "the upstream issue or pull request, or that there is none and why",
    "remove": "when the patch can be deleted",
}

_KEYWORDS = tuple(PatchOptions.__annotations__)
_REQUIRED = ("vllm", *_PROSE)


def mistake(location: Location, problem: str, remedy: str) -> DeclarationError:
    """Return the error for a declaration at a place."""
    return DeclarationError(f"{location}: {problem}. {remedy}")


def build(
    set_name: str,
    operation: Operation,
    target: str,
    implementation: Any,
    options: PatchOptions,
    location: Location,
) -> Patch:
    """Make a patch of one call; raise `DeclarationError` for the first mistake in it."""
    try:
        _check_keywords(options)
        candidates = _candidates(operation, target)
        parsed = candidates[0].target
        _check_implementation(operation, implementation)
        name = options.get("id", _default_name(operation, parsed, implementation))
        return Patch(
            id=f"{set_name}/{_name(name)}",
            operation=operation,
            target=parsed,
            implementation=implementation,
            vllm=_specifier(options["vllm"]),
            why=options["why"].strip(),
            how=options["how"].strip(),
            upstream=options["upstream"].strip(),
            remove=options["remove"].strip(),
            location=location,
            required=_typed("required", options.get("required", True), bool),
            process=_roles(options.get("process")),
            when=_condition(options.get("when")),
            requirements=tuple(
                map(_requirement, _strings("requires", options.get("requires", ())))
            ),
            order=_typed("order", options.get("order", 0), int),
            after=tuple(
                entry if "/" in entry else f"{set_name}/{entry}"
                for entry in _strings("after", options.get("after", ()))
            ),
            together=_together(options.get("together")),
            candidates=candidates,
            fixed_by=_probe(options.get("fixed_by")),
            review=_review(options.get("review")),
        )
    except _Mistake as found:
        problem = f"{operation} of {target!r}: {found.problem}"
        raise mistake(location, problem, found.remedy) from None


class _Mistake(Exception):
    """A mistake found while a declaration is read, before its place is known."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


def _check_keywords(options: PatchOptions) -> None:
    for key in options:
        if key not in _KEYWORDS:
            raise _Mistake(f"unknown keyword {key!r}", _suggestion(key))
    for key in _REQUIRED:
        value = options.get(key)
        if not isinstance(value, str) or not value.strip():
            given = "is missing" if key not in options else f"is {value!r}"
            meaning = _PROSE.get(
                key, "the vLLM versions that the patch is for, like '>=0.27,<0.33'"
            )
            raise _Mistake(f"keyword {key!r} {given}", f"Say in {key}= {meaning}.")


def _suggestion(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, _KEYWORDS, 1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}The keywords are {', '.join(_KEYWORDS)}."


def _candidates(operation: Operation, text: str) -> tuple[Candidate, ...]:
    if not isinstance(text, str):
        raise _no_target()
    parts = [part.strip() for part in text.split("|")]
    return tuple(_candidate(operation, part) for part in parts)


def _candidate(operation: Operation, text: str) -> Candidate:
    match = _CANDIDATE.fullmatch(text)
    if match is None:
        raise _no_target()
    versions = _specifier(match[2]) if match[2] else None
    return Candidate(_target(operation, match[1]), versions)


_CANDIDATE = re.compile(r"([^\s<>=!~]+)\s*([<>=!~].*)?")


def _no_target() -> _Mistake:
    return _Mistake(
        "the target is not of the form 'module:qualname'",
        "Write for example 'vllm.v1.core.sched.scheduler:Scheduler.schedule', or several of "
        "them as 'vllm.a:f >=0.27,<0.30 | vllm.b:f'.",
    )


def _target(operation: Operation, text: str) -> Target:
    try:
        target = Target.parse(text)
    except (TypeError, ValueError):
        raise _no_target() from None
    if operation == "run" and target.qualname:
        raise _Mistake(
            "the target of `run` is a module, not a name in it",
            f"Write {target.module!r}; the function is given that module.",
        )
    if operation != "run" and not target.qualname:
        raise _Mistake(
            "the target has no qualified name",
            f"Write '{text}:<name>', or use `run`, which takes the whole module.",
        )
    return target


def _together(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not NAME.fullmatch(value)):
        raise _Mistake(
            f"together={value!r} is no name",
            "Give the patches that belong together one name, as in together='kv-cross-cp'.",
        )
    return value


def _check_implementation(operation: Operation, implementation: Any) -> None:
    if operation in ("add", "set") or is_lazy(implementation):
        return
    if operation == "run" and isinstance(implementation, str) and is_module(implementation):
        return
    if callable(implementation):
        return
    if isinstance(implementation, (classmethod, property)):
        raise _Mistake(
            f"the implementation is a {type(implementation).__name__}",
            "Give its function: what the target is in its class is kept.",
        )
    raise _Mistake(
        f"the implementation is {implementation!r}",
        "Give a function or class, or where to import it from as 'module:qualname'"
        + (" or 'module'." if operation == "run" else "."),
    )


def _default_name(operation: Operation, target: Target, implementation: Any) -> str:
    name: str = target.name
    if isinstance(implementation, str):
        if operation == "run" or is_lazy(implementation):
            name = Target.parse(implementation).name
    elif getattr(implementation, "__name__", "<lambda>") != "<lambda>":
        name = implementation.__name__
    return name.strip("_").replace("_", "-").lower()


def _name(text: str) -> str:
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise _Mistake(
            f"the id is {text!r}",
            "Give the part after the set's name, in lower case, as in id='kv-block-sizes'.",
        )
    return text


@functools.lru_cache  # a set has the same range over and over
def _specifier(text: str) -> SpecifierSet:
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        raise _Mistake(
            f"vllm={text!r} is not a version specifier", "Write for example vllm='>=0.27,<0.33'."
        ) from None
    return specifiers


_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A distribution of any version (PEP 508). The parser for more takes as long as all patches."""


def _requirement(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return written_requirement(Requirement(text))
    except InvalidRequirement as error:
        raise _Mistake(
            f"requires={text!r} is not a requirement ({str(error).splitlines()[0]})",
            "Write for example requires='torch>=2.11,<2.12'.",
        ) from None


def _strings(key: str, value: Any) -> tuple[str, ...]:
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, Iterable) or not all(isinstance(item, str) for item in values):
        raise _Mistake(f"{key}={value!r}", "Give a string or several.")
    return tuple(values)


def _roles(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    roles = _strings("process", value)
    for role in roles:
        if role not in ROLES:
            raise _Mistake(f"process={value!r} has {role!r}", f"The roles are {', '.join(ROLES)}.")
    if not roles:
        raise _Mistake("process=() names no role", "Leave it out for every process.")
    return frozenset(roles)


def _condition(value: Any) -> Any:
    if value is not None and not callable(value):
        raise _Mistake(f"when={value!r}", "Give a function of the Environment that returns a bool.")
    return value


def _probe(value: Any) -> "Version | Callable[..., object] | str | None":
    if value is None or callable(value) or is_lazy(value):
        probe: Callable[..., object] | str | None = value
        return probe
    try:
        return Version(value)
    except (InvalidVersion, TypeError):
        raise _Mistake(
            f"fixed_by={value!r} is neither a version nor a function",
            "Give the release that has the fix, as in fixed_by='0.33.0', or a function of the "
            "target's source that tells whether it has it.",
        ) from None


def _review(value: Any) -> "date | None":
    from datetime import date  # few patches have one

    if value is None or type(value) is date:
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise _Mistake(
            f"review={value!r} is no date", "Write for example review='2027-03-01'."
        ) from None


def _typed(key: str, value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise _Mistake(f"{key}={value!r}", f"Give a value of type {kind.__name__}.")
    return value
