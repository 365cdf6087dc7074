"""A stand-in for the parts of vLLM that choose a model's class, in the shapes of its releases.

The unit tests run on interpreters that have neither torch nor vLLM, and ask about more releases and
failures than engines could be started for. Whatever stands here has the names, the caches and the
order of calls of the sources of 0.9.2, 0.10.1 and 0.32.0; the real one is in tests/engine.
"""

from textwrap import dedent

_MODELS = "vllm/model_executor/models"

_REGISTRY = """
import importlib
import logging
from dataclasses import dataclass, field
from functools import lru_cache

logger = logging.getLogger(__name__)
inspected = []


class Module:
    'Stands for torch.nn.Module.'


@dataclass(frozen=True)
class _ModelInfo:
    architecture: str
    supports_pp: bool

    @staticmethod
    def from_model_cls(model):
        inspected.append(f"{model.__module__}:{model.__qualname__}")
        return _ModelInfo(model.__name__, model.supports_pp)


@dataclass(frozen=True)
class _RegisteredModel:
    interfaces: _ModelInfo
    model_cls: type

    @staticmethod
    def from_model_cls(model_cls):
        return _RegisteredModel(_ModelInfo.from_model_cls(model_cls), model_cls)

    def inspect_model_cls(self):
        return self.interfaces

    def load_model_cls(self):
        return self.model_cls


@dataclass(frozen=True)
class _LazyRegisteredModel:
    module_name: str
    class_name: str

    def _get_cache_filename(self) -> str:
        cls_name = f"{self.module_name}-{self.class_name}".replace(".", "-")
        return f"{cls_name}.json"

    # vLLM's does this in another process, with `python -m` of this module.
    def inspect_model_cls(self):
        return _ModelInfo.from_model_cls(self.load_model_cls())

    def load_model_cls(self):
        mod = importlib.import_module(self.module_name)
        return getattr(mod, self.class_name)


@lru_cache(maxsize=128)
def _try_load_model_cls(model_arch, model):
    try:
        return model.load_model_cls()
    except Exception:
        logger.exception("Error in loading model architecture '%s'", model_arch)
        return None


@lru_cache(maxsize=128)
def _try_inspect_model_cls(model_arch, model):
    try:
        return model.inspect_model_cls()
    except Exception:
        logger.exception("Error in inspecting model architecture '%s'", model_arch)
        return None


_TEXT_GENERATION_MODELS = {
    "Eagle3LlamaForCausalLM": ("llama_eagle3", "Eagle3LlamaForCausalLM"),
    "GptOssForCausalLM": ("gpt_oss", "GptOssForCausalLM"),
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "OPTForCausalLM": ("opt", "OPTForCausalLM"),
}
_PREVIOUSLY_SUPPORTED_MODELS = {"GoneForCausalLM": "0.9.1"}


@dataclass
class _ModelRegistry:
    models: dict = field(default_factory=dict)

    def get_supported_archs(self):
        return self.models.keys()

    def register_model(self, model_arch, model_cls) -> None:
        if isinstance(model_cls, str):
            split_str = model_cls.split(":")
            if len(split_str) != 2:
                raise ValueError("Expected a string in the format `<module>:<class>`")
            model = _LazyRegisteredModel(*split_str)
        elif isinstance(model_cls, type) and issubclass(model_cls, Module):
            model = _RegisteredModel.from_model_cls(model_cls)
        else:
            raise TypeError("`model_cls` should be a string or PyTorch model class")
        self.models[model_arch] = model

    def _raise_for_unsupported(self, architectures):
        if any(arch in self.get_supported_archs() for arch in architectures):
            raise ValueError(f"Model architectures {architectures} failed to be inspected.")
        raise ValueError(f"Model architectures {architectures} are not supported for now.")

    def _try_load_model_cls(self, model_arch):
        if model_arch not in self.models:
            return None
        return _try_load_model_cls(model_arch, self.models[model_arch])

    def _try_inspect_model_cls(self, model_arch):
        if model_arch not in self.models:
            return None
        return _try_inspect_model_cls(model_arch, self.models[model_arch])
"""

# 0.9.2 and 0.10.0, whose registry is not told whose model it is asked about.
_WITHOUT_CONFIG = """
    def _normalize_archs(self, architectures):
        if isinstance(architectures, str):
            architectures = [architectures]
        normalized_arch = list(filter(lambda model: model in self.models, architectures))
        if len(normalized_arch) != len(architectures):
            normalized_arch.append("TransformersForCausalLM")
        return normalized_arch

    def inspect_model_cls(self, architectures):
        architectures = self._normalize_archs(architectures)
        for arch in architectures:
            model_info = self._try_inspect_model_cls(arch)
            if model_info is not None:
                return (model_info, arch)
        return self._raise_for_unsupported(architectures)

    def resolve_model_cls(self, architectures):
        architectures = self._normalize_archs(architectures)
        for arch in architectures:
            model_cls = self._try_load_model_cls(arch)
            if model_cls is not None:
                return (model_cls, arch)
        return self._raise_for_unsupported(architectures)
"""

# From 0.10.1 on.
_WITH_CONFIG = """
    def _normalize_arch(self, architecture, model_config):
        return architecture if architecture in self.models else f"No{architecture}"

    def inspect_model_cls(self, architectures, model_config):
        if isinstance(architectures, str):
            architectures = [architectures]
        for arch in architectures:
            model_info = self._try_inspect_model_cls(self._normalize_arch(arch, model_config))
            if model_info is not None:
                return (model_info, arch)
        return self._raise_for_unsupported(architectures)

    def resolve_model_cls(self, architectures, model_config):
        if isinstance(architectures, str):
            architectures = [architectures]
        for arch in architectures:
            model_cls = self._try_load_model_cls(self._normalize_arch(arch, model_config))
            if model_cls is not None:
                return (model_cls, arch)
        return self._raise_for_unsupported(architectures)
"""

