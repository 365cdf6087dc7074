"""Llama with MXFP4 weights: quantized while they are loaded, packed in memory."""

from typing import Any

from vllm.config import VllmConfig
from vllm.model_executor.models.llama import LlamaForCausalLM as _LlamaForCausalLM

from ..mxfp4_linear import with_mxfp4_linears


class LlamaForCausalLM(_LlamaForCausalLM):  # type: ignore[misc]  # vllm is not typed here
    """vLLM's Llama, whose linear layers hold MXFP4 and are decoded at each step.

    The checkpoint is a plain one in BF16, F16 or F32. `embed_tokens`, `lm_head` and the norms stay
    as they are in it. Raise ValueError for a checkpoint that is quantized already, and for a layer
    whose inputs on one rank are no multiple of 32.
    """

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "", **options: Any) -> None:
        super().__init__(vllm_config=with_mxfp4_linears(vllm_config), prefix=prefix, **options)
