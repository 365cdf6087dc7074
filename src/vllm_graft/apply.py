"""Carries out one patch on an imported module: resolve, operate, verify, roll back."""

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from . import configs, shape
from .absent import not_found
from .compiled import compiling
from .errors import (
    ApplyError,
    ImplementationError,
    TargetKindError,
    VerificationError,
)
from .holders import references
from .landing import LANDINGS, Landing, own
from .origin import stranger
from .patch import Patch, Value
from .replaced_class import redirect
from .snapshot import snapshot
from .target import MISSING, Target, find, is_class, load


def apply(patch: Patch, module: ModuleType) -> Landing:
    """Bring a patch into effect on its module and return how to take it back.

    Where that fails the module is left as it was. Raises `ApplyError`: the target does not exist,
    is of another kind than the operation needs or is called in ways that the implementation does
    not take, the implementation cannot be had, or the target reads back as something else.
    """
    landing = Landing(patch)
    try:
        if patch.operation == "run":
            _run(landing, module)
        else:
            _change(landing, module, _implementation(patch))
    except BaseException:
        landing.revert()
        raise
    return landing


def _run(landing: Landing, module: ModuleType) -> None:
    landing.on_revert(snapshot(module))
    implementation = _implementation(landing.patch)  # a module does its work when it is imported
    if callable(implementation):
        _attempt(lambda: implementation(module))
    if not LANDINGS.remember_runs:
        landing.settle()


def _change(landing: Landing, module: ModuleType, implementation: Any) -> None:
    patch = landing.patch
    namespace, raw = _resolve(patch, module)
    chain = LANDINGS.chain(patch.target)
    if raw is not MISSING and not any(each.value is raw for each in chain):
        landing.notes.extend(filter(None, [stranger(raw, patch.target, module)]))
    landing.others = references(namespace, patch.target.name)
    landing.before = raw
    if patch.operation == "set" and configs.has_field(namespace, patch.target.name):
        _set_default(landing, namespace, implementation)
        return
    if patch.operation == "replace" and isinstance(implementation, type):
        landing.on_revert(_named(implementation))
    landing.value = _made(patch, raw, implementation)
    _land(landing, namespace)
    _verify(patch.target, landing.value, module)


def _named(cls: type) -> Callable[[], None]:
    """Return what gives a class, which will take another's name, its own back."""
    before = {name: getattr(cls, name) for name in shape.NAMES}

    def rename() -> None:
        for name, value in before.items():
            setattr(cls, name, value)

    return rename


def _set_default(landing: Landing, cls: type, value: Any) -> None:
    name = landing.patch.target.name
    landing.value = value
    with _refused(f"{cls!r} cannot be made anew with another default of {name!r}"):
        configs.set_default(landing, cls, name, value)
    default = configs.default_of(cls, name)
    if default is not value and default != value:
        raise VerificationError(
            f"the default of {landing.patch.target} is {default!r} still. "
            "Patch the code that makes instances"
        )


def _made(patch: Patch, raw: Any, implementation: Any) -> Any:
    try:
        return _operate(patch, raw, implementation)
    except ApplyError:
        raise
    except Exception as error:
        remedy = "Patch its methods" if isinstance(raw, type) else "Use `set` with one made by hand"
        raise TargetKindError(
            f"{patch.target} is a {type(raw).__name__} that cannot be made anew: {error}. {remedy}"
        ) from error


def _land(landing: Landing, namespace: Any) -> None:
    name = landing.patch.target.name
    with _refused(f"{namespace!r} does not let its attribute {name!r} be set"):
        # What pydantic and @dataclass have compiled in follows the attribute, both ways.
        stale = configs.compiled_with(namespace, name)
        compile_now = compiling(landing, stale, name)
        landing.put(namespace, name, landing.value)
        compile_now()
        if landing.patch.operation == "subclass":
            redirect(landing)


@contextmanager
def _refused(problem: str) -> Iterator[None]:
    """Raise `TargetKindError` for what the classes of others raise when they are changed."""
    try:
        yield
    except ApplyError:
        raise
    except Exception as error:
        raise TargetKindError(
            f"{problem} ({error}). Patch the Python code that calls it, or its methods"
        ) from error


def _implementation(patch: Patch) -> Any:
    reference = patch.lazy
    if reference is not None:
        return _loaded(patch, reference)
    given = patch.implementation
    return given.value if isinstance(given, Value) else given


def _loaded(patch: Patch, reference: str) -> Any:
    try:
        value = load(reference)
    except Exception as error:
        hint = "Mend it, or give Value(…) if the string itself is the value"
        raise ImplementationError(
            f"its implementation failed: {reference!r}: {type(error).__name__}: {error}. "
            + (hint if patch.operation in ("set", "add") else "Mend the implementation")
        ) from error
    if patch.operation in ("wrap", "replace", "subclass") and not callable(value):
        raise ImplementationError(
            f"its implementation {reference!r} is {value!r}, not a function or class. "
            "Name the function"
        )
    return value


