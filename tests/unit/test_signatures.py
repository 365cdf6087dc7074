"""Whether one function can stand in for another: every way to call it, tried on small ones."""

import inspect
import itertools
from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any

import pytest

from vllm_graft.signatures import first_by_place, obstacle, signature, with_original


def of(parameters: str) -> Signature:
    """Return the signature of a function with these parameters."""
    return inspect.signature(eval(f"lambda {parameters}: None"))


FITS = [
    # the target's parameters, the replacement's
    ("", ""),
    ("a, b=1", "a, b=1"),
    ("a, b=1", "a, b=2"),
    ("a, b=1", "a=1, b=1"),
    ("a, b", "*args, **kwargs"),
    ("a, b=1, *args, c, d=1, **kwargs", "*args, **kwargs"),
    ("a, b=1, *args, c, d=1, **kwargs", "a, b=1, *args, c, d=1, **kwargs"),
    ("a", "a, *args, **kwargs"),
    ("a, b=1", "a, *args, **kwargs"),
    # more than the target has, all of it optional
    ("a", "a, b=1"),
    ("a", "a, *, b=1"),
    ("a, **kwargs", "a, b=1, *, c=1, **kwargs"),
    # positional-only arguments have no names to keep
    ("a, /", "a"),
    ("a, /", "other"),
    ("a, b, /", "b, a"),
    ("a, /, b", "other, /, b"),
    # keyword-only arguments have no places to keep
    ("*, a", "a"),
    ("*, a, b", "b, a"),
    ("*, a, b=1", "*, b=1, a"),
    ("*, a", "**kwargs"),
    ("a, *, b=1", "a, b=1"),
    # what has another name can be taken in **kwargs
    ("a", "other=1, **kwargs"),
    ("*args", "*others"),
    ("**kwargs", "**others"),
    ("*args, **kwargs", "a=1, *args, **kwargs"),
]

DOES_NOT_FIT = [
    # the target's parameters, the replacement's, a call that fails and why
    ("a", "", "(a=…) it fails: got an unexpected keyword argument 'a'"),
    ("a, b", "a", "(a=…, b=…) it fails: got an unexpected keyword argument 'b'"),
    ("a, b, /", "a", "(a, b) it fails: too many positional arguments"),
    ("a", "*args", "(a=…) it fails: got an unexpected keyword argument 'a'"),
    ("a", "a, /", "(a=…) it fails: "),
    ("a, b", "b, /, **kwargs", "it fails: "),
    ("a", "*, a", "(a) it fails: too many positional arguments"),
    ("a", "*args, a", "(a) it fails: missing a required"),
    # renamed
    ("a", "other", "(a=…) it fails: missing a required argument: 'other'"),
    ("a=1", "other=1", "(a=…) it fails: got an unexpected keyword argument 'a'"),
    ("a", "other, **kwargs", "(a=…) it fails: missing a required argument: 'other'"),
    ("*, a", "*, other", "(a=…) it fails: missing a required"),
    # reordered, or with another argument in between
    ("a, b", "b, a", "(a, b=…) it fails: multiple values for argument 'b'"),
    ("a, b=1", "a, other=1, b=1", "(a, b) it takes 'b' for 'other'"),
    ("a=1, b=1", "b=1, a=1", "(a) it takes 'a' for 'b'"),
    # needs what calls may leave out
    ("a", "a, b", "(a=…) it fails: missing a required argument: 'b'"),
    ("a, b=1", "a, b", "(a=…) it fails: missing a required argument: 'b'"),
    ("a", "a, *, b", "(a=…) it fails: missing a required"),
    ("*, a, b=1", "*, a, b", "(a=…) it fails: missing a required"),
    ("a=1, /", "a, /", "() it fails: missing a required"),
    ("*args", "a, *args", "() it fails: missing a required argument: 'a'"),
    # takes less
    ("a, *, b=1", "a", "(a, b=…) it fails: got an unexpected keyword argument 'b'"),
    ("*args", "a=1, b=1", "(…, …, …) it fails: too many positional arguments"),
    ("a, *args", "a, **kwargs", "(a, …) it fails: too many positional arguments"),
    ("**kwargs", "a=1", "(…=…) it fails: got an unexpected keyword argument '…'"),
    ("a, **kwargs", "a, *args", "(a, …=…) it fails: got an unexpected keyword argument '…'"),
    ("*args, a", "a, *args", "it fails: multiple values for argument 'a'"),
]


@pytest.mark.parametrize(("target", "replacement"), FITS)
def test_a_replacement_that_takes_every_call_has_no_obstacle(target: str, replacement: str) -> None:
    """Names, places and defaults may differ as long as no call of the target notices."""
    assert obstacle(of(target), of(replacement)) is None


