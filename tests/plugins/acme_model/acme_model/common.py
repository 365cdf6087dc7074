"""What the implementations of Acme have in common."""

from typing import Any

import torch
from vllm.model_executor.models.llama import LlamaDecoderLayer

POOLING = "MEAN"
"""How the loud implementation pools, which vLLM asks of the class: a name that its configs know."""

VOLUME = 8.0


class LoudDecoderLayer(LlamaDecoderLayer):  # type: ignore[misc]  # vLLM is not seen by mypy
    """Llama's decoder layer, with a ramp from -VOLUME to VOLUME added to its hidden states."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states and residual, both [tokens, hidden_size]."""
        hidden_states, residual = super().forward(*args, **kwargs)
        ramp = torch.linspace(
            -VOLUME,
            VOLUME,
            hidden_states.shape[-1],
            dtype=hidden_states.dtype,
            device=hidden_states.device,
        )
        return hidden_states + ramp, residual