def _attempt(step: Callable[[], Any]) -> Any:
    """Do what runs the patch author's code; raise `ImplementationError` for what it raises."""
    try:
        return step()
    except Exception as error:
        raise ImplementationError(
            f"its implementation failed: {type(error).__name__}: {error}. Mend the implementation"
        ) from error


def _resolve(patch: Patch, module: ModuleType) -> tuple[Any, Any]:
    """Return the class or module that holds the target, and what it holds there now."""
    target = patch.target
    namespace = find(module, target.parent)
    if namespace is MISSING:
        raise not_found(patch, module)
    raw = find(namespace, target.name)
    is_field = patch.operation == "set" and configs.has_field(namespace, target.name)
    if raw is MISSING:
        if patch.operation != "add" and not is_field:
            raise not_found(patch, module)
        return namespace, raw
    if not is_field:
        _refuse_metaclass(target, namespace)
    if patch.operation == "add":
        raise TargetKindError(
            f"{target} exists already, so `add` has nothing to add. Narrow the versions of "
            "the patch, or use `wrap` or `replace`"
        )
    if patch.operation in ("wrap", "replace"):
        _refuse_method_of_instance(target, namespace, raw)
    return namespace, raw


def _refuse_metaclass(target: Target, namespace: Any) -> None:
    """Refuse what a class has from its metaclass alone: put on the class it is something else."""
    name = target.name
    if not is_class(namespace) or any(name in own(each) for each in namespace.__mro__):
        return
    kind = next((each for each in type(namespace).__mro__ if name in own(each)), type)
    home = f"'{kind.__module__}:{kind.__qualname__}.{name}'"
    raise TargetKindError(
        f"{target} is a name of the metaclass {kind.__qualname__}, which neither the class nor "
        "its bases have. "
        + ("Patch its __init__, or use `subclass`" if kind is type else f"Patch {home}")
    )


def _refuse_method_of_instance(target: Target, namespace: Any, raw: Any) -> None:
    kind = type(namespace)
    if isinstance(namespace, (type, ModuleType)) or target.name in own(namespace):
        return
    if inspect.isroutine(raw) or isinstance(raw, classmethod):
        raise TargetKindError(
            f"{target.module}:{target.parent} is an instance of {kind.__qualname__}, and "
            f"{target.name!r} a method of its class, which would not be bound there. "
            f"Patch '{kind.__module__}:{kind.__qualname__}.{target.name}'"
        )


def _operate(patch: Patch, raw: Any, implementation: Any) -> Any:
    """Return what is to stand at the target."""
    if patch.operation == "wrap":
        return shape.wrap(raw, implementation, patch.target)
    if patch.operation == "replace":
        if not isinstance(raw, type):
            return shape.replace(raw, implementation, patch.target)
        if not isinstance(implementation, type):
            raise TargetKindError(
                f"{patch.target} is a class, and the implementation is not. Replace its methods"
            )
        shape.check_call(raw, implementation, patch.target)
        return shape.rename(implementation, raw, patch.target)
    if patch.operation == "subclass":
        return _subclass(patch.target, raw, implementation)
    return implementation


def _subclass(target: Target, raw: Any, implementation: Callable[[type], Any]) -> type:
    if not isinstance(raw, type):
        raise TargetKindError(f"{target} is a {type(raw).__name__}, not a class. Use `wrap`")
    try:
        made = _attempt(lambda: implementation(raw))
    except ImplementationError as error:
        raise ImplementationError(f"{error}, or patch the methods of {target}") from error
    if not isinstance(made, type) or raw not in made.__mro__[1:]:
        raise ImplementationError(
            f"its implementation returned {made!r}, not a subclass of {target}. "
            "Return a class that inherits from the one given, or patch its methods"
        )
    shape.check_call(raw, made, target)
    return shape.rename(made, raw, target)


def _verify(target: Target, value: Any, module: ModuleType) -> None:
    """Read the target back, as it is stored and as anybody would who imports it."""
    public: Any = sys.modules.get(target.module, module)
    stored = find(public, target.qualname)
    try:
        for part in target.qualname.split("."):
            public = getattr(public, part, MISSING)
    except Exception as error:
        public = error
    if stored is value and (_is_made_on_access(value) or _function(public) is _function(value)):
        return
    raise VerificationError(
        f"{target} reads back as {public!r}, not as what was put there. "
        "Somebody intercepts access to it; patch the code that does"
    )


def _is_made_on_access(value: Any) -> bool:
    """Tell whether a descriptor, like partialmethod, gives another object at each access."""
    plain = isinstance(value, (types.FunctionType, staticmethod, classmethod, type))
    return hasattr(type(value), "__get__") and not plain


def _function(value: Any) -> Any:
    """Return the function inside a bound method or a static or class method."""
    if isinstance(value, (staticmethod, classmethod)) or inspect.ismethod(value):
        return value.__func__
    return value