@pytest.mark.parametrize(("target", "replacement", "message"), DOES_NOT_FIT)
def test_a_replacement_that_refuses_a_call_is_told_which(
    target: str, replacement: str, message: str
) -> None:
    """The obstacle is a call of the target, and what Python would say to it."""
    problem = obstacle(of(target), of(replacement))

    assert problem is not None
    assert message in problem


def small_signatures() -> Iterator[Signature]:
    """Yield all signatures with up to two named parameters, *args and **kwargs.

    Not those that `Signature.bind` gets wrong in some releases of Python (python/cpython#87106):
    positional-only with a default, or before **kwargs.
    """
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    several = [Parameter("args", Parameter.VAR_POSITIONAL)]
    named = [Parameter("kwargs", Parameter.VAR_KEYWORD)]
    for names in ("", "a", "b", "ab", "ba"):
        for chosen in itertools.product(itertools.product(kinds, (Parameter.empty, 1)), repeat=2):
            parameters = [
                Parameter(name, kind, default=default)
                for name, (kind, default) in zip(names, chosen, strict=False)
            ]
            by_place = [each for each in parameters if each.kind is Parameter.POSITIONAL_ONLY]
            if any(each.default == 1 for each in by_place):
                continue
            for first, last in itertools.product(([], several), ([],) if by_place else ([], named)):
                ordered = sorted([*parameters, *first, *last], key=lambda each: each.kind)
                try:
                    yield Signature(ordered)
                except ValueError:  # an argument without a default behind one that has it
                    continue


CALLS = [
    (tuple(range(places)), names)
    for places in range(4)
    for number in range(4)
    if places + number < 5
    for names in itertools.combinations("abz", number)
]
"""All calls with up to four arguments; z is the name of no parameter."""

Taken = dict[str, Any]


def taken(signature: Signature) -> list[Taken | None]:
    """Return for each call which parameters get what; None for calls that fail."""
    answers: list[Taken | None] = []
    for places, names in CALLS:
        try:
            answers.append(
                signature.bind(*places, **dict(zip(names, names, strict=True))).arguments
            )
        except TypeError:
            answers.append(None)
    return answers


def keywords(signature: Signature) -> set[str]:
    """Return the names under which arguments can be given."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {each.name for each in signature.parameters.values() if each.kind in kinds}


def refuses(
    target: Signature,
    replacement: Signature,
    theirs: list[Taken | None],
    ours: list[Taken | None],
) -> bool:
    """Tell whether a call of the target fails, or gives a named argument to another one."""
    common = keywords(target) & keywords(replacement)
    for (_, names), before, after in zip(CALLS, theirs, ours, strict=True):
        if before is None or (set(names) - keywords(target)) & keywords(replacement):
            continue  # names in the target's **kwargs: see the docstring of obstacle
        if after is None or any(
            value == other and name != there and common & {name, there}
            for name, value in before.items()
            for there, other in after.items()
        ):
            return True
    return False


def test_all_small_signatures_are_judged_as_python_binds_them() -> None:
    """There is an obstacle exactly where some call of up to four arguments fails."""
    signatures = {str(each): each for each in small_signatures()}.values()
    answered = [(each, taken(each)) for each in signatures]
    assert len(answered) > 100

    for (target, theirs), (replacement, ours) in itertools.product(answered, repeat=2):
        problem = obstacle(target, replacement)
        expected = refuses(target, replacement, theirs, ours)
        assert (problem is not None) == expected, f"{target} by {replacement}: {problem}"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("self, a", "(self, /, a)"),
        ("self, /, a", "(self, /, a)"),
        ("*args", "(*args)"),
        ("*, a", "(*, a)"),
        ("", "()"),
    ],
)
def test_self_is_given_by_place(parameters: str, expected: str) -> None:
    """Nobody calls a method with self=…, so the replacement may name it as it likes."""
    assert str(first_by_place(of(parameters))) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", "(original, /)"),
        ("a, /, b=1", "(original, a, /, b=1)"),
        ("original", "(_original, /, original)"),
    ],
)
def test_a_wrap_is_given_the_original_by_place(parameters: str, expected: str) -> None:
    """In front of the target's arguments, whatever these are called."""
    assert str(with_original(of(parameters))) == expected


def test_what_python_cannot_tell_is_no_signature() -> None:
    """Built-in functions without one, and annotations that fail, hinder nothing."""
    assert signature(max) is None
    assert signature(len) == inspect.signature(len)
