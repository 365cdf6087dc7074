"""What the layer does inside vLLM for models. vLLM calls these; `builtin.layer` names them."""

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..caches import package_digest
from ..errors import FactoryError
from ..journal import JOURNAL, LOGGER
from .choice import validate
from .context import (
    DRAFT,
    asking,
    choices_of,
    engine_config,
    give,
    is_draft,
    items,
    neuron_config_in,
    settle,
)
from .factory import ModelFactory
from .registry import Model
from .resolve import FACTORIES, Factory, ask, class_of, is_vllms_own
from .upstream import REGISTRY

Function = Callable[..., Any]

LOADER = "vllm.model_executor.model_loader.utils"

NEEDED = ("vllm-graft/model-register", "vllm-graft/model-inspect", "vllm-graft/model-resolve")
"""The patches without which vLLM would take a factory for a model."""


def register(model: Model, module: Any) -> None:
    """Register a factory with vLLM's registry, unless somebody else has the architecture."""
    missing = [patch_id for patch_id in NEEDED if not JOURNAL.is_applied(patch_id)]
    if missing:
        raise FactoryError(f"it needs {', '.join(missing)}, which this process does not have")
    registry = module.ModelRegistry
    before = registry.models.get(model.architecture)
    if before is not None and not is_vllms_own(before):
        raise FactoryError(
            f"{model.architecture!r} is registered as {class_of(before)} by somebody else, who "
            "keeps it"
        )
    FACTORIES.registering = model
    try:
        registry.register_model(model.architecture, model.factory)
    finally:
        FACTORIES.registering = None
    entry = registry.models[model.architecture]
    FACTORIES.by_architecture[model.architecture] = Factory(model.factory, entry, model)


def register_model(
    original: Function, self: Any, model_arch: str, model_cls: Any, *args: Any, **kwargs: Any
) -> None:
    """Register a model; a factory given as a class becomes a lazy string."""
    is_factory = isinstance(model_cls, type) and issubclass(model_cls, ModelFactory)
    name = _lazily(model_cls) if is_factory else None
    before = self.models.get(model_arch)
    original(self, model_arch, name or model_cls, *args, **kwargs)
    after = self.models[model_arch]
    if before is not None and is_vllms_own(before):
        FACTORIES.upstream.setdefault(model_arch, before)
    factory = FACTORIES.by_architecture.pop(model_arch, None)
    if name is not None:
        FACTORIES.by_architecture[model_arch] = Factory(name, after)
    ours = FACTORIES.registering
    JOURNAL.event(
        "register_model",
        JOURNAL.patch(ours.id) if ours else None,
        detail=f"{model_arch}: {class_of(after)}" + (f" of {ours.origin}" if ours else ""),
    )
    if factory is not None and factory.entry is before and before != after:
        LOGGER.warning(
            "vllm-graft: %s is registered as %s now, in place of the factory %s, which has no "
            "effect any more",
            *(model_arch, class_of(after), factory.name),
        )


def _lazily(factory: type[ModelFactory]) -> str:
    name = f"{factory.__module__}:{factory.__qualname__}"
    if factory.__module__ == "__main__" or "<locals>" in name:
        raise FactoryError(
            f"the factory {name} cannot be found by other processes. Put it into a module at its "
            "top level."
        )
    return name


def inspect_model_cls(
    original: Function, self: Any, architectures: Any, model_config: Any = None
) -> Any:
    """Let vLLM see the flags of the implementation that a factory chooses."""
    return ask(original, self, architectures, model_config, lambda each: each.inspect_model_cls())


def resolve_model_cls(
    original: Function, self: Any, architectures: Any, model_config: Any = None
) -> Any:
    """Let vLLM have the class of the implementation that a factory chooses."""
    return ask(original, self, architectures, model_config, lambda each: each.load_model_cls())


def model_info_file(name: str, entry: Any) -> str:
    """Return the name of the file in which vLLM keeps what it has found out about a model class.

    vLLM's hash of the class's own file does not cover what the class inherits from, be it in
    other files of its package or in another vLLM.
    """
    target = class_of(entry)
    if is_vllms_own(entry) or target not in FACTORIES.implementations:
        return name
    state = f"{JOURNAL.vllm} {package_digest(target.module)}"
    return f"{name.removesuffix('.json')}-{hashlib.sha256(state.encode()).hexdigest()}.json"


