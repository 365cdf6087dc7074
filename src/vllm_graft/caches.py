"""The fingerprint of a plan: equal wherever the same patches are selected, for cache keys."""

import functools
import hashlib
import importlib.util
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .builtin import BUILTIN
from .patch import Patch, Value
from .target import Target

FINGERPRINT = "VLLM_GRAFT_FINGERPRINT"
"""The name under which the fingerprint stands among vLLM's compile factors."""


def fingerprint(armed: Iterable[Patch]) -> str | None:
    """Return a digest of the armed patches, or None where only built-in ones are armed.

    It covers the ids, operations, targets, ranges and implementations. An implementation counts
    with the whole file that it is in, since what it calls is mostly there too.
    """
    parts = [
        "\0".join(
            (
                patch.id,
                patch.operation,
                str(patch.target),
                str(patch.vllm),
                str(patch.order),
                _source(patch),
            )
        )
        for patch in armed
        if patch.set_name not in BUILTIN
    ]
    if not parts:
        return None
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _source(patch: Patch) -> str:
    if patch.lazy is not None:
        return f"{patch.lazy} {_digest(_file_of(Target.parse(patch.lazy).module))}"
    return _described(patch.implementation)


def _described(value: Any) -> str:
    """Describe a value alike in every process: no addresses, no order of hashes."""
    if isinstance(value, Value):
        return repr(value.value)
    if isinstance(value, functools.partial):
        return f"partial {_described((value.func, value.args, value.keywords))}"
    if inspect.isroutine(value) or isinstance(value, type):
        return f"{value.__module__} {value.__qualname__} {_digest(_source_file(value))}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_described, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_described, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_described(k)}: {_described(v)}' for k, v in value.items())}}}"
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return f"{_described(type(value))} {_described(getattr(value, '__dict__', None))}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _source_file(value: Any) -> str | None:
    try:
        return inspect.getsourcefile(value)
    except TypeError:  # a built-in function or class
        return None


def _file_of(module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def _digest(file: str | None) -> str:
    try:
        return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()
    except OSError:
        return "no source"
