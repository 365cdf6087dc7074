"""Linear layers whose weights are MXFP4: quantized while they are loaded, packed from then on.

vLLM builds such layers where a model is given `with_mxfp4_linears(vllm_config)`.
"""

import copy
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn import Module, Parameter
from torch.nn.functional import linear
from vllm.config import VllmConfig
from vllm.model_executor.layers.linear import LinearBase, LinearMethodBase
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
from vllm.model_executor.utils import set_weight_attrs

from .mxfp4 import BLOCK, decode, encode

NAME = "graft_mxfp4"
"""The name of the quantization; vLLM knows none by it, and none of its rules apply."""


def with_mxfp4_linears(vllm_config: VllmConfig) -> VllmConfig:
    """Return a configuration with which a model builds its linear layers in MXFP4.

    It is a shallow copy with another `quant_config`; the one given is shared by all of the engine
    and stays as it is. Raise ValueError where it asks for a quantization already, whether the
    checkpoint says so or the user.
    """
    if vllm_config.quant_config is not None:
        raise ValueError(
            f"{vllm_config.model_config.model!r} is quantized already, as "
            f"{vllm_config.quant_config.get_name()!r}: linear layers can be quantized to MXFP4 "
            "only from plain weights. Use a checkpoint that has them and leave out "
            "`quantization`, or select another implementation."
        )
    copied = copy.copy(vllm_config)
    copied.quant_config = PackedMxfp4Config()
    return copied


class PackedMxfp4Config(QuantizationConfig):  # type: ignore[misc]  # vllm is not typed here
    """Quantizes every linear layer, and neither embeddings nor `lm_head` nor the KV cache."""

    def get_name(self) -> str:
        """Return the name of the quantization."""
        return NAME

    def get_supported_act_dtypes(self) -> list[torch.dtype]:
        """Return the types that activations may have."""
        return [torch.bfloat16, torch.float16, torch.float32]

    @classmethod
    def get_min_capability(cls) -> int:
        """Return the smallest CUDA capability: any, since no kernel is used."""
        return 0

    @staticmethod
    def get_config_filenames() -> list[str]:
        """Return the files of a checkpoint that configure the quantization: none."""
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PackedMxfp4Config":
        """Return the configuration for a checkpoint's; there is nothing to configure."""
        return cls()

    def get_quant_method(self, layer: Module, prefix: str) -> "PackedMxfp4Method | None":
        """Return the method of a layer; None where it is not linear and stays as it is."""
        return PackedMxfp4Method() if isinstance(layer, LinearBase) else None


# vLLM tells by a method's class name which loader the layer hands it; this name is not among
# those of the second kind, which know packed weights only as vLLM's own parameter classes.
class PackedMxfp4Method(LinearMethodBase):  # type: ignore[misc]  # vllm is not typed here
    """Keeps a weight (out, in) as `weight` (out, in / 2) and `weight_scale` (out, in / 32).

    Both are uint8. The scales are a buffer, for vLLM asks of each parameter where in the
    checkpoint it comes from.
    """

    def create_weights(
        self,
        layer: Module,
        input_size_per_partition: int,
        output_partition_sizes: list[int],
        input_size: int,
        output_size: int,
        params_dtype: torch.dtype,
        **attributes: Any,
    ) -> None:
        """Register the tensors of a layer's part on this rank.

        They are zero until they are loaded: up to vLLM 0.32, `load_format="dummy"` leaves integers
        as they are, and what they mean has to be finite. Raise ValueError where a block of 32
        inputs would be split.
        """
        if input_size_per_partition % BLOCK:
            raise ValueError(_uneven(layer, input_size_per_partition, input_size))
        rows = sum(output_partition_sizes)
        weight = torch.zeros(rows, input_size_per_partition // 2, dtype=torch.uint8)
        scale = torch.zeros(rows, input_size_per_partition // BLOCK, dtype=torch.uint8)
        layer.register_parameter("weight", Parameter(weight, requires_grad=False))
        layer.register_buffer("weight_scale", scale)
        attributes |= {"input_dim": 1, "output_dim": 0}
        set_weight_attrs(layer.weight_scale, attributes)
        # Methods of the layer, as vLLM's own loaders are: it finds and replaces the layer in them
        # when it reloads weights.
        attributes["weight_loader"] = types.MethodType(_load_encoded, layer)
        set_weight_attrs(layer.weight, attributes)
        if not hasattr(layer, "load_weights"):
            layer.load_weights = types.MethodType(_load_weights, layer)

    def apply(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the product of x (..., in) and the decoded weight, (..., out)."""
        return linear(x, decode(layer.weight, layer.weight_scale, x.dtype), bias)


def _load_encoded(
    layer: Any, param: torch.Tensor, loaded_weight: torch.Tensor, *shard: int | str | None
) -> None:
    """Encode a tensor of the checkpoint and let the layer place this rank's part of it.

    The layer's loader cuts along dimensions that packing leaves in place or shrinks evenly.
    """
    packed, scales = encode(loaded_weight)
    layer.weight_loader(param, packed, *shard)
    layer.weight_loader(layer.weight_scale, scales, *shard)


def _load_weights(layer: Any, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[str]:
    """Load the tensors of a layer by their own loaders.

    For layers without a `load_weights`: vLLM, loading those itself, warns of each type but uint8.
    """
    for name, tensor in weights:
        param = getattr(layer, name)
        if param is not None:  # a bias that the checkpoint has and the model has not
            param.weight_loader(param, tensor)
            yield name


def _uneven(layer: Any, part: int, whole: int) -> str:
    ranks = f" of {whole}, over {whole // part} tensor-parallel ranks," if part != whole else ""
    return (
        f"MXFP4 scales blocks of {BLOCK} inputs, and the {part} inputs{ranks} of "
        f"{layer.prefix!r} are no multiple of that. Use a `tensor_parallel_size` with which they "
        "are, or select another implementation."
    )
