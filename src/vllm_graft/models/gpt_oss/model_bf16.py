"""GPT-OSS with BF16 experts: those of an MXFP4 checkpoint are dequantized while it is loaded."""

import copy
from collections.abc import Iterable

import torch
from vllm.config import VllmConfig
from vllm.model_executor.models import gpt_oss

from .weight_loaders import dequantized, is_mxfp4


class GptOssForCausalLM(gpt_oss.GptOssForCausalLM):  # type: ignore[misc]  # vLLM is not typed
    """vLLM's model, built without quantization."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=unquantized(vllm_config), prefix=prefix)

    _complete = False

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Load an MXFP4 or a BF16 checkpoint and return the names of what was loaded.

        Raises:
            ValueError: where a parameter is not in the checkpoint, when it is loaded first. vLLM
                does not look for that in checkpoints that it takes for quantized.
        """
        dtype = self.vllm_config.model_config.dtype
        loaded: set[str] = super().load_weights(dequantized(weights, dtype))
        missing = sorted({name for name, _ in self.named_parameters()} - loaded)
        if missing and not self._complete:
            raise ValueError(f"the checkpoint has nothing for {', '.join(missing)}")
        self._complete = True
        return loaded


def unquantized(vllm_config: VllmConfig) -> VllmConfig:
    """Return the configuration of the same model with BF16 experts; what is given stays as it is.

    A configuration that does not say MXFP4 is returned itself.
    """
    model_config = vllm_config.model_config
    if not is_mxfp4(model_config.hf_config):
        return vllm_config
    result, result.model_config = copy.copy(vllm_config), copy.copy(model_config)
    hf_config = copy.copy(model_config.hf_config)
    del hf_config.quantization_config
    result.model_config.hf_config = result.model_config.hf_text_config = hf_config
    result.model_config.quantization = result.quant_config = None
    return result
