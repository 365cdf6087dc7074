"""Tiny GPT-OSS checkpoints: MXFP4 experts, and the same weights dequantized to BF16.

Every weight is random and made from a seed, and nothing is downloaded. MXFP4 is encoded and decoded
here by the tables of the OCP Microscaling Formats specification v1.0, and not by what is tested.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]

CONFIG: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"],
    "max_position_embeddings": 512,
    "rope_theta": 150000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    },
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": True,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "torch_dtype": "bfloat16",
}
QUANTIZATION = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}


def _prompt(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return [int(token) for token in torch.randint(3, 500, (length,), generator=generator)]


PROMPTS: list[list[int]] = [
    _prompt(1, 358),
    _prompt(4, 176),
    _prompt(20, 849),
    _prompt(60, 356),
    _prompt(120, 371),
]
"""Prompts whose next eight greedy tokens are sure, found by search with CONFIG and seed 0: in
float32 the best logit is at least 1.1 above the next at each step, and the last expert that the
router takes at least 0.04 above the first that it leaves. Where that is less, rounding to bfloat16
can take another expert, and then every logit changes."""


@dataclass(frozen=True)
class GptOssCheckpoints:
    """Two folders with the same model."""

    mxfp4: Path
    bf16: Path


def write_gpt_oss(folder: Path, *, seed: int = 0, **changes: Any) -> GptOssCheckpoints:
    """Write both checkpoints of a model, with changes to CONFIG.

    The scales of the experts are in other files than their blocks.
    """
    result = GptOssCheckpoints(folder / "mxfp4", folder / "bf16")
    config = CONFIG | changes
    packed = dict(_shards(config, seed))
    scales = {name: tensors.pop(name) for tensors in packed.values() for name in _scales(tensors)}
    _write(result.mxfp4, config | {"quantization_config": QUANTIZATION}, packed | {"z": scales})
    plain = {name: _dequantized(tensors | scales) for name, tensors in packed.items()}
    _write(result.bf16, config, plain)
    return result


def write_large_gpt_oss(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write an MXFP4 checkpoint, layer by layer, with random bytes for blocks."""
    config = CONFIG | changes | {"quantization_config": QUANTIZATION}
    folder.mkdir(parents=True)
    index: dict[str, str] = {}
    for shard, tensors in _shards(config, seed, _random_blocks):
        save_file(tensors, folder / f"{shard}.safetensors")
        index |= dict.fromkeys(tensors, f"{shard}.safetensors")
    _write_json(folder, config, index)
    return folder


def _shards(
    config: dict[str, Any], seed: int, experts: Any = None
) -> Iterator[tuple[str, Tensors]]:
    """Yield the tensors of an MXFP4 checkpoint, by the names of their files."""
    generator = torch.Generator().manual_seed(seed)
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    yield (
        "model-head",
        {
            "model.embed_tokens.weight": _normal(generator, 1.0, vocabulary, hidden),
            "model.norm.weight": 1 + _normal(generator, 0.1, hidden),
            "lm_head.weight": _normal(generator, 0.5, vocabulary, hidden),
        },
    )
    for layer in range(config["num_hidden_layers"]):
        tensors = _attention(config, generator) | _mlp(config, generator, experts or _encoded)
        named = {f"model.layers.{layer}.{name}": tensor for name, tensor in tensors.items()}
        yield f"model-layer-{layer:03}", named


def _attention(config: dict[str, Any], generator: torch.Generator) -> Tensors:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    of_queries = heads * config["head_dim"]
    of_keys = config["num_key_value_heads"] * config["head_dim"]
    result = {
        "input_layernorm.weight": 1 + _normal(generator, 0.1, hidden),
        "post_attention_layernorm.weight": 1 + _normal(generator, 0.1, hidden),
        "self_attn.sinks": _normal(generator, 1.0, heads),
    }
    for name, rows, columns in (
        ("q_proj", of_queries, hidden),
        ("k_proj", of_keys, hidden),
        ("v_proj", of_keys, hidden),
        ("o_proj", hidden, of_queries),
    ):
        result[f"self_attn.{name}.weight"] = _normal(generator, columns**-0.5, rows, columns)
        result[f"self_attn.{name}.bias"] = _normal(generator, 0.1, rows)
    return result


