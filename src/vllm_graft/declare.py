"""How patches are declared: `PatchSet` and its six operations."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import DeclarationError
from .patch import Location, Operation, Patch, PatchOptions, raise_if_conflicting
from .target import MISSING, Target
from .validate import NAME, build, mistake

if TYPE_CHECKING:
    from typing_extensions import Unpack

_T = TypeVar("_T")


class PatchSet:
    """The patches that one distribution declares, under one name.

    Every operation takes the target first and the implementation second, or is used as a
    decorator on the implementation. All raise `DeclarationError`, which names file, line and
    remedy, and `ConflictError` where two patches of the set exclude each other.
    """

    def __init__(self, name: str) -> None:
        location = _caller()
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise DeclarationError(
                f"{location}: the patch set's name is {name!r}. "
                "Use lower-case letters, digits, '-', '_' and '.', for example 'acme'."
            )
        self.name = name
        self.location = location
        self._patches: dict[str, Patch] = {}
        self._by_target: dict[Target, list[Patch]] = {}
        self._waiting: dict[Location, str] = {}
        self._sealed = False

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The declared patches, in the order of their declaration."""
        return tuple(self._patches.values())

    def seal(self) -> None:
        """Check what only the whole set shows, and refuse further declarations."""
        for location, what in self._waiting.items():
            raise mistake(
                location,
                f"{what} has no implementation",
                "Give it as the second argument, or use the call as a decorator.",
            )
        for patch in self._patches.values():
            for name in patch.after:
                if name.partition("/")[0] == self.name and name not in self._patches:
                    raise mistake(
                        patch.location,
                        f"patch {patch.id!r} has after={name!r}, which its set does not declare",
                        f"The set has {', '.join(self._patches)}.",
                    )
        self._sealed = True

    def __repr__(self) -> str:
        return f"PatchSet({self.name!r}, {len(self._patches)} patches)"

    def replace(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Put a function that takes the target's own arguments, or a class, in its place."""
        return self._operation("replace", target, implementation, options)

    def wrap(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Put a closure in the target's place that calls `implementation(original, ...)`."""
        return self._operation("wrap", target, implementation, options)

    def add(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Add a function, class or value under a name that must not exist yet."""
        return self._operation("add", target, implementation, options)

    def set(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Change the value of a constant or class attribute that must exist."""
        return self._operation("set", target, implementation, options)

    def subclass(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Replace a class by the subclass that `implementation(Original)` returns."""
        return self._operation("subclass", target, implementation, options)

    def run(
        self, target: str, implementation: Any = MISSING, **options: "Unpack[PatchOptions]"
    ) -> Callable[[_T], _T]:
        """Call `implementation(module)`, or import `"pkg.module"`, when a module is imported."""
        return self._operation("run", target, implementation, options)

    def _operation(
        self, operation: Operation, target: str, implementation: Any, options: PatchOptions
    ) -> Callable[[_T], _T]:
        location = _caller()

        def declare(implementation: _T) -> _T:
            self._waiting.pop(location, None)
            self._add(build(self.name, operation, target, implementation, options, location))
            return implementation

        if implementation is MISSING and callable(target):
            raise mistake(
                location,
                f"{operation} is given {target!r} for its target",
                f"Write @{self.name}.{operation}('module:qualname', vllm=…, why=…, …).",
            )
        if implementation is MISSING:
            self._waiting[location] = f"{operation} of {target!r}"
            return declare
        declare(implementation)
        return lambda decorated: decorated

    def _add(self, patch: Patch) -> None:
        if self._sealed:
            raise mistake(
                patch.location,
                f"patch {patch.id!r} is declared after its set was loaded, so it would never run",
                "Declare it in the module that the entry point names, or import its module there.",
            )
        twin = self._patches.get(patch.id)
        if twin is not None:
            raise mistake(
                patch.location,
                f"patch id {patch.id!r} is taken by the declaration at {twin.location}",
                "Give one of them its own name with id='…'.",
            )
        rivals = self._by_target.setdefault(patch.target, [])
        for rival in rivals:
            raise_if_conflicting(rival, patch)
        rivals.append(patch)
        self._patches[patch.id] = patch


def _caller() -> Location:
    """Return where the frame nearest to us that is not of this module is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else Location("?", 0)
