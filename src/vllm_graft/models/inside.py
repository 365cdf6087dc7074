"""What the layer does inside vLLM for models. vLLM calls these; `builtin.layer` names them."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..caches import package_digest
from ..errors import FactoryError
from ..journal import JOURNAL, LOGGER
from .context import asking, choices_of, engine_config, give, neuron_config_in
from .factory import ModelFactory
from .registry import Model
from .resolve import FACTORIES, Factory, ask, class_of, is_vllms_own
from .upstream import REGISTRY

Function = Callable[..., Any]

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
        getattr(sys.modules[original.__module__], "_MODEL_ARCH_BY_HASH", {}).clear()
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
    """Ask factories anew whose models were configured before `additional_config` was known."""
    neuron_config = neuron_config_in(self.additional_config)
    for model_config in models_of(self):
        if neuron_config is not None and give(model_config, neuron_config):
            _inspect_again(model_config)
    original(self, *args, **kwargs)


def agree(vllm_config: Any) -> None:
    """Ask factories in this process too; raise where they choose otherwise than before."""
    # EngineCore's first step, and where packages register factories directly.
    importlib.import_module("vllm.plugins").load_general_plugins()
    for model_config in models_of(vllm_config):
        _choose_again(model_config)


def _choose_again(model_config: Any) -> None:
    """Ask the factories of what was chosen before, and of the model's own architectures."""
    named = getattr(model_config.hf_config, "architectures", None) or ()
    models = importlib.import_module(REGISTRY).ModelRegistry.models
    for architecture in {*choices_of(model_config), *named}:
        entry = models.get(architecture)
        factory = FACTORIES.of(architecture, entry) if entry is not None else None
        if factory is not None:
            FACTORIES.choose(architecture, factory, model_config)
        elif architecture in choices_of(model_config):
            FACTORIES.without(architecture, model_config)


def _inspect_again(model_config: Any) -> None:
    info, _ = model_config.registry.inspect_model_cls(model_config.architectures, model_config)
    model_config._model_info = info


def models_of(vllm_config: Any) -> Iterator[Any]:
    """Yield the configurations of an engine's models: the target's, and the draft's."""
    speculative = getattr(vllm_config, "speculative_config", None)
    for config in (
        getattr(vllm_config, "model_config", None),
        getattr(speculative, "draft_model_config", None),
    ):
        if config is not None:
            yield config
