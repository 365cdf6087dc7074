"""What makes a subclass stand in for a class that others hold: in dictionaries, schemas, bases."""

from typing import Any

from .landing import Landing, own


def redirect(landing: Landing) -> None:
    """Let a class that a subclass has replaced make instances of that subclass, and derive from it.

    Whoever holds the original, under whatever name or in whatever container, then gets the
    subclass when calling it, and classes that inherit from the original inherit from the subclass.
    """
    original, made = landing.before, landing.value
    inherited = original.__new__
    if "__new__" not in own(original) and inherited is object.__new__:
        # CPython does not reset the slot (tp_new) of a class that once had a `__new__`, and
        # object.__new__ then refuses arguments. So one is left behind that adds nothing.
        landing.on_revert(lambda: setattr(original, "__new__", staticmethod(_new(inherited))))
    landing.put(original, "__new__", staticmethod(_new(inherited, original, made)))
    for heir in original.__subclasses__():
        if heir is not made:
            _move(landing, heir, original, made)


def _new(inherited: Any, original: Any = None, made: Any = None) -> Any:
    """Return a `__new__` that calls the inherited one, for `made` where `original` is called."""
    takes_nothing = inherited is object.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is original:
            return made.__new__(made, *args, **kwargs)
        if not takes_nothing:
            return inherited(cls, *args, **kwargs)
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return inherited(cls)

    return __new__


def _move(landing: Landing, heir: type, original: type, made: type) -> None:
    """Put the subclass between a class and the original that it was derived from."""
    before = heir.__bases__
    try:
        heir.__bases__ = tuple(made if base is original else base for base in before)
    except TypeError as error:
        landing.notes.append(
            f"{heir.__module__}:{heir.__qualname__} keeps deriving from the original "
            f"({error}); patch the methods of {landing.patch.target} instead"
        )
        return
    landing.on_revert(lambda: setattr(heir, "__bases__", before))
