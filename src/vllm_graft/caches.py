"""The fingerprint of a plan: equal wherever the same patches are selected, for cache keys.

The built-in patches `PLACED_BY` put it into vLLM's keys.
"""

import functools
import hashlib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import CellType, CodeType, ModuleType
from typing import Any

from .builtin import BUILTIN
from .patch import Patch, Value
from .sources import origin_of, parsed
from .target import Target, spec_of

FINGERPRINT = "VLLM_GRAFT_FINGERPRINT"
"""The name under which the fingerprint stands among vLLM's compile factors."""

MODELS = "VLLM_GRAFT_MODELS"
"""The name among them of the implementations that factories have chosen."""

PLACED_BY = ("vllm-graft/compile-factors", "vllm-graft/compute-hash")
"""The patches that put the fingerprint into the keys of the compile caches; each vLLM has one."""

_OFF = {
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    # Up to 0.17 the first does not hinder the second, where the user has set that.
    "VLLM_USE_AOT_COMPILE": "0",
}


def switch_off(environ: MutableMapping[str, str]) -> bool:
    """Let vLLM use no compile cache in this process and its children; False if that is so already.

    To be called before the model is compiled: vLLM reads the variables until then.
    """
    if all(environ.get(name) == value for name, value in _OFF.items()):
        return False
    environ.update(_OFF)
    return True


@contextmanager
def switched_off() -> Iterator[None]:
    """Let vLLM use no compile cache in a block."""
    before = {name: os.environ.get(name) for name in _OFF}
    switch_off(os.environ)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def fingerprint(armed: Iterable[Patch]) -> str | None:
    """Return a digest of the armed patches, or None where only built-in ones are armed.

    It covers the ids, operations, targets, ranges and implementations. An implementation counts
    with the whole file that it is in, since what it calls is mostly there too.
    """
    _digest.cache_clear()
    _digest_of.cache_clear()
    package_digest.cache_clear()
    parsed.cache_clear()
    parts = [
        "\0".join(
            (
                patch.id,
                patch.operation,
                str(patch.target),
                str(patch.vllm),
                f"{patch.order} {sorted(patch.after)} {sorted(patch.process or ())}",
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
        return f"{patch.lazy} {[*map(_digest_of, _modules(Target.parse(patch.lazy)))]}"
    return _described(patch.implementation)


def _modules(target: Target) -> Iterator[str]:
    """Yield the module of a lazy implementation, and those through which it has the name."""
    seen: list[str] = []
    module: str | None = target.module
    while module is not None and module not in seen:
        seen.append(module)
        yield module
        module = origin_of(module, target.qualname.partition(".")[0])


def _described(value: Any, within: tuple[Any, ...] = ()) -> str:
    """Describe a value alike in every process: no addresses, no folders, no order of hashes."""
    if value is None or type(value) in _PLAIN:
        return repr(value)
    if any(value is each for each in within):
        return "itself"
    described = functools.partial(_described, within=(*within, value))
    if isinstance(value, (Value, ModuleType)):
        return repr(value.value if isinstance(value, Value) else value.__name__)
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({sorted(map(described, value))})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({[described(each) for each in value]})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({[described(pair) for pair in value.items()]})"
    if isinstance(value, functools.partial):
        return f"partial {described((value.func, value.args, value.keywords))}"
    if inspect.isroutine(value) or isinstance(value, type):
        module = getattr(value, "__module__", None)
        return f"{module} {value.__qualname__} {described(_inside(value))}"
    if is_dataclass(value) or getattr(type(value), "__repr__", None) is object.__repr__:
        return f"{described(type(value))} {described(getattr(value, '__dict__', None))}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


_PLAIN = (str, bytes, bool, int, float, complex)


def _inside(value: Any) -> tuple[Any, ...]:
    """Return what else a function or class consists of: its file, and what it was made with."""
    if inspect.ismethod(value):
        return (value.__self__, value.__func__)
    if not inspect.isfunction(value):
        return (_digest_of_source(value),)
    digest = _digest_of_source(value)
    told_apart = digest != _NO_SOURCE and value.__name__ != "<lambda>"
    return (
        digest,
        value.__code__.co_firstlineno if told_apart else _code(value.__code__),
        value.__defaults__,
        value.__kwdefaults__,
        [_content(cell) for cell in value.__closure__ or ()],
    )


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return (code.co_code, code.co_names, constants)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return None


@functools.lru_cache
def _digest_of(module: str) -> str:
    spec = spec_of(module)
    return _digest(spec.origin, spec.loader) if spec else _NO_SOURCE


def _digest_of_source(value: Any) -> str:
    if inspect.isfunction(value):
        file: str | None = value.__code__.co_filename
    else:
        try:
            file = inspect.getsourcefile(value)
        except TypeError:  # a built-in function or class
            return _NO_SOURCE
    module = sys.modules.get(value.__module__)
    return _digest(file, getattr(module, "__loader__", None))


@functools.lru_cache
def package_digest(module: str) -> str:
    """Return a digest of all Python files of the package that a module belongs to."""
    spec = spec_of(module.partition(".")[0])
    if spec is None or not spec.submodule_search_locations:
        return _digest_of(module)
    parts = [
        f"{file.relative_to(folder)} {_digest(str(file), None)}"
        for folder in spec.submodule_search_locations
        for file in Path(folder).rglob("*.py")
    ]
    if not parts:  # in an archive
        return _digest_of(module)
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


@functools.lru_cache  # for one fingerprint: many implementations are in one file
def _digest(file: str | None, loader: Any) -> str:
    """Return a digest of a file, which may be in an archive that only the loader reads."""
    read = getattr(loader, "get_data", None) or (lambda path: Path(path).read_bytes())
    try:
        return hashlib.sha256(read(file or "")).hexdigest()
    except OSError:
        return _NO_SOURCE


_NO_SOURCE = "no source"
