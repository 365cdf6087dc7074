"""What binds names when code runs, where no statement that can be followed does."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from .bindings import Scope
from .entities import Answer, Entity, Undetermined
from .tree import Place

if TYPE_CHECKING:
    from .lookup import Lookup

_ANY_NAME = re.compile(
    r"\bglobals\(\)(?:\.update\(|\[[^\]\n]+\]\s*=[^=])"
    r"|\bvars\(\)\[|\blocals\(\)\[[^\]\n]+\]\s*=[^=]"
    r"|^exec\("
    r"|\bsetattr\(\s*(?:sys\.modules\[__name__\]|this_module)",
    re.MULTILINE,
)
_HINT = re.compile(r"globals\(\)|vars\(\)|locals\(\)|exec\(|setattr\(")
_BASES_ADDED = re.compile(r"cls\.__bases__ = cls\.__bases__ \+ \((\w+),?\)")
_ONE_NAME = re.compile(r"""globals\(\)\[\s*["'](\w+)["']\s*\]""")


def in_module(scope: Scope, place: Place, name: str) -> Undetermined | None:
    """Tell whether a name of a module may be bound when its code runs, and where."""
    text = scope.outline.text
    declared = _declared_global(text, name)
    if declared:
        line = scope.outline.line(declared.start())
        return Undetermined(
            f"a function of {place.module} binds {name!r} when called (line {line})"
        )
    for match in _ANY_NAME.finditer(text) if _HINT.search(text) else ():
        constant = _ONE_NAME.match(match[0])
        if constant is None or constant[1] == name:
            line, code = scope.outline.line(match.start()), match[0].strip()
            return Undetermined(f"{place.module} binds names at run time (line {line}: {code}…)")
    return None


def _declared_global(text: str, name: str) -> re.Match[str] | None:
    if "global " not in text:
        return None
    return re.search(rf"^[ \t]+global\s[^#\n]*\b{re.escape(name)}\b", text, re.MULTILINE)


def in_class(lookup: "Lookup", classes: list[Entity], name: str) -> Undetermined | None:
    """Tell whether a class sets attributes of itself when its code runs, and where."""
    for cls in classes:
        for line, code in _settings(lookup.body(cls), name):
            return Undetermined(
                f"{cls} sets attributes of itself at run time (line {line}: {code})"
            )
    return None


def added_bases(lookup: "Lookup", cls: Entity) -> Iterator[Entity]:
    """Yield what the decorators of a class append to its bases, as `support_torch_compile` does."""
    for decorator, home in _decorators(lookup, cls):
        for match in _BASES_ADDED.finditer(lookup.outline(home).text):
            base = lookup.in_module(Entity("module", home, ""), match[1])
            if isinstance(base, Entity) and base.kind == "class":
                yield base.by(f"added by {decorator}")


def set_by_decorator(lookup: "Lookup", cls: Entity, name: str) -> Entity | None:
    """Return a decorator of a class whose module sets an attribute of this name on classes."""
    for decorator, home in _decorators(lookup, cls):
        text = lookup.outline(home).text
        if f".{name} = " in text and re.search(rf"\b\w*cls\.{re.escape(name)} = ", text):
            return decorator
    return None


def _decorators(lookup: "Lookup", cls: Entity) -> Iterator[tuple[Entity, Place]]:
    """Yield the decorators of a class that vLLM defines, and where."""
    assert cls.home is not None
    for expression in getattr(cls.node, "decorator_list", ()):
        called = expression.func if isinstance(expression, ast.Call) else expression
        found = lookup.expression(called, cls.home)
        if isinstance(found, Entity) and found.kind == "function" and found.home is not None:
            yield found, found.home


def assigned(lookup: "Lookup", cls: Entity, name: str) -> Answer | None:
    """Return what the class's module assigns to an attribute of it, after its definition."""
    assert cls.home is not None
    scope = lookup.scope(cls.home)
    text = f"{cls.qualname}.{name}"
    if scope.outline.text.find(text) < 0:
        return None
    for node in scope.mentioned(text):
        if isinstance(node, ast.Assign) and any(ast.unparse(each) == text for each in node.targets):
            return Entity("value", cls.home, text, node, owner=cls)
    return None


def _settings(body: Scope, name: str) -> Iterator[tuple[int, str]]:
    for node in (*body.mentioned(f"cls.{name}"), *body.mentioned("setattr(cls")):
        for each in ast.walk(node):
            if _sets(each, name):
                yield each.lineno, f"cls.{name} = …"
            elif _calls_setattr(each, name):
                yield each.lineno, "setattr(cls, …)"


def _sets(node: ast.AST, name: str) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == name
        and _is_cls(node.value)
    )


def _calls_setattr(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "setattr"
        and len(node.args) > 1
        and _is_cls(node.args[0])
        and _may_be(node.args[1], name)
    )


def _is_cls(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "cls"


def _may_be(node: ast.expr, name: str) -> bool:
    return not isinstance(node, ast.Constant) or node.value == name
