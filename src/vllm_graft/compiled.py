"""Compiles dataclasses and pydantic classes again, from what they say now."""

import copy
import dataclasses
import sys
import types
from collections.abc import Callable
from typing import Any

from .errors import TargetKindError
from .landing import Landing, own
from .snapshot import restore_names

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

CLASS_VARIABLE: object = vars(dataclasses)["_FIELD_CLASSVAR"]
"""How @dataclass marks what has the annotation `ClassVar`; there is no public sign of it."""


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


def is_dataclass(cls: type) -> bool:
    """Tell whether a class itself was made by @dataclass, of the standard library or pydantic."""
    return "__dataclass_fields__" in own(cls)


def is_pydantic(cls: type) -> bool:
    """Tell whether a class itself is a pydantic model or dataclass."""
    return "__pydantic_decorators__" in own(cls)


def is_complete(cls: type) -> bool:
    """Tell whether the schema is compiled; else pydantic does it at first use."""
    return bool(own(cls).get("__pydantic_complete__"))


def decorators(cls: type) -> list[dict[str, Any]]:
    """Return pydantic's tables of the methods that a class has compiled in, by their names."""
    infos = own(cls).get("__pydantic_decorators__")
    return [kind for name in _DECORATORS if (kind := getattr(infos, name, None))]


def _bind(classes: list[type], name: str) -> None:
    """Let the validators that have a name call what their classes have under it now."""
    for cls in classes:
        for decorator in [kind[name] for kind in decorators(cls) if name in kind]:
            built = type(decorator).build(
                cls, cls_var_name=name, shim=decorator.shim, info=decorator.info
            )
            decorator.func = built.func


def _compile(classes: list[type]) -> None:
    """Compile classes from what they say now; where that fails they stay as they are."""
    before = [(cls, dict(own(cls))) for cls in classes]
    complete = [cls for cls in classes if is_complete(cls)]
    try:
        for cls in filter(is_pydantic, classes):
            _discard(cls)  # those that nest it would take over what is compiled already
        for cls in classes:
            if is_dataclass(cls):
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
    if is_pydantic(cls):
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
        if field._field_type is not CLASS_VARIABLE
    }
    annotations = {name: field.type for name, field in fields.items()}
    namespace = {**fields, "__annotations__": annotations, "__module__": cls.__module__}
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = None
    make = dataclasses.dataclass(repr=False, eq=False, frozen=cls.__dataclass_params__.frozen)
    init: types.FunctionType = vars(make(type(cls.__name__, (), namespace)))["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
