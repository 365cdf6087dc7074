"""Keeping vLLM and torch out of what runs before vLLM's first line."""

import builtins
import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import DeclarationError

HEAVY = ("vllm", "torch")
"""What declarations and conditions must not import."""


_lock = threading.Lock()
_watched: list[int] = []  # threads, each as often as it has entered
_originals: dict[str, Any] = {}


@contextmanager
def without_heavy_imports() -> Iterator[None]:
    """Refuse imports of vLLM and torch by this thread.

    The import statement and `import_module` are watched, not the finders: whether torch is loaded
    already differs between processes, and a declaration must be refused in all of them or in none.
    """
    thread = threading.get_ident()
    with _lock:  # never held while anything is imported
        if not _watched:
            _originals.update(statement=builtins.__import__, function=importlib.import_module)
            builtins.__import__, importlib.import_module = _statement, _function
        _watched.append(thread)
    try:
        yield
    finally:
        with _lock:
            _watched.remove(thread)
            if not _watched:
                _restore()


def _restore() -> None:
    """Put the originals back, unless somebody else has put something in their place meanwhile."""
    if builtins.__import__ is _statement:
        builtins.__import__ = _originals["statement"]
    if importlib.import_module is _function:
        importlib.import_module = _originals["function"]


def _refuse(name: str) -> None:
    if threading.get_ident() in _watched and name.partition(".")[0] in HEAVY:
        caller = sys._getframe(2)
        raise DeclarationError(
            f"{caller.f_code.co_filename}:{caller.f_lineno}: this imports {name!r}, which would "
            "load it before the patches are armed. Import it inside the implementation, or give "
            "the implementation as a lazy 'module:qualname'"
        )


def _statement(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    if level == 0:
        _refuse(name)
    return _originals["statement"](name, globals, locals, fromlist or (), level)


def _function(name: str, package: str | None = None) -> Any:
    _refuse(name)
    return _originals["function"](name, package)
