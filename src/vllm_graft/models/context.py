"""What a factory is asked about: the configuration of a model, and what the user says of it.

vLLM asks its registry about a model before there is a `VllmConfig` to have the user's
`additional_config`, and in processes that have been sent one. So what is known is kept with the
model's configuration, which goes wherever vLLM sends it.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

KEY = "neuron_config"
"""The key of `additional_config` that factories read."""

DRAFT = "draft_"
"""What the options of a draft model begin with, in the `neuron_config` that both models share."""

_ATTRIBUTE = "_vllm_graft"

_MISSING: Any = object()
_additional: ContextVar[Any] = ContextVar("additional_config", default=_MISSING)
_asking: ContextVar[Any] = ContextVar("model_config", default=None)


@contextmanager
def engine_config(additional_config: Any) -> Iterator[None]:
    """Let models whose configuration is made in a block have this `additional_config`."""
    token = _additional.set(additional_config)
    try:
        yield
    finally:
        _additional.reset(token)


@contextmanager
def asking(model_config: Any) -> Iterator[None]:
    """Say whose registry is asked in a block, for releases that do not tell the registry."""
    token = _asking.set(model_config)
    try:
        yield
    finally:
        _asking.reset(token)


def asked_model() -> Any:
    """Return the configuration of the model that vLLM asks about; None where nothing says it."""
    return _asking.get() or getattr(_current_vllm_config(), "model_config", None)


def neuron_config_in(additional_config: Any) -> Any:
    """Return what an `additional_config`, mapping or object, has for factories, or None."""
    if isinstance(additional_config, Mapping):
        return additional_config.get(KEY)
    return getattr(additional_config, KEY, None)


def neuron_config_of(model_config: Any) -> Any:
    """Return the `neuron_config` of a model, and keep it with the model's configuration.

    A draft model has the user's `draft_…` options, without that prefix, and none of the others.
    """
    given = _given(model_config)
    return draft_options(given) if is_draft(model_config) else given


def is_draft(model_config: Any) -> bool:
    """Tell whether a model is the draft of another one."""
    said = (getattr(model_config, name, None) for name in ("runner", "runner_type", "task"))
    return "draft" in said


def draft_options(neuron_config: Any) -> dict[str, Any]:
    """Return what a `neuron_config`, mapping or object, says of the draft model."""
    given = {} if neuron_config is None else items(neuron_config)
    return {
        name.removeprefix(DRAFT): value for name, value in given.items() if name.startswith(DRAFT)
    }


def items(neuron_config: Any) -> dict[str, Any]:
    """Return what a mapping has, or the attributes of an object."""
    if isinstance(neuron_config, Mapping):
        return {str(key): value for key, value in neuron_config.items()}
    cls = type(neuron_config)
    names = [
        *getattr(neuron_config, "__dict__", ()),
        *(name for base in cls.__mro__ for name in getattr(base, "__slots__", ())),
        *(name for name in dir(cls) if name.startswith(DRAFT)),
    ]
    return {
        name: getattr(neuron_config, name)
        for name in names
        if name[:1] != "_" and hasattr(neuron_config, name)
    }


def _given(model_config: Any) -> Any:
    memory = _memory(model_config)
    if KEY not in memory:
        additional = _additional.get()
        if additional is _MISSING:
            current = _current_vllm_config()
            if current is None:
                return None
            additional = getattr(current, "additional_config", None)
        memory[KEY] = neuron_config_in(additional)
    return memory[KEY]


def give(model_config: Any, neuron_config: Any) -> bool:
    """Keep a `neuron_config` with a model; False where it has that already."""
    memory = _memory(model_config)
    if KEY in memory and _same(memory[KEY], neuron_config):
        return False
    memory.clear()
    memory[KEY] = neuron_config
    return True


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one == other) or items(one) == items(other)


def settle(model_config: Any) -> None:
    """Take it that all factories of a model have been asked, by the names that it keeps.

    What they chose by others is forgotten: a draft is another architecture at first.
    """
    memory = _memory(model_config)
    names = set(getattr(model_config.hf_config, "architectures", None) or ())
    if is_draft(model_config):
        choices = choices_of(model_config)
        memory["choices"] = {name: each for name, each in choices.items() if name in names}
    memory["settled"] = True


def is_settled(model_config: Any) -> bool:
    """Tell whether `settle` was called for a model, here or where it was configured."""
    return bool(_memory(model_config).get("settled"))


def choices_of(model_config: Any) -> dict[str, str]:
    """Return what factories chose for a model, by architecture, in whichever process was first."""
    choices: dict[str, str] = _memory(model_config).setdefault("choices", {})
    return choices


def _memory(model_config: Any) -> dict[str, Any]:
    memory: dict[str, Any] = vars(model_config).setdefault(_ATTRIBUTE, {})
    return memory


def _current_vllm_config() -> Any:
    """Return the `VllmConfig` that is in effect, if any.

    vLLM's own function for it makes one up, or raises, where there is none.
    """
    module = sys.modules.get("vllm.config.vllm") or sys.modules.get("vllm.config")
    return getattr(module, "_current_vllm_config", None)
