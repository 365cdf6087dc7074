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


@contextmanager
def without_heavy_imports() -> Iterator[None]:
    """Refuse imports of vLLM and torch by this thread.

    The import statement and `import_module` are watched, not the finders: whether torch is loaded
    already differs between processes, and a declaration must be refused in all of them or in none.
    """
    statement, function = builtins.__import__, importlib.import_module
    # Whoever is loaded meanwhile may keep what it finds under these names for good.
    watching = [threading.get_ident()]

    def refuse(name: str) -> None:
        if threading.get_ident() in watching and name.partition(".")[0] in HEAVY:
            caller = sys._getframe(2)
            raise DeclarationError(
                f"{caller.f_code.co_filename}:{caller.f_lineno}: this imports {name!r}, which "
                "would load it before the patches are armed. Import it inside the implementation, "
                "or give the implementation as a lazy 'module:qualname'"
            )

    def watched_statement(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level == 0:
            refuse(name)
        return statement(name, globals, locals, fromlist or (), level)

    def watched_function(name: str, package: str | None = None) -> Any:
        refuse(name)
        return function(name, package)

    builtins.__import__, importlib.import_module = watched_statement, watched_function
    try:
        yield
    finally:
        watching.clear()
        if builtins.__import__ is watched_statement:
            builtins.__import__ = statement
        if importlib.import_module is watched_function:
            importlib.import_module = function
