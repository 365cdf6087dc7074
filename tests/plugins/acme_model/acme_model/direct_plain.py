"""The plain implementations of the architectures that are registered directly."""

from .model_plain import AcmeForCausalLM


class MyCustomModelForCausalLM(AcmeForCausalLM):
    """Acme under another name."""


class MyOtherModelForCausalLM(AcmeForCausalLM):
    """Acme under a third name."""
