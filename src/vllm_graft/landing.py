"""What a patch has changed, and how to take it back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from .patch import Patch
from .target import MISSING, Target, find


class Landing:
    """One patch in effect: what stood at its target, what stands there now, and the way back.

    `before` is what the target was, MISSING where it did not exist; `inherited` tells that a class
    had it from another one; `others` is how many references to it there were besides its own name,
    None where that cannot be told. `former` is what the same patch had put there earlier, where
    its chain was made anew. `notes` are what a reader of the state should know.
    """

    __slots__ = (
        "_names",
        "_undo",
        "before",
        "former",
        "inherited",
        "notes",
        "others",
        "patch",
        "value",
    )

    def __init__(self, patch: Patch) -> None:
        self.patch = patch
        self.before: Any = MISSING
        self.value: Any = MISSING
        self.former: Any = MISSING
        self.inherited = False
        self.others: int | None = None
        self.notes: list[str] = []
        self._undo = ExitStack()
        self._names: list[tuple[Any, str]] = []

    def put(self, namespace: Any, name: str, value: Any) -> None:
        """Bind a name of a module, class or object, and remember what it was bound to."""
        binding = Binding(namespace, name)
        binding.change(value, self._undo)
        if value is self.value:
            self.inherited = binding.before is MISSING

    def on_revert(self, step: Callable[[], None]) -> None:
        """Call back when the landing is reverted, before what was done earlier is undone."""
        self._undo.callback(step)

    def settle(self) -> None:
        """Forget how to take back what has been done so far."""
        self._undo.pop_all()

    def follow(self, module: Any, name: str) -> None:
        """Take a name in a module that has been bound to what was put at the target.

        When the landing is reverted it is bound to what was there before, if it still has that.
        """
        self._names.append((module, name))

    def revert(self) -> None:
        """Take back every change, the last one first."""
        value, before = inner(self.value), inner(self.before)
        for module, name in self._names:
            if own(module).get(name) is value:
                setattr(module, name, before)
        self._names.clear()
        self._undo.close()

    def stands(self, module: object) -> bool:
        """Tell whether a module still has at the target what was put there."""
        return self.value is not MISSING and find(module, self.patch.target.qualname) is self.value


class Binding:
    """A name in a namespace; `before` is what it was bound to there, not what it inherited."""

    __slots__ = ("_name", "_namespace", "before")

    def __init__(self, namespace: Any, name: str) -> None:
        self._namespace = namespace
        self._name = name
        self.before: Any = MISSING

    def change(self, value: Any, undo: ExitStack) -> None:
        self.before = own(self._namespace).get(self._name, MISSING)
        setattr(self._namespace, self._name, value)
        undo.callback(self._restore)
        if isinstance(self._namespace, type) and hasattr(type(value), "__set_name__"):
            value.__set_name__(self._namespace, self._name)

    def _restore(self) -> None:
        if self.before is not MISSING:
            setattr(self._namespace, self._name, self.before)
        elif self._name in own(self._namespace):
            delattr(self._namespace, self._name)


def inner(value: Any) -> Any:
    """Return the function inside a static method, which is what others get from it."""
    return value.__func__ if isinstance(value, staticmethod) else value


def own(namespace: Any) -> Mapping[str, Any]:
    """Return what a module, class or object binds itself; nothing where it does not let us ask."""
    try:
        found: Mapping[str, Any] = namespace.__dict__
    except Exception:  # what stands in sys.modules may be anything
        return {}
    return found


class Landings:
    """The patches in effect in this process, in the order in which they landed."""

    def __init__(self) -> None:
        self.remember_runs = False
        """Whether what `run` patches do is to be taken back; that keeps copies of modules."""
        self._landed: dict[str, Landing] = {}
        self._chains: dict[Target, list[Landing]] = {}

    def __iter__(self) -> Iterator[Landing]:
        return iter(tuple(self._landed.values()))

    def add(self, landing: Landing) -> None:
        """Take in a landing; an earlier one of the same patch is forgotten."""
        self.forget(landing)
        self._landed[landing.patch.id] = landing
        self._chains.setdefault(landing.patch.target, []).append(landing)

    def forget(self, landing: Landing) -> None:
        """Leave out a landing whose target has been made anew: there is nothing to take back."""
        known = self._landed.pop(landing.patch.id, None)
        if known is not None:
            self._chains[known.patch.target].remove(known)

    def get(self, patch_id: str) -> Landing | None:
        """Return the landing of a patch that is in effect."""
        return self._landed.get(patch_id)

    def chain(self, target: Target) -> list[Landing]:
        """Return what landed on one target, the last on top of the others."""
        return list(self._chains.get(target, ()))

    def revert(self, landing: Landing) -> None:
        """Take a patch back. What landed on top of it must have been taken back before."""
        self.forget(landing)
        landing.revert()


LANDINGS = Landings()
