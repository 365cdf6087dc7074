"""Compares patches with their locks when `VLLM_GRAFT_LOCK` asks, before any of them is armed."""

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from .builtin import BUILTIN
from .declare import PatchSet
from .locked import APPROVE, Unlike
from .models.registry import Registration, of_others
from .patch import Patch, Value
from .target import Target, spec_of
from .version import VllmVersion, package_folder

if TYPE_CHECKING:
    from .check.comparison import Comparison

FILE = "graft.lock"

SHIPPED = Path(__file__).parent / "builtin" / FILE
"""The lock of the sets that ship with the layer."""


class LockGuard:
    """Answers how a patch, or what it meets in the installed vLLM, is not as it was locked."""

    def __init__(self, sets: Iterable[PatchSet], vllm: VllmVersion, file: str | None) -> None:
        self._modules = {each.name: Path(each.location.file) for each in sets}
        self._vllm = vllm
        self._file = Path(file).absolute() if file is not None else None
        self._package = package_folder() or Path("vllm")
        from .lock_memory import LockMemory  # a check with locks has no use for it

        self._memory = LockMemory(str(self._package))

    def __call__(self, patch: Patch) -> Unlike | None:
        """Return what differs; None where nothing does."""
        file = self._lock_of(patch)
        if file is None:
            missing = f"there is no {FILE} for it beside {self._module(patch)}, or above"
            return Unlike(missing, APPROVE)
        written = _written(patch)
        if written is None:
            return self._compare(patch, file, None).difference
        key = f"{patch.id} {patch.target}"
        state = f"{self._vllm.text} {file} {patch.operation} {written}"
        before = self._memory.recall(key, state)
        if before is not None:
            return before.answer
        compared = self._compare(patch, file, _origin(patch))
        if compared.files:
            self._memory.remember(key, state, compared.difference, compared.files)
        return compared.difference

    def end(self) -> None:
        """Keep the answers for the next process."""
        self._memory.save()

    @cached_property
    def _compare(self) -> "Comparison":
        from .check.comparison import Comparison  # only where something has changed

        return Comparison(self._vllm, self._package)

    def _lock_of(self, patch: Patch) -> Path | None:
        return lock_of(patch, self._file, self._module(patch))

    def _module(self, patch: Patch) -> Path:
        return declaring(patch, self._modules.get(patch.set_name))


def lock_of(patch: Patch, file: Path | None, module: Path | None = None) -> Path | None:
    """Return the lock that is for a patch: `file` if it is given, else that of its set.

    `module` declares the set of the patch. The sets that ship with the layer have their own.
    """
    if patch.set_name in BUILTIN and not of_others(patch):
        return SHIPPED
    return file or lock_beside(declaring(patch, module))


def declaring(patch: Patch, module: Path | None = None) -> Path:
    """Return the module that declares a patch's set, or the factory that the patch registers."""
    factory = _reference(patch) if of_others(patch) else None
    if factory is not None:
        return _file_of(factory) or Path(patch.location.file)
    return module or Path(patch.location.file)


@lru_cache
def lock_beside(module: Path) -> Path | None:
    """Return the lock beside a module or above it.

    It is looked for up to the top of the module's package, and in a source checkout up to the
    folder with its `pyproject.toml`.
    """
    for folder in _above(module.resolve()):
        if (folder / FILE).is_file():
            return folder / FILE
    return None


def _above(module: Path) -> Iterator[Path]:
    """Yield the folder of a module, and those above it that belong to the same distribution."""
    folders = list(module.parents)
    in_package = [*takewhile(lambda each: (each / "__init__.py").is_file(), folders)]
    yield from in_package or folders[:1]
    checkout = []
    for folder in folders[len(in_package) :]:
        if any(folder.glob("*.dist-info")):  # others are installed there too
            return
        checkout.append(folder)
        if (folder / "pyproject.toml").is_file():
            yield from checkout
            return


def _written(patch: Patch) -> str | None:
    """Say which implementation a patch has, but for what is in the file of it.

    None where only looking into the object tells.
    """
    reference, made = _reference(patch), patch.implementation
    made = made.value if isinstance(made, Value) else made
    if reference is not None:
        return f"{reference} {_file_of(reference)}"
    if isinstance(made, FunctionType):
        code = made.__code__
        known = not hasattr(made, "__wrapped__") and Path(code.co_filename).is_file()
        given = _given(made) if known else None
        written = f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"
        return f"{written} {given}" if given is not None else None
    if isinstance(made, type):
        file = _origin(patch)
        return f"{file} {made.__qualname__}" if file is not None else None
    return repr(made) if _is_plain(made) else None


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (str, bytes, bool, int, float)


def _given(function: FunctionType) -> str | None:
    """Say what another function gave to one that it made; None where that takes a closer look."""
    try:
        given = [each.cell_contents for each in function.__closure__ or ()]
    except ValueError:  # one is empty yet
        return None
    if "<locals>" in function.__qualname__:
        given += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return repr(given) if all(map(_is_plain, given)) else None


def _origin(patch: Patch) -> Target | Path | None:
    """Return where the implementation of a patch is written."""
    reference, made = _reference(patch), patch.implementation
    if reference is not None:
        return Target.parse(reference)
    if isinstance(made, FunctionType):
        return Path(made.__code__.co_filename)
    file = getattr(sys.modules.get(getattr(made, "__module__", "")), "__file__", None)
    return Path(file) if file and isinstance(made, type) else None


def _reference(patch: Patch) -> str | None:
    """Return the name of an implementation that is read, not imported."""
    made = patch.implementation
    return made.model.factory if isinstance(made, Registration) else patch.lazy


def _file_of(reference: str) -> Path | None:
    spec = spec_of(Target.parse(reference).module)
    return Path(spec.origin) if spec is not None and spec.origin else None
