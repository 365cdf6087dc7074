"""Questions that factories ask of a model's configuration, in terms of its checkpoint."""

from collections.abc import Mapping
from typing import Any

MX_BLOCK = 32
"""Elements that share a scale: OCP Microscaling Formats v1.0, section 5.2, also for MXFP4."""


def quantization_of(hf_config: Any) -> str | None:
    """Return how a checkpoint is quantized, as its `quantization_config` says; None if it is not.

    vLLM renames what it finds there: `mxfp4` is `gpt_oss_mxfp4` once a GPT-OSS is configured.
    """
    given = getattr(hf_config, "quantization_config", None)
    if given is None:
        return None
    if isinstance(given, Mapping):
        method = given.get("quant_method")
    else:
        method = getattr(given, "quant_method", None)
    if method is None:
        return None
    return str(getattr(method, "value", method)).lower().removeprefix("gpt_oss_")


def asked_quantization(options: Mapping[str, Any]) -> str | None:
    """Return the quantization that the user asks for: `bf16`, `mxfp4`, …; None for no wish."""
    asked = options.get("quantization")
    if asked is None:
        return None
    name = str(asked).lower()
    return {"bfloat16": "bf16", "none": "bf16"}.get(name, name)


def rope_scaling(hf_config: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a model's RoPE scaling, `default` for none, and its parameters.

    transformers 5 calls it `rope_parameters`, which unscaled models have too; before that it was
    `rope_scaling`, and in old checkpoints its kind is `type`.
    """
    for name in ("rope_parameters", "rope_scaling"):
        given = getattr(hf_config, name, None)
        if isinstance(given, Mapping):
            kind = given.get("rope_type") or given.get("type") or "default"
            return str(kind), given
    return "default", {}


def unaligned(sizes: Mapping[str, float | None]) -> str | None:
    """Return what is wrong where one of a model's sizes, by name, is no multiple of the block."""
    for name, size in sizes.items():
        if size is None or size % MX_BLOCK:
            shown = size if size is None else f"{size:g}"
            return f"{name} is {shown}, and MXFP4 needs a multiple of {MX_BLOCK}"
    return None
