"""Asking a factory: what it chooses for a configuration, told in one value or one clear error."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import FactoryError, GraftError
from ..imports import without_heavy_imports
from ..sources import bases
from ..target import Target
from .factory import UPSTREAM, ModelFactory

_FACTORY = Target("vllm_graft.models.factory", "ModelFactory")


@dataclass(frozen=True)
class Choice:
    """What a factory chose for an architecture: a lazy `"module:Class"`, and why."""

    architecture: str
    factory: str
    implementation: str
    why: str = ""

    @property
    def is_upstream(self) -> bool:
        """Whether it is vLLM's own implementation."""
        return self.implementation == UPSTREAM or self.implementation.startswith("vllm.")

    def __str__(self) -> str:
        reason = f" because {self.why}" if self.why else ""
        return f"{self.architecture}: {self.factory} chose {self.implementation}{reason}"


def choose(architecture: str, factory: str, hf_config: Any, neuron_config: Any) -> Choice:
    """Import a factory, `"module:Class"`, and let it choose.

    Raises `UnsupportedConfigError` where the factory refuses the configuration, `FactoryError`
    where the factory itself is at fault.
    """
    cls = load_factory(factory)
    try:
        implementation = cls.choose(hf_config, neuron_config)
    except GraftError:
        raise
    except Exception as error:
        raise FactoryError(
            f"the factory {factory} of {architecture!r} raised {type(error).__name__}: {error}. "
            "Mend it; VLLM_GRAFT_PATCHES can exclude a factory that 'vllm-graft list' shows."
        ) from error
    why = getattr(implementation, "why", "")
    return Choice(architecture, factory, str(implementation), why)


def validate(choice: Choice, vllm_config: Any) -> None:
    """Let a factory refuse what the engine would do with its choice; raise its error."""
    load_factory(choice.factory)._validate_engine(vllm_config, choice.implementation)


def load_factory(factory: str) -> type[ModelFactory]:
    """Import a factory, whose module imports neither vLLM nor torch; raise `FactoryError`."""
    target = Target.parse(factory)
    try:
        found: Any = sys.modules.get(target.module)
        if found is None:
            with without_heavy_imports():
                found = importlib.import_module(target.module)
        for part in target.qualname.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise FactoryError(
            f"the factory {factory} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, type) or not issubclass(found, ModelFactory):
        raise FactoryError(f"{factory} is {found!r}, which is no ModelFactory")
    return found


def is_factory(target: Target) -> bool:
    """Tell from its source, without importing it, whether a class is a factory."""
    return _FACTORY in _ancestors(target, set())


def _ancestors(target: Target, seen: set[Target]) -> Iterator[Target]:
    for base in bases(target):
        if base not in seen:
            seen.add(base)
            yield base
            yield from _ancestors(base, seen)
