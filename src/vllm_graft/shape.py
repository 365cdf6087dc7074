"""Functions and descriptors in the shape of those they take the place of.

Every function made here is a plain Python function: `torch.compile` traces through those, while
it drops a `wrapt.FunctionWrapper` without an error (VLLM's compiled forwards call patched code).
"""

import functools
import sys
import types
from collections.abc import AsyncIterator, Callable, Generator
from inspect import Signature
from typing import Any

from .errors import SignatureError, TargetKindError
from .signatures import (
    first_by_place,
    flavour,
    flavours,
    obstacle,
    of_instances,
    signature,
    with_original,
)
from .target import Target, find, is_class

Function = Callable[..., Any]

_CACHE_METHODS = ("cache_info", "cache_clear", "cache_parameters")


def wrap(raw: Any, implementation: Function, target: Target) -> Any:
    """Return a closure over the original that calls `implementation(original, ...)`."""

    def closure(original: Function) -> Function:
        _check_flavour(original, implementation, "plain")
        check_call(original, implementation, target, raw, wraps=True)
        function = _BY_FLAVOUR[flavour(original)](original, implementation)
        functools.update_wrapper(function, original)
        return _showing(function, original, target) if _of_object(original) else function

    return _like(raw, closure, target)


def replace(raw: Any, implementation: Function, target: Target) -> Any:
    """Return a copy of the implementation under the name of what it replaces."""

    def copy(original: Function) -> Function:
        _check_flavour(original, implementation)
        function = _plain(implementation)
        check_call(original, function, target, raw)
        own = dict(vars(function))
        functools.update_wrapper(function, original, NAMES)
        vars(function).pop("__wrapped__")
        vars(function).update(own)
        return _showing(function, original, target)

    return _like(raw, copy, target)


NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def _called(original: Function, target: Target) -> Signature | None:
    """Return the signature of an original; what each class has from `object` is called as it is."""
    first = _of_object(original)
    if first and _is_in_class(target):
        return of_instances(find(sys.modules.get(target.module), target.parent), first)
    return signature(original)


def _is_in_class(target: Target) -> bool:
    return is_class(find(sys.modules.get(target.module), target.parent))


def _of_object(original: Any) -> str | None:
    """Return the first argument of what a class has that defines no `__init__` or `__new__`."""
    if original is object.__init__:
        return "self"
    return "cls" if original is object.__new__ else None


def _showing(function: Function, original: Function, target: Target) -> Function:
    """Let a function show the signature of the original, whatever its own is."""
    called = _called(original, target)
    if called is not None and called != signature(function):
        vars(function)["__signature__"] = called
    return function


def rename(cls: type, original: type, target: Target) -> type:
    """Give a class the name, qualified name, module and documentation of another."""
    cls.__name__ = original.__name__
    cls.__module__, cls.__qualname__ = _home(original, target)
    if cls.__doc__ is None:
        cls.__doc__ = original.__doc__
    return cls


def check_call(
    original: Function,
    implementation: Function,
    target: Target,
    raw: Any = None,
    *,
    wraps: bool = False,
) -> None:
    """Raise `SignatureError` where some call of the original is one that the other refuses."""
    theirs, ours = _called(original, target), signature(_inner(implementation))
    if theirs is None or ours is None:
        return
    called = theirs
    if (
        target.parent
        and not isinstance(raw, (staticmethod, *_BOUND))
        and not isinstance(original, type)
    ):
        called = first_by_place(called)
    problem = obstacle(with_original(called) if wraps else called, ours)
    if problem:
        raise SignatureError(
            f"the target is {original.__qualname__}{theirs} and the implementation "
            f"{getattr(implementation, '__qualname__', repr(implementation))}{ours}: {problem}. "
            "Give it the target's parameters" + (" after `original`" if wraps else "")
        )


def _check_flavour(original: Function, implementation: Function, *more: str) -> None:
    """Raise `TargetKindError` where a call gives something of another kind than before.

    A plain function around another kind may hand on what the original gives.
    """
    theirs, ours = flavours(original), flavour(_inner(implementation))
    if ours not in (*theirs, *more):
        raise TargetKindError(
            f"it is a {theirs[0]} function, and the implementation is a {ours} function. "
            "Make them alike"
        )


def _inner(implementation: Any) -> Function:
    static = isinstance(implementation, (staticmethod, classmethod))
    function: Function = implementation.__func__ if static else implementation
    return function


