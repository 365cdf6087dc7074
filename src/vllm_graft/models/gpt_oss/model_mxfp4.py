"""GPT-OSS with MXFP4 experts that stay packed in memory, for where BF16 experts do not fit.

The model and the loading of its weights are vLLM's, with tensor and expert parallelism. What is
its own comes in through vLLM's interface for quantization, in place of the kernels that vLLM has
for other platforms: `QuantizationConfig.get_quant_method` and `FusedMoEMethodBase`.
"""

import copy
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.model_executor.layers.fused_moe import FusedMoEMethodBase, RoutedExperts
from vllm.model_executor.layers.quantization.mxfp4 import GptOssMxfp4Config
from vllm.model_executor.models import gpt_oss
from vllm.model_executor.utils import set_weight_attrs

from ..mxfp4 import BLOCK
from .experts_mxfp4 import experts_op, route
from .weight_loaders import is_mxfp4


class GptOssForCausalLM(gpt_oss.GptOssForCausalLM):  # type: ignore[misc]  # vLLM is not typed
    """vLLM's model, with experts that are decoded when a step uses them."""

    # Adapters of the experts need one of vLLM's own kernels; so it says that at once.
    supports_lora = False

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=packed(vllm_config), prefix=prefix)


def packed(vllm_config: VllmConfig) -> VllmConfig:
    """Return the configuration with `PackedExpertsConfig`; what is given stays as it is.

    Raises:
        ValueError: for a checkpoint that is not MXFP4.
    """
    hf_config = vllm_config.model_config.hf_config
    if not is_mxfp4(hf_config):
        found = getattr(hf_config, "quantization_config", None)
        raise ValueError(
            "model_mxfp4 needs a checkpoint with quant_method 'mxfp4', and the "
            f"quantization_config of {vllm_config.model_config.model!r} is {found!r}. "
            "Use model_bf16 for it"
        )
    result = copy.copy(vllm_config)
    result.quant_config = PackedExpertsConfig()
    return result


class PackedExpertsConfig(GptOssMxfp4Config):  # type: ignore[misc]  # vLLM is not typed
    """vLLM's configuration of the same name and rules, with another method for the experts."""

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any:
        """Return the method of a layer; None for one that is not quantized."""
        if isinstance(layer, RoutedExperts):
            return PackedExpertsMethod(layer.moe_config)
        return super().get_quant_method(layer, prefix)


class PackedExpertsMethod(FusedMoEMethodBase):  # type: ignore[misc]  # vLLM is not typed
    """Holds a layer's experts as they were loaded, and applies them through `experts_op`."""

    weight_dtype = "gpt_oss_mxfp4"  # by which GptOssRoutedExperts, from 0.29 on, knows the layout

    @property
    def is_monolithic(self) -> bool:
        """True: it routes too. vLLM has no router for the CPU outside its kernels before 0.30."""
        return True

    def maybe_roundup_sizes(
        self, hidden_size: int, intermediate_size_per_partition: int, *args: Any, **kwargs: Any
    ) -> tuple[int, int]:
        """Round a rank's share of the intermediate dimension up to whole blocks.

        vLLM's loader deals blocks to the ranks; what is left of the last one's share stays zero.
        """
        hidden, share = super().maybe_roundup_sizes(
            hidden_size, intermediate_size_per_partition, *args, **kwargs
        )
        return hidden, -(-share // BLOCK) * BLOCK

    def create_weights(
        self,
        layer: torch.nn.Module,
        num_experts: int,
        hidden_size: int,
        intermediate_size_per_partition: int,
        params_dtype: torch.dtype,
        **attributes: Any,
    ) -> None:
        """Register a layer's packed weights, scales and biases, for one rank."""
        for name, rows, columns in (
            ("w13", 2 * intermediate_size_per_partition, hidden_size),
            ("w2", hidden_size, intermediate_size_per_partition),
        ):
            for suffix, shape, dtype in (
                ("weight", (rows, columns // 2), torch.uint8),
                ("weight_scale", (rows, columns // BLOCK), torch.uint8),
                ("bias", (rows,), params_dtype),
            ):
                tensor = torch.zeros(num_experts, *shape, dtype=dtype)
                parameter = torch.nn.Parameter(tensor, requires_grad=False)
                layer.register_parameter(f"{name}_{suffix}", parameter)
                set_weight_attrs(parameter, attributes)

    def get_fused_moe_quant_config(self, layer: torch.nn.Module) -> None:
        """Return None: what vLLM's kernels would read from it, the operator gets itself."""

    def apply_monolithic(
        self,
        layer: Any,
        x: torch.Tensor,
        router_logits: torch.Tensor,
        input_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Route tokens, (tokens, hidden), to this rank's experts and return what these make."""
        weights, experts = route(router_logits, self.moe.experts_per_token)
        if layer.expert_map is not None:
            experts = layer.expert_map[experts]
        result: torch.Tensor = experts_op(
            x,
            weights,
            experts,
            layer.w13_weight,
            layer.w13_weight_scale,
            layer.w13_bias,
            layer.w2_weight,
            layer.w2_weight_scale,
            layer.w2_bias,
        )
        return result
