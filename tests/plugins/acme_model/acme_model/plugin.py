"""Registers factories as vLLM's plugins register models. vLLM calls it in every process."""


def register() -> None:
    """Register two architectures: a factory by its name, and one as a class."""
    from vllm import ModelRegistry

    from .direct import MyOtherModelForCausalLM

    ModelRegistry.register_model(
        "MyCustomModelForCausalLM", "acme_model.direct:MyCustomModelForCausalLM"
    )
    ModelRegistry.register_model("MyOtherModelForCausalLM", MyOtherModelForCausalLM)
