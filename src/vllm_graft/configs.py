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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from .errors import TargetKindError
from .landing import Landing, own
from .snapshot import restore_names
from .target import MISSING, find

# The kinds of methods that pydantic compiles in: pydantic/_internal/_decorators.py,
# DecoratorInfos. There is no public way to exchange one.
_DECORATORS = (
    "validators",
    "field_validators",
    "root_validators",
    "field_serializers",
    "model_serializers",
    "model_validators",
    "computed_fields",
)
_COMPILED = ("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__")


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
    if not (_is_dataclass(cls) or _is_pydantic(cls)):
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
        if _is_dataclass(cls) and _is_attribute(heir, name, value, declared=heir is cls):
            landing.put(heir, name, value)
    compile_now()


def compiled_with(cls: Any, name: str) -> list[type]:
    """Return the classes that must be compiled again when an attribute of a class changes."""
    if not isinstance(cls, type) or not (_is_dataclass(cls) or _is_pydantic(cls)):
        return []
    if name == "__post_init__":
        # Generated code calls it by name, if there was one when that was generated.
        changed = [] if find(cls, name) is not MISSING else list(_family(cls))
    else:
        changed = [each for each in _family(cls) if any(name in kind for kind in _kinds(each))]
    return [*changed, *_holders(changed)] if changed else []


def compiling(landing: Landing, classes: list[type], name: str) -> Callable[[], None]:
    """Return what compiles classes again with what an attribute of theirs is then.

    When the landing is reverted, and after what is done to it from here on is undone, they are
    compiled once more.
    """
    compiled = False

    def compile_now() -> None:
        nonlocal compiled
        _bind(classes, name)
        _compile(classes)
        compiled = True

    def compile_back() -> None:
        _bind(classes, name)
        if compiled:
            _compile(classes)

    landing.on_revert(compile_back)
    return compile_now


# -- what a class is


def _is_dataclass(cls: type) -> bool:
    return "__dataclass_fields__" in own(cls)


def _is_pydantic(cls: type) -> bool:
    return "__pydantic_decorators__" in own(cls)


def _is_complete(cls: type) -> bool:
    """Tell whether the schema is compiled; else pydantic does it at first use."""
    return bool(own(cls).get("__pydantic_complete__"))


def _family(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = cls.__subclasses__()
    for subclass in subclasses:
        if _is_dataclass(subclass) or _is_pydantic(subclass):
            yield from _family(subclass)


def _holders(classes: list[type]) -> list[type]:
    """Return the pydantic classes that have one of the classes in a field, at any depth."""
    held = set(classes)
    found: list[type] = []
    candidates = [each for each in _pydantic_classes() if each not in held]
    while True:
        more = [each for each in candidates if each not in held and _mentions(each, held)]
        if not more:
            return found
        found += more
        held.update(more)


def _pydantic_classes() -> Iterable[type]:
    return dict.fromkeys(
        value
        for module in tuple(sys.modules.values())
        for value in tuple(own(module).values())
        if isinstance(value, type) and _is_pydantic(value)
    )


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
    is_class_variable = getattr(field, "_field_type", None) is _CLASS_VARIABLE
    return None if is_class_variable else field


_CLASS_VARIABLE = dataclasses._FIELD_CLASSVAR  # type: ignore[attr-defined]


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
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.fields.FieldInfo)


# -- compiling


def _kinds(cls: type) -> list[dict[str, Any]]:
    decorators = own(cls).get("__pydantic_decorators__")
    return [kind for name in _DECORATORS if (kind := getattr(decorators, name, None))]


def _bind(classes: list[type], name: str) -> None:
    """Let the validators that have a name call what their classes have under it now."""
    for cls in classes:
        for decorator in [kind[name] for kind in _kinds(cls) if name in kind]:
            built = type(decorator).build(
                cls, cls_var_name=name, shim=decorator.shim, info=decorator.info
            )
            decorator.func = built.func


def _compile(classes: list[type]) -> None:
    """Compile classes from what they say now; where that fails they stay as they are."""
    before = [(cls, dict(own(cls))) for cls in classes]
    complete = [cls for cls in classes if _is_complete(cls)]
    try:
        for cls in filter(_is_pydantic, classes):
            _discard(cls)  # those that nest it would take over what is compiled already
        for cls in classes:
            if _is_dataclass(cls):
                _compile_dataclass(cls, cls in complete)
            else:
                _compile_model(cls, cls in complete)
    except BaseException:
        for cls, names in before:
            restore_names(cls, names)
        raise


def _discard(cls: Any) -> None:
    for name in [name for name in _COMPILED if name in own(cls)]:
        delattr(cls, name)
    cls.__pydantic_complete__ = False


def _compile_model(cls: Any, was_complete: bool) -> None:
    cls.model_rebuild(force=True, raise_errors=was_complete, _parent_namespace_depth=0)


def _compile_dataclass(cls: Any, was_complete: bool) -> None:
    current = own(cls).get("__init__")
    foreign = current is not None and not _is_generated(current)
    if _is_pydantic(cls):
        cls.__init__ = _generated_init(cls)  # pydantic reads its signature
        sys.modules["pydantic"].dataclasses.rebuild_dataclass(
            cls, force=True, raise_errors=was_complete, _parent_namespace_depth=0
        )
        if foreign:  # another patch has it; it calls what it wraps
            cls.__init__ = current
    elif foreign:
        raise TargetKindError(
            f"{cls.__qualname__}.__init__ is not the one that @dataclass made, and would have to "
            "be made anew. Patch that __init__"
        )
    elif cls.__dataclass_params__.init:
        cls.__init__ = _generated_init(cls)


def _is_generated(init: Any) -> bool:
    """Tell whether an `__init__` was made by @dataclass or pydantic."""
    if hasattr(init, "__wrapped__"):
        return False
    home = str(getattr(init, "__globals__", {}).get("__name__"))
    return home.startswith("pydantic.") or init.__code__.co_filename == "<string>"


def _generated_init(cls: Any) -> types.FunctionType:
    """Generate `__init__` from the fields, as @dataclass does."""
    fields = {
        name: copy.copy(field)
        for name, field in cls.__dataclass_fields__.items()
        if field._field_type is not _CLASS_VARIABLE
    }
    annotations = {name: field.type for name, field in fields.items()}
    namespace = {**fields, "__annotations__": annotations, "__module__": cls.__module__}
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = None
    make = dataclasses.dataclass(repr=False, eq=False, frozen=cls.__dataclass_params__.frozen)
    init: types.FunctionType = vars(make(type(cls.__name__, (), namespace)))["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