def _like(raw: Any, make: Callable[[Function], Function], target: Target) -> Any:
    """Make a function from the one inside a descriptor, and put it into such a descriptor."""

    def made(original: Any) -> Function:
        if not callable(original):  # a class method around a property
            raise _no_function(raw)
        function = make(original)
        _settle(function, original, target)
        return function

    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw)(made(raw.__func__))
    if isinstance(raw, property):
        if raw.fget is None:
            raise TargetKindError("it is a property that cannot be read. Use `set`")
        return type(raw)(made(raw.fget), raw.fset, raw.fdel, raw.__doc__)
    if isinstance(raw, functools.cached_property):
        return type(raw)(made(raw.func))
    if isinstance(raw, types.ClassMethodDescriptorType):
        return classmethod(made(raw))
    if isinstance(raw, _BOUND):
        return staticmethod(made(raw)) if _is_in_class(target) else made(raw)
    if isinstance(raw, _FUNCTIONS):
        return made(raw)
    raise _no_function(raw)


_FUNCTIONS = (
    types.FunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    functools._lru_cache_wrapper,
)
_BOUND = (types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType)
"""What does not become a method in a class, as a plain function would."""


def _no_function(raw: Any) -> TargetKindError:
    remedy = "Use `set`"
    if isinstance(raw, type):
        remedy = "Patch its methods, or use `subclass`"
    elif hasattr(type(raw), "__get__"):
        remedy = "Use `set` with one made by hand, or patch the function that it calls"
    return TargetKindError(f"it is {_described(raw)}, not a function, method or property. {remedy}")


def _settle(function: Function, original: Function, target: Target) -> None:
    """Take away what would make others see through the function, and keep what they call."""
    for name in [name for name in vars(function) if name.startswith("_torchdynamo_")]:
        delattr(function, name)
    for name in _CACHE_METHODS:
        if hasattr(original, name) and not hasattr(function, name):
            setattr(function, name, getattr(original, name))
    if isinstance(original, types.FunctionType):
        function.__module__, function.__qualname__ = _home(original, target)


def _home(original: Any, target: Target) -> tuple[str, str]:
    """Return the module and qualified name that what lands at a target must carry.

    Those of the original, unless it can be found under them and stays there, because the target
    is another name of it (a re-export, an inherited method): pickle goes by these names, and must
    find what landed and not the original.
    """
    module, qualname = original.__module__, original.__qualname__
    found = find(sys.modules.get(module), qualname)
    if getattr(found, "__func__", found) is original:
        return target.module, target.qualname
    return module, qualname


def _described(raw: Any) -> str:
    return f"the class {raw.__qualname__}" if isinstance(raw, type) else f"a {type(raw).__name__}"


def _plain(implementation: Function) -> Function:
    """Return a new plain function that does what the implementation does."""
    implementation = _inner(implementation)
    if not isinstance(implementation, types.FunctionType):
        return _BY_FLAVOUR[flavour(implementation)](implementation, _call)
    copy = types.FunctionType(
        implementation.__code__,
        implementation.__globals__,
        implementation.__name__,
        implementation.__defaults__,
        implementation.__closure__,
    )
    copy.__kwdefaults__ = implementation.__kwdefaults__
    # From 3.14 on annotations are evaluated when they are asked for, and need not be defined yet.
    annotations = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"
    setattr(copy, annotations, getattr(implementation, annotations))
    vars(copy).update(vars(implementation))
    return copy


def _call(function: Function, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# One closure for each flavour, so that asking a wrapped function what it is gives the answer of
# the original. The implementation may be of the flavour itself or just return what the original
# returns.


def _plain_closure(original: Function, implementation: Function) -> Function:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return implementation(original, *args, **kwargs)

    return wrapper


def _coroutine_closure(original: Function, implementation: Function) -> Function:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await implementation(original, *args, **kwargs)

    return wrapper


def _generator_closure(original: Function, implementation: Function) -> Function:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from implementation(original, *args, **kwargs))

    return wrapper


def _async_generator_closure(original: Function, implementation: Function) -> Function:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        # What `yield from` does for generators (PEP 380); async generators have no such form.
        generator = implementation(original, *args, **kwargs)
        step = generator.__anext__()
        while True:
            try:
                item = await step
            except StopAsyncIteration:
                return
            try:
                sent = yield item
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                step = generator.athrow(error)
            else:
                step = generator.__anext__() if sent is None else generator.asend(sent)

    return wrapper


_BY_FLAVOUR: dict[str, Callable[[Function, Function], Function]] = {
    "plain": _plain_closure,
    "coroutine": _coroutine_closure,
    "generator": _generator_closure,
    "async generator": _async_generator_closure,
}
