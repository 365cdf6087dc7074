"""Other names of what a patch has taken the place of: those that modules hold are rebound.

A module that did `from target import f` before the patch keeps the original. Names are found by
identity. What else holds the original (containers, closures, subclasses, instances) is counted.
"""

import functools
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .holders import Replaced, held
from .landing import LANDINGS, Landing, inner, own
from .patch import Patch
from .sources import imports
from .target import MISSING, Target


@dataclass(frozen=True)
class Alias:
    """A name in a module that was bound to an original."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class Sweep:
    """What was found of the originals of one patch: the rebound names, and who else holds them."""

    rebound: tuple[Alias, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def alarming(self) -> bool:
        """Whether somebody may call what he holds: tuples are mostly keys of caches."""
        return any("tuple" not in each for each in self.held)


def sweep(landings: Collection[Landing], executed: str | None = None) -> dict[str, Sweep]:
    """Rebind the names that modules still have for what landed patches replaced.

    Looks through all modules. For patches that landed at the end of the execution of a module,
    whose name is given, those that it imported come first; the others, which could not take a
    name meanwhile unless it was given to them, only where there are references that these do not
    explain. Returns what was found, by patch id.
    """
    there = [landing for landing in landings if LANDINGS.get(landing.patch.id) is landing]
    found = _Found([each for landing in there for each in _replaced(landing, there)])
    if executed is not None and found.names_wanted():
        found.rebind_in(_since(executed))
    if found.names_wanted() if executed is None else found.unexplained():
        found.rebind_in(tuple(sys.modules))
    counted = held(found.unexplained())
    for landing in landings:
        landing.former = MISSING  # nobody has a name for it any more
    return {
        patch_id: Sweep(tuple(names), (*found.refused[patch_id], *counted.get(patch_id, ())))
        for patch_id, names in found.rebound.items()
    }


def _since(executed: str) -> tuple[str, ...]:
    """Return a module and those whose import began later."""
    names = tuple(sys.modules)  # in that order; importlib moves what it has loaded to the end
    return names[names.index(executed) :] if executed in names else names


class _Found:
    """What is looked for in modules, and what has been found there."""

    def __init__(self, replaced: list[Replaced]) -> None:
        self._wanted: dict[int, list[Replaced]] = {}
        for each in sorted(replaced, key=_is_home):  # those who import from a re-export first
            self._wanted.setdefault(id(each.original), []).append(each)
        self._replaced = replaced
        self.rebound: dict[str, list[Alias]] = {each.landing.patch.id: [] for each in replaced}
        self.refused: dict[str, list[str]] = {patch_id: [] for patch_id in self.rebound}

    def rebind_in(self, modules: Iterable[str]) -> None:
        for module_name in modules:
            module = sys.modules.get(module_name)
            for name, value in _bound_to(self._wanted, own(module)):
                alias = Alias(module_name, name)
                for each in self._wanted[id(value)]:
                    if _is_alias(each, module, name):
                        self._rebind(each, module, alias)
                        break

    def _rebind(self, replaced: Replaced, module: Any, alias: Alias) -> None:
        patch = replaced.landing.patch
        try:
            setattr(module, alias.name, replaced.value)
        except Exception as error:  # whatever a module's class does there
            self.refused[patch.id].append(f"{alias}, which cannot be set ({error})")
            return
        self.rebound[patch.id].append(alias)
        for landing in LANDINGS.chain(patch.target):
            landing.follow(module, alias.name)

    def names_wanted(self) -> bool:
        """Tell whether modules may have names for what has been replaced."""
        return any(
            each.original is not inner(each.landing.before) or each.landing.others != 0
            for each in self._replaced
        )

    def unexplained(self) -> list[Replaced]:
        """Return what has references that rebinding does not explain.

        For a subclass they do no harm: calling the original makes the subclass.
        """
        return [each for each in self._replaced if self._may_be_held(each)]

    def _may_be_held(self, replaced: Replaced) -> bool:
        landing = replaced.landing
        if landing.patch.operation == "subclass" or replaced.original is not inner(landing.before):
            return False
        return landing.others is None or landing.others > len(self.rebound[landing.patch.id])


def _replaced(landing: Landing, landings: Iterable[Landing]) -> Iterator[Replaced]:
    """Yield the objects that a patch replaced and that can be told by identity.

    That is functions and classes. Constants are shared by everybody who has the same value. What
    landed just now, below the patch, is nobody's yet.
    """
    if landing.inherited:
        return  # those who have it have it from where it was inherited from
    target = landing.patch.target
    new = [each.value for each in landings]
    for before in (landing.before, landing.former):
        if not isinstance(inner(before), _IDENTIFIABLE) or any(before is each for each in new):
            continue
        if landing.patch.operation != "set" or _is_at_home(before, target):
            yield Replaced(inner(before), inner(LANDINGS.chain(target)[-1].value), landing)


_IDENTIFIABLE = (type, types.FunctionType, types.BuiltinFunctionType, functools._lru_cache_wrapper)


def _bound_to(wanted: Mapping[int, Any], names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if wanted.keys().isdisjoint(map(id, tuple(names.values()))):  # others may be importing
        return []
    return [(name, value) for name, value in tuple(names.items()) if id(value) in wanted]


def _is_alias(replaced: Replaced, module: Any, name: str) -> bool:
    """Tell whether a module has its name from the target, and not from where the target has it.

    A target that is itself a re-export is patched for those who import it from there, and not for
    the module that defines it.
    """
    target = replaced.landing.patch.target
    if sys.modules.get(target.module) is module and name == target.qualname:
        return False
    if _implements(module, replaced.landing.patch):
        return False
    if _is_home(replaced):
        return True
    statements = imports(module)
    source = statements.get(name, statements.get("*", target.module))
    return source == target.module and module.__name__ != replaced.original.__module__


def _implements(module: Any, patch: Patch) -> bool:
    """Tell whether a module has the implementation of a patch, which calls the original there."""
    if patch.lazy:
        return sys.modules.get(Target.parse(patch.lazy).module) is module
    home = getattr(patch.implementation, "__module__", None)
    return home is not None and sys.modules.get(home) is module


def _is_home(replaced: Replaced) -> bool:
    target = replaced.landing.patch.target
    return bool(target.parent) or _is_at_home(replaced.original, target)


def _is_at_home(value: Any, target: Target) -> bool:
    module = getattr(value, "__module__", None)
    return module == target.module and getattr(value, "__qualname__", None) == target.qualname
