"""Whether what a patch finds at its target is vLLM's own, or somebody has been there before."""

import ast
import functools
import hashlib
import sys
import sysconfig
import types
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .landing import LANDINGS, Landing
from .sources import definition, imports, parsed
from .target import Target, find
from .version import distributions


def stranger(raw: Any, target: Target, module: ModuleType) -> str | None:
    """Say who has put what stands at a target there; None where it is the module's own.

    What its source does not show, like names that are bound at run time, counts as its own.
    """
    foreign: Any
    if isinstance(raw, type):
        foreign = raw if _top(raw.__module__) != _top(module.__name__) else None
        place = f"the class {raw.__module__}:{raw.__qualname__}"
    else:
        foreign = next((each for each in _layers(raw) if not _is_familiar(each, module)), None)
        place = _place(foreign) if foreign is not None else ""
    if foreign is None or _accounts_for(foreign, raw, target, module):
        return None
    return f"{target} was patched before, by others: it is {place}"


def overwritten(landing: Landing) -> str | None:
    """Say who has replaced what a patch put at its target; None where that is called still."""
    target, value = landing.patch.target, landing.value
    home = sys.modules.get(target.module)
    if home is None or landing.patch.operation not in ("wrap", "replace", "subclass"):
        return None
    now = find(home, target.qualname)
    if now is value or any(each.before is value for each in LANDINGS.chain(target)):
        return None
    if isinstance(value, type):
        kept = isinstance(now, type) and issubclass(now, value)
    else:
        kept = not set(map(id, _layers(value))).isdisjoint(map(id, _layers(now)))
    return None if kept else f"others have replaced it at {target} since, by {now!r}"


def edited(module: ModuleType) -> str | None:
    """Say that a module's file is not the one that was installed; None where nothing tells so."""
    file = getattr(module, "__file__", None)
    recorded = _recorded(module.__name__) if file else None
    if not file or recorded is None:
        return None
    try:
        digest = hashlib.sha256(Path(file).read_bytes()).digest()
    except OSError:
        return None
    if urlsafe_b64encode(digest).rstrip(b"=").decode() == recorded:
        return None
    return f"{file} has been edited since it was installed"


def _layers(raw: Any) -> Iterator[types.FunctionType]:
    """Yield the functions that a call goes through, as far as decorators tell (PEP 232 fields)."""
    seen = 0
    while raw is not None and seen < 100:
        seen += 1
        if isinstance(raw, types.FunctionType):
            yield raw
        raw = (
            getattr(raw, "__func__", None)
            or getattr(raw, "fget", None)
            or getattr(raw, "func", None)
            or getattr(raw, "__wrapped__", None)
        )


def _is_familiar(function: types.FunctionType, module: ModuleType) -> bool:
    """Tell whether a function is in the module's package, in torch's or in Python itself."""
    file = getattr(module, "__file__", None)
    package = (_package_folder(module, file),) if file else ()
    return not file or function.__code__.co_filename.startswith(("<", *_homes(), *package))


def _package_folder(module: ModuleType, file: str) -> str:
    """Return the folder of the top-level package of a module, or the file of a lone module."""
    depth = module.__name__.count(".") - (0 if hasattr(module, "__path__") else 1)
    return f"{Path(file).parents[depth]}/" if depth >= 0 else file


@functools.lru_cache(maxsize=1)
def _homes() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return paths["stdlib"] + "/", paths["purelib"] + "/torch/", paths["platlib"] + "/torch/"


def _accounts_for(foreign: Any, raw: Any, target: Target, module: ModuleType) -> bool:
    """Tell whether the module's own source has brought a foreign object to the target."""
    body: ast.AST | None = parsed(module.__name__)
    for part in target.qualname.split("."):
        body = definition(body, part) if body is not None else None
    if isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef)):
        *decorated, innermost = _layers(raw)
        if innermost.__code__.co_filename != getattr(module, "__file__", None):
            return not all(map(_is_transparent, body.decorator_list))
        return len(decorated) <= len(body.decorator_list)
    if isinstance(body, ast.ClassDef):
        return bool(body.decorator_list)
    if isinstance(body, ast.ImportFrom):
        imported = imports(module).get(target.name, "")
        names = {alias.asname or alias.name: alias.name for alias in body.names}
        there = find(sys.modules.get(imported), names[target.name])
        return there is raw or _top(imported) == _top(foreign.__module__)
    return True


def _is_transparent(decorator: ast.expr) -> bool:
    """Tell whether what a decorator returns shows what it decorates; others may hide it."""
    name = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
    return name in _TRANSPARENT


_TRANSPARENT = (
    *("staticmethod", "classmethod", "abstractmethod", "override", "final"),
    *("property", "cached_property", "cache", "lru_cache", "wraps"),
)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _place(function: types.FunctionType) -> str:
    code = function.__code__
    return (
        f"{function.__module__}:{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    )


@functools.lru_cache(maxsize=1)
def _record() -> str:
    return "".join(f"\n{dist.read_text('RECORD') or ''}" for dist in distributions())


def _recorded(module: str) -> str | None:
    """Return the digest that vLLM's distribution records for a module's file (PEP 376, RECORD)."""
    for path in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
        _, found, rest = _record().partition(f"\n{path},sha256=")
        if found:
            return rest.partition(",")[0]
    return None