def _mlp(config: dict[str, Any], generator: torch.Generator, experts: Any) -> Tensors:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    count = config["num_local_experts"]
    result = {
        "mlp.router.weight": _normal(generator, hidden**-0.5, count, hidden),
        "mlp.router.bias": _normal(generator, 0.1, count),
    }
    for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
        blocks, scales = experts(generator, count, rows, columns)
        result[f"mlp.experts.{name}_blocks"] = blocks.unflatten(-1, (-1, 16))
        result[f"mlp.experts.{name}_scales"] = scales
        result[f"mlp.experts.{name}_bias"] = _normal(generator, 0.1, count, rows)
    return result


def _encoded(
    generator: torch.Generator, count: int, rows: int, columns: int
) -> tuple[torch.Tensor, torch.Tensor]:
    # Wide enough for the activation's clamp to matter.
    return _encode(_normal(generator, 3 * columns**-0.5, count, rows, columns))


def _random_blocks(
    generator: torch.Generator, count: int, rows: int, columns: int
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (count, rows, columns)
    blocks = torch.randint(
        0, 256, (*shape[:-1], columns // 2), dtype=torch.uint8, generator=generator
    )
    exponent = -(columns.bit_length() // 2) - 1
    return blocks, torch.full((*shape[:-1], columns // 32), 127 + exponent, dtype=torch.uint8)


def _normal(generator: torch.Generator, deviation: float, *shape: int) -> torch.Tensor:
    return (torch.randn(shape, generator=generator) * deviation).to(torch.bfloat16)


def _scales(tensors: Tensors) -> list[str]:
    return [name for name in tensors if name.endswith("_scales")]


def _dequantized(tensors: Tensors) -> Tensors:
    """Return a file's tensors with decoded experts; scales may be of other files too."""
    result = {name: each for name, each in tensors.items() if not name.endswith("_scales")}
    for name in [name for name in result if name.endswith("_blocks")]:
        blocks, stem = result.pop(name), name.removesuffix("_blocks")
        weight = _decode(blocks, tensors[f"{stem}_scales"])
        result[stem] = weight.transpose(-2, -1).contiguous()
    return result


def _write(folder: Path, config: dict[str, Any], shards: dict[str, Tensors]) -> None:
    folder.mkdir(parents=True)
    index: dict[str, str] = {}
    for shard, tensors in shards.items():
        save_file(tensors, folder / f"{shard}.safetensors")
        index |= dict.fromkeys(tensors, f"{shard}.safetensors")
    _write_json(folder, config, index)


def _write_json(folder: Path, config: dict[str, Any], index: dict[str, str]) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )


_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
"""The magnitudes of E2M1 by their codes."""


def _encode(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes (…, K / 2) and scales (…, K / 32) of a weight (…, K)."""
    blocks = weight.double().unflatten(-1, (-1, 32))
    exponents = torch.frexp(blocks.abs().amax(-1)).exponent - 1 - 2
    scaled = torch.ldexp(blocks, -exponents.unsqueeze(-1))
    # Between two neighbours the boundary belongs to the even code.
    middles = (_MAGNITUDES[1:] + _MAGNITUDES[:-1]) / 2
    odd = torch.arange(7) % 2 == 1
    boundaries = torch.where(odd, torch.nextafter(middles, torch.zeros(1).double()), middles)
    codes = torch.bucketize(scaled.abs(), boundaries) + 8 * (scaled < 0)
    pairs = codes.flatten(-2).unflatten(-1, (-1, 2))
    packed = pairs[..., 0] + 16 * pairs[..., 1]
    return packed.to(torch.uint8), (exponents + 127).to(torch.uint8)


def _decode(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the weight (…, K), bfloat16, of blocks (…, G, 16) and scales (…, G)."""
    codes = torch.stack((blocks % 16, blocks // 16), dim=-1).flatten(-2).long()
    values = _MAGNITUDES[codes % 8] * (1 - 2 * (codes // 8))
    return torch.ldexp(values, scales.unsqueeze(-1).int() - 127).flatten(-2).to(torch.bfloat16)
