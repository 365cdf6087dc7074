"""Where a target really is in a tree, what it is, and how it is reached."""

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from symtable import symtable

from ..errors import SourceError
from ..target import Target
from . import describe, parameters
from .bindings import Scope
from .entities import Absent, Answer, Entity
from .foreign import foreign
from .lookup import Lookup
from .names import Names, names_of
from .outline import Unsplit
from .parts import accessors, joint_fingerprint
from .peculiar import peculiarity
from .resolution import Resolution, State
from .stored import stored
from .syntax_error import told
from .tree import Place, Tree, is_of_vllm


class Resolver:
    """Follows targets in one tree. It keeps what it has read for the next target.

    `names` gives which modules define a name, where somebody keeps that.
    """

    def __init__(self, tree: Tree, names: Callable[[], Names] | None = None) -> None:
        tree.raise_if_not_vllm()
        self.tree = tree
        self._make_names = names or partial(names_of, tree)
        self._lookup = Lookup(tree)
        self._sound: set[str] = set()

    def resolve(self, target: Target) -> Resolution:
        """Return what a target is; raise `SourceError` where a module on the way is not Python."""
        return self.resolve_with_modules(target)[0]

    def resolve_with_modules(self, target: Target) -> tuple[Resolution, frozenset[str]]:
        """Return what a target is, and the modules, there or not, that this rests on."""
        self._lookup.touched = set()
        resolution = self.guess(target)
        self._refuse_broken(target.module, is_missing=resolution.state == "missing")
        if resolution.state == "missing":
            with suppress(SourceError):  # of a module that nobody asked for
                resolution = self._split(partial(self._with_hint, resolution))
        if resolution.where is not None:
            self._refuse_broken(resolution.where.module)
        return resolution, frozenset(self._lookup.touched)

    def guess(self, target: Target) -> Resolution:
        """Return what a target is, for a module of which nobody says that it has it."""
        return self._split(partial(self._resolved, target))

    def naming(self, name: str) -> list[str]:
        """Return the modules whose text looks as if it defined a name, in order."""
        return self._names.modules(name)

    @cached_property
    def _names(self) -> Names:
        return self._make_names()

    def qualnames(self, module: str, name: str) -> list[str]:
        """Return where the text of a module defines a function, in itself or in its classes."""
        found = self._lookup.module(module)
        if found is None or found.home is None:
            return []
        try:
            return list(_defining(self._lookup.scope(found.home), name))
        except Unsplit:  # a candidate less
            return []

    def defines(self, target: Target) -> bool:
        """Tell whether the text of a module has a definition, in itself or in its classes."""
        found = self._lookup.module(target.module)
        if found is None or found.home is None:
            return False
        try:
            return _has(self._lookup.scope(found.home), target)
        except Unsplit:
            return False

    def _refuse_broken(self, module: str, *, is_missing: bool = False) -> None:
        """Raise for a module that cannot be imported: only blocks of it have been parsed.

        What was released is taken for sound where nothing says otherwise.
        """
        place = self.tree.locate(module)
        if place is None or place.module in self._sound:
            return
        if self.tree.is_compiled(place.path):
            self._sound.add(place.module)
            return
        outline = self._lookup.outline(place)
        if self.tree.is_released and not (is_missing or outline.looks_broken):
            return
        try:
            symtable(outline.text, place.path, "exec")  # two thirds of the time of `ast.parse`
        except (SyntaxError, ValueError) as error:
            raise self._not_python(place.path, error) from error
        self._sound.add(place.module)

    def _split(self, step: Callable[[], Resolution]) -> Resolution:
        """Do what looks into blocks; where some are not Python by themselves, do it anew."""
        while True:
            try:
                return step()
            except Unsplit as unsplit:
                self._parse(unsplit)

    def _parse(self, unsplit: Unsplit) -> None:
        outline = unsplit.outline
        self._lookup.forget(outline)
        try:
            outline.parse()
        except (SyntaxError, ValueError) as error:
            raise self._not_python(self._lookup.path_of(outline), error) from error

    def _not_python(self, path: str, error: SyntaxError | ValueError) -> SourceError:
        return SourceError(f"{path} in {self.tree.label} is not Python: {told(error)}")

    def _resolved(self, target: Target) -> Resolution:
        if not is_of_vllm(target):
            return foreign(target, self.tree)
        found = self._found(target)
        if isinstance(found, Entity):
            return self._described(target, found)
        state: State = "missing" if isinstance(found, Absent) else "unknown"
        return Resolution(target, state, found.reason)

    def _with_hint(self, missing: Resolution) -> Resolution:
        """Return what is missing with what it may have been meant to be."""
        from . import near  # few checks come to this

        target = missing.target
        if self._lookup.module(target.module) is None:
            meant = near.other_colon(self._lookup, target)
            if meant is not None:
                return replace(missing, meant=str(meant))
        if ": " in missing.reason:  # which tells more than that there is no such name
            return missing
        return replace(missing, near=near.near_name(self._lookup, target))

    def _found(self, target: Target) -> Answer:
        module = self._lookup.module(target.module)
        if module is None:
            return Absent(self._without_module(target.module))
        found: Answer = module
        for part in filter(None, target.qualname.split(".")):
            if not isinstance(found, Entity):
                break
            step = self._lookup.member(found, part)
            found = _after(found, step) if isinstance(step, Entity) else step
        return found

    def _without_module(self, module: str) -> str:
        """Say which module is missing: the first on the way that is not there."""
        parts = module.split(".")
        for count in range(2, len(parts) + 1):
            if self._lookup.module(".".join(parts[:count])) is None:
                return f"there is no module {'.'.join(parts[:count])}"
        return f"there is no module {module}"

    def _described(self, target: Target, entity: Entity) -> Resolution:
        if entity.kind == "outside" or entity.home is None:
            return Resolution(
                target,
                "found",
                kind="module" if entity.kind == "module" else "outside",
                where=_target_outside(entity),
                steps=entity.steps,
                peculiarity=peculiarity(self._lookup, entity),
            )
        node = self._lookup.whole(entity)
        body = self._whole(entity.home) if entity.kind == "module" else node
        more = accessors(self._lookup, entity)
        called = parameters.signature(self._lookup, entity)
        return Resolution(
            target,
            "found",
            kind=describe.kind(entity),
            where=Target(entity.home.module, entity.qualname),
            path=entity.home.path,
            line=getattr(node, "lineno", 1),
            end_line=max(getattr(each, "end_lineno", None) or 1 for each in (node, *more)),
            steps=entity.steps,
            parameters=None if called is None else stored(called),
            flavour="plain"
            if entity.kind == "generated"
            else describe.flavour(node, self._lookup.source(entity.home, node)),
            fingerprint="" if body is None else joint_fingerprint(body, more),
            hidden=describe.is_hidden(node),
            computed=describe.is_computed(node),
            peculiarity=peculiarity(self._lookup, entity),
            node=node,
        )

    def _whole(self, place: Place) -> ast.Module | None:
        """Return the syntax tree of a module; None where it has no source."""
        if place.kind in ("folder", "compiled"):
            return None
        try:
            return ast.parse(self._lookup.outline(place).text)
        except (SyntaxError, ValueError) as error:
            raise self._not_python(place.path, error) from error


def _has(scope: Scope, target: Target) -> bool:
    first, _, rest = target.qualname.partition(".")
    named = [block for block in scope.blocks if block.name == first]
    if not rest:
        return bool(named)
    members = [each for block in named if block.is_class for each in scope.outline.members(block)]
    return any(each.name == rest for each in members)


def _defining(scope: Scope, name: str) -> Iterator[str]:
    for block in scope.blocks:
        if block.name == name and not block.is_class:
            yield name
        elif block.is_class:
            members = scope.outline.members(block)
            if any(each.name == name for each in members):
                yield f"{block.name}.{name}"


def _after(before: Entity, entity: Entity) -> Entity:
    """Put the steps to a namespace in front of those from there on."""
    for step in reversed(before.steps):
        if step not in entity.steps:
            entity = entity.by(step)
    return entity


def _target_outside(entity: Entity) -> Target:
    module, _, name = entity.qualname.rpartition(".")
    is_module = entity.kind == "module" or not module
    return Target(entity.qualname) if is_module else Target(module, name)
