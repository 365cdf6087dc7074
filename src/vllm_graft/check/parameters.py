"""Signatures made from syntax trees, as `inspect.signature` would give them."""

import ast
from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from . import inheritance
from .bindings import Function
from .entities import Entity
from .stored import Code

if TYPE_CHECKING:
    from .lookup import Lookup


def signature(lookup: "Lookup", entity: Entity) -> Signature | None:
    """Return how an entity is called; None where its definition does not tell.

    That of a method has its first parameter, that of a class has not.
    """
    if entity.replaced:
        return None
    if entity.kind == "class":
        return of_class(lookup, entity)
    if entity.kind == "generated":
        assert entity.owner is not None
        return _generated(lookup, entity)
    node = entity.node
    if isinstance(node, Function):
        return of_arguments(node.args, node.returns)
    value = getattr(node, "value", None)
    return of_arguments(value.args) if isinstance(value, ast.Lambda) else None


def of_class(lookup: "Lookup", cls: Entity) -> Signature | None:
    """Return how a class is called: by its `__init__`, or by its `__new__`, whichever is first."""
    for base in inheritance.linearised(lookup, cls):
        if base.kind != "class":
            return Signature() if base.qualname in _CALLED_WITH_NOTHING else None
        if _has_metaclass(base):
            return None
        for name in ("__init__", "__new__"):
            found = inheritance.own(lookup, base, name)
            if isinstance(found, Entity):
                return _without_first(signature(lookup, found))
            if found is not None:
                return None
    return Signature()


_CALLED_WITH_NOTHING = ("abc.ABC", "typing.Generic", "typing.Protocol", "builtins.object")


def of_arguments(arguments: ast.arguments, returns: ast.expr | None = None) -> Signature:
    """Return the signature that the parameters of a definition make."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults = [*[None] * missing, *arguments.defaults]
    only = len(arguments.posonlyargs)
    kinds = [Parameter.POSITIONAL_ONLY] * only + [Parameter.POSITIONAL_OR_KEYWORD] * (
        len(positional) - only
    )
    found = [
        _parameter(each, kind, default)
        for each, kind, default in zip(positional, kinds, defaults, strict=True)
    ]
    if arguments.vararg:
        found.append(_parameter(arguments.vararg, Parameter.VAR_POSITIONAL))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(each, Parameter.KEYWORD_ONLY, default))
    if arguments.kwarg:
        found.append(_parameter(arguments.kwarg, Parameter.VAR_KEYWORD))
    return Signature(found, return_annotation=_code(returns))


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> Parameter:
    annotation = _code(argument.annotation)
    return Parameter(argument.arg, kind, default=_code(default), annotation=annotation)


def _code(node: ast.expr | None) -> Any:
    return Parameter.empty if node is None else Code(ast.unparse(node))


def _without_first(found: Signature | None) -> Signature | None:
    if found is None:
        return None
    parameters = list(found.parameters.values())
    if parameters and parameters[0].kind is not Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return found.replace(parameters=parameters, return_annotation=Signature.empty)


def _has_metaclass(cls: Entity) -> bool:
    return any(keyword.arg == "metaclass" for keyword in getattr(cls.node, "keywords", ()))


def _generated(lookup: "Lookup", entity: Entity) -> Signature | None:
    """Return the signature of what `dataclass` makes: an `__init__` of the fields of a class."""
    name = entity.qualname.rpartition(".")[2]
    if name != "__init__" or entity.owner is None:
        return of_arguments(_MADE[name]) if name in _MADE else None
    fields: dict[str, Parameter] = {}
    for cls in reversed(inheritance.linearised(lookup, entity.owner)):
        if cls.kind != "class":
            continue
        if inheritance.is_dataclass(cls):
            fields.update({each.name: each for each in _fields(lookup, cls)})
    ordered = sorted(fields.values(), key=lambda each: each.kind)
    first = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return Signature([first, *ordered])
    except ValueError:  # without a default behind one with: the class itself would be refused
        return None


def _arguments(written: str) -> ast.arguments:
    made = ast.parse(f"lambda {written}: 0", mode="eval").body
    assert isinstance(made, ast.Lambda)
    return made.args


_MADE = {"__eq__": _arguments("self, other"), "__repr__": _arguments("self")}


def _fields(lookup: "Lookup", cls: Entity) -> Iterator[Parameter]:
    only_keyword = _is_true(getattr(cls.node, "decorator_list", []), "kw_only")
    for node in lookup.body(cls).statements():
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if "ClassVar" in ast.unparse(node.annotation):
            continue
        options = _options(node.value)
        if "init" in options and ast.unparse(options["init"]) == "False":
            continue
        default = _default(options) if _is_field(node.value) else node.value
        keyword = only_keyword or ("kw_only" in options and _is_constant_true(options["kw_only"]))
        yield Parameter(
            node.target.id,
            Parameter.KEYWORD_ONLY if keyword else Parameter.POSITIONAL_OR_KEYWORD,
            default=_code(default),
            annotation=_code(node.annotation),
        )


def _default(options: dict[str | None, ast.expr]) -> ast.expr | None:
    return options.get("default") or options.get("default_factory")


def _options(value: ast.expr | None) -> dict[str | None, ast.expr]:
    """Return the keywords of `field(…)`; nothing for other values."""
    if not isinstance(value, ast.Call) or not _is_field(value):
        return {}
    return {each.arg: each.value for each in value.keywords}


def _is_field(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in (
        "field",
        "Field",
    )


def _is_true(decorators: "list[ast.expr]", option: str) -> bool:
    return any(
        keyword.arg == option and _is_constant_true(keyword.value)
        for decorator in decorators
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def _is_constant_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
