"""Factories that `plugin` registers directly, without an entry point of group `vllm_graft.models`.

They differ from Acme's only in the implementations' names.
"""

from typing import Any

from vllm_graft.models import because

from .factory import LOUD, AcmeForCausalLM

PLAIN_MODULE = "acme_model.direct_plain"
LOUD_MODULE = "acme_model.direct_loud"


class _LikeAcme(AcmeForCausalLM):
    """Chooses as Acme does, among the classes of its own name."""

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        chosen = super().select(hf_config, neuron_config)
        module = LOUD_MODULE if chosen == LOUD else PLAIN_MODULE
        return because(getattr(chosen, "why", ""), f"{module}:{cls.__name__}")


class MyCustomModelForCausalLM(_LikeAcme):
    """Registered by its name."""


class MyOtherModelForCausalLM(_LikeAcme):
    """Registered as a class."""
