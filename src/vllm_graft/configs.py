"""Dataclasses and pydantic models, which compile what their classes say once, when they are made.

A new default, validator or `__post_init__` has no effect until `__init__` and schema are compiled
again, in the class, in those that inherit from it and in those that have it in a field. vLLM's
configs are stdlib dataclasses, pydantic dataclasses or pydantic models, by class and release.
"""

import copy
import dataclasses
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any

from .compiled import CLASS_VARIABLE, compiling, decorators, is_dataclass, is_pydantic
from .errors import TargetKindError
from .landing import Landing, own
from .target import MISSING, find, is_class


def has_field(namespace: Any, name: str) -> bool:
    """Tell whether a class has a field of a name, though it may have no such attribute."""
    return isinstance(namespace, type) and _field(namespace, name) is not None


def default_of(cls: type, name: str) -> Any:
    """Return the default that a new instance gets for a field; MISSING where it has none."""
    field: Any = _field(cls, name)
    if isinstance(field, dataclasses.Field) and _is_field_info(field.default):
        field = field.default
    if callable(field.default_factory):
        return field.default_factory()
    default = getattr(field, "default", MISSING)
    return MISSING if default is dataclasses.MISSING else default


def set_default(landing: Landing, cls: type, name: str, value: Any) -> None:
    """Give a field another default, in its class and in those that inherit it from there.

    A value that is mutable (has no hash) is copied for each instance.
    """
    if not (is_dataclass(cls) or is_pydantic(cls)):
        home = _declares(cls, name)
        raise TargetKindError(
            f"{cls.__qualname__} inherits {name!r} with the __init__ of a dataclass. "
            f"Patch '{home.__module__}:{home.__qualname__}.{name}'"
        )
    heirs = [each for each in _family(cls) if _inherits(each, cls, name)]
    compile_now = compiling(landing, [*heirs, *_holders(heirs)], name)
    for heir in heirs:
        fields = _fields(heir)
        landing.on_revert(partial(fields.__setitem__, name, fields[name]))
        fields[name] = _with_default(fields[name], value)
        if is_dataclass(cls) and _is_attribute(heir, name, value, declared=heir is cls):
            landing.put(heir, name, value)
    compile_now()


def compiled_with(cls: Any, name: str) -> list[type]:
    """Return the classes that must be compiled again when an attribute of a class changes."""
    if not isinstance(cls, type) or not (is_dataclass(cls) or is_pydantic(cls)):
        return []
    if name == "__post_init__":
        # Generated code calls it by name, if there was one when that was generated.
        changed = [] if find(cls, name) is not MISSING else list(_family(cls))
    else:
        changed = [each for each in _family(cls) if any(name in kind for kind in decorators(each))]
    return [*changed, *_holders(changed)] if changed else []


# -- classes


def _family(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = cls.__subclasses__()
    for subclass in subclasses:
        if is_dataclass(subclass) or is_pydantic(subclass):
            yield from _family(subclass)


def _holders(classes: list[type]) -> list[type]:
    """Return the pydantic classes that have one of the classes in a field, at any depth."""
    held = set(classes)
    found: list[type] = []
    more = classes
    while more:
        near = [each for each in _pydantic_classes(more) if each not in held]
        more = [each for each in near if _mentions(each, held)]
        found += more
        held.update(more)
    return found


def _pydantic_classes(near: Iterable[type]) -> Iterable[type]:
    """Return the pydantic classes of the modules that know one of the given, or its module."""
    parents = {name for each in near for name in accumulate(each.__module__.split("."), _joined)}
    known = {id(value) for value in (*near, *map(sys.modules.get, parents))}
    return dict.fromkeys(
        value
        for values in [tuple(own(module).values()) for module in tuple(sys.modules.values())]
        if not known.isdisjoint(map(id, values))
        for value in values
        if is_class(value) and is_pydantic(value)
    )


def _joined(package: str, name: str) -> str:
    return f"{package}.{name}"


def _mentions(cls: type, wanted: set[type]) -> bool:
    fields: dict[str, Any] = getattr(cls, "__pydantic_fields__", {})
    return any(_is_in(field.annotation, wanted) for field in fields.values())


def _is_in(annotation: Any, wanted: set[type]) -> bool:
    if isinstance(annotation, type) and annotation in wanted:
        return True
    return any(_is_in(argument, wanted) for argument in typing.get_args(annotation))


# -- fields


def _fields(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = getattr(cls, "__dataclass_fields__", None) or getattr(
        cls, "__pydantic_fields__", {}
    )
    return found


def _field(cls: type, name: str) -> "dataclasses.Field[Any] | Any | None":
    field = _fields(cls).get(name)
    is_class_variable = getattr(field, "_field_type", None) is CLASS_VARIABLE
    return None if is_class_variable else field


def _declares(cls: type, name: str) -> type:
    """Return the class that a field is inherited from."""
    return next((each for each in cls.__mro__ if name in _annotations(each)), cls)


def _inherits(heir: type, cls: type, name: str) -> bool:
    if _declares(heir, name) is _declares(cls, name):
        return True
    # pydantic before 2.12 declares some inherited fields anew, with the same FieldInfo.
    info = getattr(_field(cls, name), "default", None)
    return _is_field_info(info) and getattr(_field(heir, name), "default", None) is info


def _annotations(cls: type) -> Iterable[str]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    names: dict[str, Any] = own(cls).get("__annotations__", {})
    return names


def _is_attribute(cls: type, name: str, value: Any, *, declared: bool) -> bool:
    """Tell whether a dataclass has the default of a field as an attribute, as @dataclass does."""
    if name not in own(cls):
        return declared and (find(cls, name) is not MISSING or not _is_mutable(value))
    return not isinstance(own(cls)[name], types.MemberDescriptorType)  # slots


def _is_mutable(value: Any) -> bool:
    return type(value).__hash__ is None


def _with_default(field: Any, value: Any) -> Any:
    """Return a copy of a field, of dataclasses or pydantic, with another default."""
    fresh = copy.copy(field)
    if _is_field_info(field):
        fresh.default, fresh.default_factory = value, None
        fresh._attributes_set = {**field._attributes_set, "default": value}
        fresh._attributes_set.pop("default_factory", None)
    elif _is_field_info(field.default):
        fresh.default = _with_default(field.default, value)
    elif _is_mutable(value):
        fresh.default, fresh.default_factory = dataclasses.MISSING, partial(copy.deepcopy, value)
    else:
        fresh.default, fresh.default_factory = value, dataclasses.MISSING
    return fresh


def _is_field_info(value: Any) -> bool:
    fields = sys.modules.get("pydantic.fields")  # pydantic imports it when it is needed first
    return fields is not None and isinstance(value, fields.FieldInfo)