def get_model_architecture(original: Function, model_config: Any) -> Any:
    """Let a cached class be found only by a model for which its factory chooses it.

    The key of vLLM's cache has the model's folder and architecture, and not what the user says.
    """
    _choose_again(model_config)
    kept = FACTORIES.kept
    choices = choices_of(model_config)
    if any(kept.get(architecture, choice) != choice for architecture, choice in choices.items()):
        getattr(importlib.import_module(LOADER), "_MODEL_ARCH_BY_HASH", {}).clear()
        kept.clear()
    kept.update(choices)
    with asking(model_config):
        return original(model_config)


def create_engine_config(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Have `additional_config` known while the models' configurations are made."""
    with engine_config(self.additional_config):
        return original(self, *args, **kwargs)


def model_config_made(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Have a model's configuration known to the registry of a vLLM that does not pass it on."""
    with asking(self):
        original(self, *args, **kwargs)


def vllm_config_made(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Ask factories anew whose models were configured before `additional_config` was known.

    Then all is known that they can be asked about, and what they cannot have is refused.
    """
    neuron_config = neuron_config_in(self.additional_config)
    for model_config in models_of(self):
        if neuron_config is not None and give(model_config, neuron_config):
            _inspect_again(model_config)
    original(self, *args, **kwargs)
    for model_config in models_of(self):
        settle(model_config)
        named = model_config.hf_config.architectures if is_draft(model_config) else ()
        for architecture, factory in _factories(model_config, named or ()):
            choice = FACTORIES.choose(architecture, factory, model_config, last=True)
            validate(choice, self)
    _warn_of_unread(self, neuron_config)


def _warn_of_unread(vllm_config: Any, neuron_config: Any) -> None:
    """Warn of options that no factory has been asked with."""
    model_config, *drafts = models_of(vllm_config) or [None]
    if not neuron_config or model_config is None or is_draft(model_config):
        return  # the worker makes a configuration with the draft in the target's place
    given = items(neuron_config)
    for_draft = [name for name in given if name.startswith(DRAFT)]
    if not choices_of(model_config) and len(for_draft) < len(given):
        names = ", ".join(getattr(model_config.hf_config, "architectures", None) or ())
        _warn(f"neuron_config is given, and {names} has no factory that would read it")
    if for_draft and not drafts:
        _warn(f"neuron_config has {', '.join(for_draft)}, and there is no draft model")


@functools.cache  # vLLM makes configurations of one engine many times
def _warn(text: str) -> None:
    LOGGER.warning("vllm-graft: %s", text)


def agree(vllm_config: Any) -> None:
    """Ask factories in this process too; raise where they choose otherwise than before."""
    # EngineCore's first step, and where packages register factories directly.
    importlib.import_module("vllm.plugins").load_general_plugins()
    for model_config in models_of(vllm_config):
        _choose_again(model_config)


def _choose_again(model_config: Any) -> None:
    for architecture, factory in _factories(model_config):
        FACTORIES.choose(architecture, factory, model_config)


def _factories(model_config: Any, named: Iterable[str] = ()) -> Iterator[tuple[str, Factory]]:
    """Yield the factories that have chosen for a model, or are for architectures that are named.

    Raises `FactoryError` where one of the first is missing here.
    """
    models = importlib.import_module(REGISTRY).ModelRegistry.models
    for architecture in {*choices_of(model_config), *named}:
        entry = models.get(architecture)
        factory = FACTORIES.of(architecture, entry) if entry is not None else None
        if factory is None:
            FACTORIES.without(architecture, model_config)
        else:
            yield architecture, factory


def _inspect_again(model_config: Any) -> None:
    info, _ = model_config.registry.inspect_model_cls(model_config.architectures, model_config)
    model_config._model_info = info


def models_of(vllm_config: Any) -> list[Any]:
    """Return the configurations of an engine's models: the target's first, then its draft's."""
    speculative = getattr(vllm_config, "speculative_config", None)
    target = getattr(vllm_config, "model_config", None)
    draft = getattr(speculative, "draft_model_config", None)
    # Speculation without a draft model has the target's configuration in its place.
    return [each for each in (target, draft if draft is not target else None) if each is not None]
