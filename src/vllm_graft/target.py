"""Names of things: `module:qualname`, as targets and as lazy implementations have them."""

import importlib
import importlib.machinery
import importlib.util
import inspect
import re
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_REFERENCE = re.compile(rf"({_DOTTED})(?::({_DOTTED}))?")


@dataclass(frozen=True)
class Target:
    """A module and a qualified name in it; an empty qualified name is the module itself."""

    module: str
    qualname: str = ""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `"module:qualname"` or `"module"`; raise ValueError for anything else."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not of the form 'module:qualname'")
        return cls(match[1], match[2] or "")

    @property
    def name(self) -> str:
        """The last part of the qualified name, or the module's name."""
        return (self.qualname or self.module).rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The qualified name of the class that holds the target; empty for a module's names."""
        return self.qualname.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}" if self.qualname else self.module


def is_lazy(text: object) -> bool:
    """Tell whether a value is a string of the form `"module:qualname"`."""
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return match is not None and match[2] is not None


def is_module(text: str) -> bool:
    """Tell whether a string is a dotted module name."""
    match = _REFERENCE.fullmatch(text)
    return match is not None and match[2] is None


def load(reference: str) -> Any:
    """Import what a lazy `"module:qualname"` or `"module"` names and return it."""
    target = Target.parse(reference)
    value: Any = importlib.import_module(target.module)
    for part in filter(None, target.qualname.split(".")):
        value = getattr(value, part)
    return value


MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


def is_class(value: Any) -> bool:
    """Tell whether any object is a class, without asking it: `isinstance` reads `__class__`."""
    return issubclass(type(value), type)


def find(namespace: Any, qualname: str) -> Any:
    """Follow a qualified name as the raw objects in class and module dictionaries.

    Descriptors are not called and a module's `__getattr__` is not asked, since that would import
    what vLLM has not imported yet. Returns MISSING where a name does not exist.
    """
    for part in filter(None, qualname.split(".")):
        namespace = inspect.getattr_static(namespace, part, MISSING)
        if namespace is MISSING:
            return MISSING
    return namespace


def importable(module: str) -> bool:
    """Tell whether a module exists, without importing its parents."""
    return spec_of(module) is not None


def spec_of(module: str) -> ModuleSpec | None:
    """Return the spec of a module, without importing its parents; None where there is none."""
    package, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    path = package
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = importlib.machinery.PathFinder.find_spec(path, spec.submodule_search_locations)
    return spec
