"""Tiny Llama checkpoints with real weights, made on the spot, and what goes with one.

`quantized` is a reference of MXFP4 that knows nothing of the package: the OCP Microscaling
Formats specification v1.0, sections 5.2 to 6.3, element by element.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
"""What each checkpoint's config.json says, unless its writer is asked otherwise."""

DRAFT: dict[str, Any] = {"num_hidden_layers": 1}
"""What the config.json of an Eagle3 draft says otherwise.

From `LlamaForCausalLM` vLLM makes `Eagle3LlamaForCausalLM`. Drafts that call themselves that, or
`LlamaForCausalLMEagle3`, keep the name they have. `draft_vocab_size` need not be given.
"""

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of E2M1 by their codes."""

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}

Weights = dict[str, torch.Tensor]


def write_llama(folder: Path, **options: Any) -> Path:
    """Write a Llama with random weights; `options` change CONFIG, and `seed` the weights."""
    config, generator = _begun(options)
    return _written(folder, config, _rounded(config, dict(_llama(config, generator))))


def write_quantized_llama(folder: Path, **options: Any) -> Path:
    """Write the Llama that `write_llama` writes, its linear weights quantized and dequantized."""
    config, generator = _begun(options)
    weights = _rounded(config, dict(_llama(config, generator)))
    return _written(folder, config, _rounded(config, quantized_linears(weights)))


def write_draft(folder: Path, **options: Any) -> Path:
    """Write an Eagle3 draft of one layer for such a Llama, with an lm_head of its own."""
    config, generator = _begun({**DRAFT, "seed": 7, **options})
    return _written(folder, config, _rounded(config, dict(_draft(config, generator))))


def write_adapter(folder: Path, rank: int = 8, **options: Any) -> Path:
    """Write a LoRA adapter of every linear layer of such a Llama, as PEFT does."""
    config, generator = _begun({"seed": 11, **options})
    adapter = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [name.rpartition(".")[2] for name in _linear_shapes(config)],
    }
    weights = dict(_adapter(config, rank, generator))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    write_safetensors(folder / "adapter_model.safetensors", weights)
    return folder


def quantized_linears(weights: Mapping[str, torch.Tensor]) -> Weights:
    """Return weights of which those of the linear layers went through MXFP4; lm_head did not."""
    return {
        name: quantized(weight) if name.endswith("_proj.weight") else weight
        for name, weight in weights.items()
    }


def quantized(weight: torch.Tensor) -> torch.Tensor:
    """Quantize a weight (out, in) to MXFP4 along its inputs, and return what it then means."""
    rows = [
        [value for start in range(0, len(row), 32) for value in _block(row[start : start + 32])]
        for row in weight.double().tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64).to(weight.dtype)


def linear_bytes(**options: Any) -> int:
    """Return how many bytes the linear weights of such a Llama have in BF16."""
    config, _ = _begun(options)
    elements = sum(rows * columns for rows, columns in _linear_shapes(config).values())
    return 2 * elements * int(config["num_hidden_layers"])


def write_safetensors(file: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Write tensors in the format of safetensors: the header's length, the header, the bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, weight in weights.items():
        start = len(data)
        data += weight.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": _NAMES[weight.dtype],
            "shape": list(weight.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _block(values: list[float]) -> list[float]:
    largest = max(abs(value) for value in values)
    # The scale is the largest power of two in the block over the largest one of E2M1, 4.
    exponent = math.frexp(largest)[1] - 1 - 2 if largest else -127
    exponent = max(-127, min(127, exponent))
    return [
        math.copysign(math.ldexp(_nearest(math.ldexp(abs(value), -exponent)), exponent), value)
        for value in values
    ]


def _nearest(magnitude: float) -> float:
    """Round to the nearest magnitude of E2M1; between two, to the one whose code is even."""
    return MAGNITUDES[min(range(8), key=lambda code: (abs(MAGNITUDES[code] - magnitude), code % 2))]


def _begun(options: Mapping[str, Any]) -> tuple[dict[str, Any], torch.Generator]:
    config = {**CONFIG, **options}
    return config, torch.Generator().manual_seed(config.pop("seed", 0))


def _llama(config: Mapping[str, Any], generator: torch.Generator) -> Iterator[tuple[str, Any]]:
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", torch.randn(vocabulary, hidden, generator=generator)
    for index in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{index}"
        yield from _linears(prefix, _linear_shapes(config), generator)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}.{norm}.weight", torch.ones(hidden)
    yield "model.norm.weight", torch.ones(hidden)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", _random(vocabulary, hidden, generator)


def _draft(config: Mapping[str, Any], generator: torch.Generator) -> Iterator[tuple[str, Any]]:
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {
        name: (rows, 2 * hidden if name.startswith("self_attn.") and "o_" not in name else columns)
        for name, (rows, columns) in _linear_shapes(config).items()
    }
    yield from _linears("midlayer", shapes, generator)
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        yield f"midlayer.{norm}.weight", torch.ones(hidden)
    yield "fc.weight", _random(hidden, 3 * hidden, generator)
    yield "norm.weight", torch.ones(hidden)
    yield "lm_head.weight", _random(vocabulary, hidden, generator)


def _adapter(
    config: Mapping[str, Any], rank: int, generator: torch.Generator
) -> Iterator[tuple[str, torch.Tensor]]:
    for index in range(config["num_hidden_layers"]):
        for name, (rows, columns) in _linear_shapes(config).items():
            prefix = f"base_model.model.model.layers.{index}.{name}"
            yield f"{prefix}.lora_A.weight", _random(rank, columns, generator)
            yield f"{prefix}.lora_B.weight", _random(rows, rank, generator)


def _linears(
    prefix: str, shapes: Mapping[str, tuple[int, int]], generator: torch.Generator
) -> Iterator[tuple[str, torch.Tensor]]:
    for name, (rows, columns) in shapes.items():
        yield f"{prefix}.{name}.weight", _random(rows, columns, generator)


def _linear_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the shapes (out, in) of the linear weights of one layer."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    return {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }


def _random(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Return a weight that leaves the magnitude of what it is multiplied with about as it is."""
    return torch.randn(rows, columns, generator=generator) / math.sqrt(columns)


def _rounded(config: Mapping[str, Any], weights: Weights) -> Weights:
    dtype = getattr(torch, config["torch_dtype"])
    return {name: weight.to(dtype) for name, weight in weights.items()}


def _written(folder: Path, config: Mapping[str, Any], weights: Weights) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", weights)
    return folder
