"""Acme as it is: Llama."""

from vllm.model_executor.models.llama import LlamaForCausalLM


class AcmeForCausalLM(LlamaForCausalLM):  # type: ignore[misc]  # vLLM is not seen by mypy
    """Llama under another name."""
