"""Whether one function can be called in every way that another one can, and what a call gives."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORD = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_ANY = "…"
"""Stands for an argument that only `*args` or `**kwargs` takes; no parameter has this name."""


def signature(function: Callable[..., Any]) -> Signature | None:
    """Return the signature of a function or class; None where Python does not know it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError, NameError):  # built-in, or annotated with names not there
        return None


def flavour(function: Callable[..., Any]) -> str:
    """Return what calling a function gives: plain, coroutine, generator, async generator."""
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        function = type(function).__call__
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else "plain"


def flavours(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return what a call may give: a plain decorator hands on what a coroutine function gives.

    Not so generators: behind a plain decorator they are context managers more often than not.
    """
    outer = flavour(function)
    try:
        hidden = outer == "plain" and flavour(inspect.unwrap(function)) == "coroutine"
    except ValueError:  # it wraps itself
        hidden = False
    return (outer, "coroutine") if hidden else (outer,)


def of_instances(cls: type, first: str) -> Signature | None:
    """Return how `object.__init__` or `object.__new__` is called when instances are made."""
    called = signature(cls)
    if called is None:
        return None
    parameter = Parameter(first, Parameter.POSITIONAL_ONLY)
    return called.replace(
        parameters=[parameter, *called.parameters.values()], return_annotation=Signature.empty
    )


def first_by_place(signature: Signature) -> Signature:
    """Return the signature of a method as it is called: self or cls has a place, but no name."""
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in _POSITIONAL:
        parameters[0] = parameters[0].replace(kind=Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=parameters)


def with_original(signature: Signature) -> Signature:
    """Return a signature with another argument in front, as implementations of `wrap` get it."""
    name = "original" if "original" not in signature.parameters else "_original"
    first = Parameter(name, Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=[first, *signature.parameters.values()])


def obstacle(target: Signature, replacement: Signature) -> str | None:
    """Say which call of the target fails with the replacement; None where none does.

    A call that succeeds counts as failed where an argument given by position gets to a parameter
    of another name although there is one of its own: it would mean something else. What the target
    takes in `**kwargs` only is not tried under the names of the replacement's parameters, so that
    `(a=None, *args, **kwargs)` may stand in for `(*args, **kwargs)`.
    """
    common = _keywords(target) & _keywords(replacement)
    for by_place, by_name in _calls(target, len(replacement.parameters)):
        call = ", ".join([*by_place, *(f"{name}=…" for name in by_name)])
        try:
            bound = replacement.bind(*by_place, **{name: name for name in by_name})
        except TypeError as error:
            return f"called with ({call}) it fails: {error}"
        for name, value in bound.arguments.items():
            if isinstance(value, str) and name != value and not common.isdisjoint((name, value)):
                return f"called with ({call}) it takes {value!r} for {name!r}"
    return None


def _calls(target: Signature, more: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield calls as the names given by position and by name; if these succeed, all calls do.

    By the rules of binding (language reference, "Calls") what fails is a number of positional
    arguments, a missing argument, or one name behind so many positional arguments: the more of
    these, the sooner.
    """
    parameters = list(target.parameters.values())
    places = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    others = [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    given = [parameter.name for parameter in places]
    if _has(parameters, Parameter.VAR_POSITIONAL):
        given += [_ANY] * (more + 1)
    for count in range(len(given) + 1):
        left = places[count:]
        if any(each.kind is Parameter.POSITIONAL_ONLY and _is_needed(each) for each in left):
            continue
        needed = [each.name for each in (*left, *others) if _is_needed(each)]
        yield given[:count], needed
        for each in left[:1] or others:
            if each.kind in _KEYWORD and not _is_needed(each):
                yield given[:count], [*needed, each.name]
    if _has(parameters, Parameter.VAR_KEYWORD):
        yield given, [*needed, _ANY]


def _keywords(signature: Signature) -> set[str]:
    return {each.name for each in signature.parameters.values() if each.kind in _KEYWORD}


def _is_needed(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty


def _has(parameters: list[Parameter], kind: Any) -> bool:
    return any(parameter.kind is kind for parameter in parameters)
