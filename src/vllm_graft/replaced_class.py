"""What makes a subclass stand in for a class that others hold: in dictionaries, schemas, bases."""

from inspect import Parameter
from typing import Any

from .errors import TargetKindError
from .landing import Landing, own
from .signatures import signature


def redirect(landing: Landing) -> None:
    """Let a class that a subclass has replaced make instances of that subclass, and derive from it.

    Whoever holds the original, under whatever name or in whatever container, then gets the
    subclass when calling it, and classes that inherit from the original inherit from the subclass.
    """
    original, made = landing.before, landing.value
    _check_maker(original)
    inherited = original.__new__
    called = _with_class(original)
    if "__new__" not in own(original) and inherited is object.__new__:
        # CPython does not reset the slot (tp_new) of a class that once had a `__new__`, and
        # object.__new__ then refuses arguments. So one is left behind that adds nothing.
        left = staticmethod(_new(called, inherited))
        landing.on_revert(lambda: setattr(original, "__new__", left))
    landing.put(original, "__new__", staticmethod(_new(called, inherited, original, made)))
    for heir in original.__subclasses__():
        if heir is not made:
            _move(landing, heir, original, made)


def _check_maker(original: type) -> None:
    """Raise `TargetKindError` for classes whose instances others make without calling them."""
    if type(original).__module__.partition(".")[0] == "msgspec":
        raise TargetKindError(
            f"{original.__qualname__} is a msgspec.Struct, whose decoders make instances without "
            "calling the class. Patch its methods"
        )


def _with_class(original: type) -> Any:
    """Return the signature of a class for a `__new__`; None where Python does not know it."""
    called = signature(original)
    if called is None:
        return None
    cls = Parameter("cls", Parameter.POSITIONAL_ONLY)
    rest = [each for each in called.parameters.values() if each.name != "cls"]
    return called.replace(parameters=[cls, *rest])


def _new(called: Any, inherited: Any, original: Any = None, made: Any = None) -> Any:
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

    if called is not None:
        vars(__new__)["__signature__"] = called
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
