"""Acme, loud."""

from typing import Any

from vllm.model_executor.models.llama import LlamaForCausalLM

from .common import POOLING, LoudDecoderLayer


class AcmeForCausalLM(LlamaForCausalLM):  # type: ignore[misc]  # vLLM is not seen by mypy
    """Llama with loud layers; as an embedding model it pools in its own way."""

    default_seq_pooling_type = POOLING

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix, layer_type=LoudDecoderLayer)
