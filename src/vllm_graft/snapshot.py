"""Remembers a module, for patches that change it in ways of their own."""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from .landing import own
from .target import is_class


class Names(dict[str, Any]):
    """Names and what they were bound to, to be told from a container of somebody else's."""


class Contents(list[Any]):
    """What was in a container, to be told from a container of somebody else's."""


_SEQUENCES = (list, set, deque)


def snapshot(module: ModuleType) -> Callable[[], None]:
    """Return a function that gives a module back what it has now.

    Its classes, the objects that it made of them, and containers in all of these have what they
    had. Not remembered: what is further inside, and other modules.
    """
    names = Names(own(module))
    classes = [
        value for value in names.values() if is_class(value) and value.__module__ == module.__name__
    ]
    objects = [value for value in names.values() if type(value) in classes]
    attributes: list[tuple[Any, Mapping[str, Any]]] = [
        (space, Names(own(space))) for space in (module, *classes, *objects)
    ]
    values = [value for space in (module, *objects) for value in own(space).values()]
    tables = [(each, Names(each)) for each in values if issubclass(type(each), dict)]
    lists = [(each, Contents(each)) for each in values if issubclass(type(each), _SEQUENCES)]

    def restore() -> None:
        for space, before in attributes:
            restore_names(space, before)
        for table, entries in tables:
            table.clear()
            table.update(entries)
        for container, items in lists:
            container.clear()
            (container.update if isinstance(container, set) else container.extend)(items)

    return restore


def restore_names(space: Any, before: Mapping[str, Any]) -> None:
    """Give a module or class back the names that it had, as far as Python lets them be set."""
    for name in [name for name in own(space) if name not in before]:
        delattr(space, name)
    for name, value in before.items():
        if own(space).get(name) is not value:
            with suppress(AttributeError, TypeError):
                setattr(space, name, value)
