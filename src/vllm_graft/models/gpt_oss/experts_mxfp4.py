"""Experts that stay packed: a step decodes those that its tokens were routed to, one at a time."""

from typing import Any

import torch
from torch.nn.functional import linear

from ..mxfp4 import decode

_ALPHA = 1.702
_LIMIT = 7.0
"""The constants of GPT-OSS's activation, as vLLM's `swigluoai` has them."""


def route(router_logits: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights, float32, and the indices of each token's experts, (tokens, top_k) each.

    The softmax is over the chosen experts, in the precision of the logits, as in vLLM's CPU
    router.
    """
    logits, experts = torch.topk(router_logits, top_k, dim=-1)
    return torch.softmax(logits, dim=-1).float(), experts


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """Apply GPT-OSS's clamped SwiGLU to interleaved gates and ups, (…, 2 * n) to (…, n).

    Computed in float32; the result has the type of the input.
    """
    gate, up = gate_up.float().unflatten(-1, (-1, 2)).unbind(-1)
    gate, up = gate.clamp(max=_LIMIT), up.clamp(-_LIMIT, _LIMIT)
    return ((up + 1) * gate * torch.sigmoid(_ALPHA * gate)).to(gate_up.dtype)


def apply_experts(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scales: torch.Tensor,
    w13_bias: torch.Tensor,
    w2: torch.Tensor,
    w2_scales: torch.Tensor,
    w2_bias: torch.Tensor,
) -> torch.Tensor:
    """Return the weighted sum of what each token's experts make of it, (tokens, hidden) as `x`.

    Args:
        x: (tokens, hidden).
        topk_weights: (tokens, k), float32.
        topk_ids: (tokens, k), indices into the experts' tensors; a negative one is an expert of
            another rank and adds nothing.
        w13: gate and up projections, interleaved and packed, (experts, 2 * n, hidden / 2).
        w13_scales: (experts, 2 * n, hidden / 32).
        w13_bias: (experts, 2 * n).
        w2: down projection, packed, (experts, hidden, n / 2).
        w2_scales: (experts, hidden, n / 32).
        w2_bias: (experts, hidden).
    """
    result = torch.zeros_like(x, dtype=torch.float32)
    for expert in topk_ids.unique().tolist():
        if expert < 0:
            continue
        rows, slots = (topk_ids == expert).nonzero(as_tuple=True)
        # Each weight is an argument only, so that it is freed before the next one is decoded.
        inner = linear(x[rows], decode(w13[expert], w13_scales[expert], x.dtype), w13_bias[expert])
        outer = linear(
            swiglu(inner), decode(w2[expert], w2_scales[expert], x.dtype), w2_bias[expert]
        )
        result.index_add_(0, rows, outer * topk_weights[rows, slots].unsqueeze(-1))
    return result.to(x.dtype)


def _result(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


# One operator for torch.compile: which experts are decoded depends on the data.
experts_op: Any = torch.library.custom_op("vllm_graft::mxfp4_experts", mutates_args=())(
    apply_experts
)
experts_op.register_fake(_result)