_INSTANCE = """

ModelRegistry = _ModelRegistry(
    {
        model_arch: _LazyRegisteredModel(f"vllm.model_executor.models.{mod_relname}", cls_name)
        for model_arch, (mod_relname, cls_name) in _TEXT_GENERATION_MODELS.items()
    }
)
"""

_MODEL_CONFIG = """
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ModelConfig:
    model: str
    hf_config: Any

    def __post_init__(self) -> None:
        self._model_info, _ = self.registry.inspect_model_cls(self.architectures{me})

    @property
    def registry(self):
        from vllm.model_executor.models.registry import ModelRegistry

        return ModelRegistry

    @property
    def architectures(self):
        return self.hf_config.architectures
"""

_VLLM_CONFIG = """
from dataclasses import dataclass, field
from typing import Any


@dataclass
class VllmConfig:
    model_config: Any = None
    speculative_config: Any = None
    additional_config: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made = True


_current_vllm_config = None


def get_current_vllm_config():
    return _current_vllm_config
"""

_LOADER = """
def get_model_architecture(model_config):
    from vllm.model_executor.models.registry import ModelRegistry

    return ModelRegistry.resolve_model_cls(model_config.architectures{config})
"""

# From 0.11 on.
_CACHING_LOADER = """
_MODEL_ARCH_BY_HASH = {}


def _get_model_architecture(model_config):
    return model_config.registry.resolve_model_cls(
        model_config.architectures, model_config=model_config
    )


def get_model_architecture(model_config):
    key = hash((model_config.model, tuple(model_config.architectures)))
    if key in _MODEL_ARCH_BY_HASH:
        return _MODEL_ARCH_BY_HASH[key]
    _MODEL_ARCH_BY_HASH[key] = _get_model_architecture(model_config)
    return _MODEL_ARCH_BY_HASH[key]
"""

_EVERY_RELEASE = {
    "vllm/__init__.py": "",
    "vllm/model_executor/__init__.py": "",
    f"{_MODELS}/__init__.py": "",
    "vllm/model_executor/model_loader/__init__.py": "",
    "vllm/engine/__init__.py": "",
    "vllm/plugins.py": "def load_general_plugins(): pass\n",
    "vllm/engine/arg_utils.py": """
        from dataclasses import dataclass, field
        from typing import Any

        from vllm.config import ModelConfig, VllmConfig


        @dataclass
        class EngineArgs:
            model: str
            hf_config: Any
            additional_config: Any = field(default_factory=dict)

            def create_engine_config(self):
                model_config = ModelConfig(self.model, self.hf_config)
                return VllmConfig(model_config, additional_config=self.additional_config)
        """,
    "vllm/envs.py": """
        environment_variables = {"VLLM_MLA_DISABLE": lambda: None}


        def compile_factors() -> dict[str, object]:
            return {name: getter() for name, getter in environment_variables.items()}


        def compute_hash() -> str:
            return "vllm's own"
        """,
    **{
        f"{_MODELS}/{module}.py": f"class {name}:\n    supports_pp = True\n"
        for module, name in (
            ("llama", "LlamaForCausalLM"),
            ("llama_eagle3", "Eagle3LlamaForCausalLM"),
            ("gpt_oss", "GptOssForCausalLM"),
            ("opt", "OPTForCausalLM"),
        )
    },
}


def _release(registry: str, loader: str, config: dict[str, str]) -> dict[str, str]:
    files = {
        **_EVERY_RELEASE,
        **config,
        f"{_MODELS}/registry.py": _REGISTRY + registry + _INSTANCE,
        "vllm/model_executor/model_loader/utils.py": loader,
    }
    return {path: dedent(source) for path, source in files.items()}


RELEASES = {
    "0.9.2": _release(
        _WITHOUT_CONFIG,
        _LOADER.format(config=""),
        {"vllm/config.py": _MODEL_CONFIG.format(me="") + _VLLM_CONFIG},
    ),
    "0.10.1": _release(
        _WITH_CONFIG,
        _LOADER.format(config=", model_config"),
        {"vllm/config/__init__.py": _MODEL_CONFIG.format(me=", self") + _VLLM_CONFIG},
    ),
    "0.32.0": _release(
        _WITH_CONFIG,
        _CACHING_LOADER,
        {
            "vllm/config/__init__.py": """
                from .model import ModelConfig
                from .vllm import VllmConfig, get_current_vllm_config
                """,
            "vllm/config/model.py": _MODEL_CONFIG.format(me=", self"),
            "vllm/config/vllm.py": _VLLM_CONFIG,
        },
    ),
}
"""The files of a package `vllm`, by release."""

REGISTRY = "vllm.model_executor.models.registry"
LOADER = "vllm.model_executor.model_loader.utils"

# A distribution with a factory for an architecture of vLLM's, and its implementations.
ACME = {
    "acme/__init__.py": "",
    "acme/factory.py": """
        from vllm_graft.models import UPSTREAM, ModelFactory, because


        class LlamaForCausalLM(ModelFactory):
            known_options = ("quantization",)

            @classmethod
            def select(cls, hf_config, neuron_config):
                asked = cls.options(neuron_config).get("quantization")
                if asked is None:
                    return UPSTREAM
                return because(f"the user asks for {asked}", f"acme.{asked}:LlamaForCausalLM")
        """,
    "acme/layers.py": "",
    **{
        f"acme/{name}.py": "class LlamaForCausalLM:\n    supports_pp = False\n"
        for name in ("packed", "small")
    },
    "acme/broken.py": "raise OSError('no kernel')\nclass LlamaForCausalLM: ...\n",
}
