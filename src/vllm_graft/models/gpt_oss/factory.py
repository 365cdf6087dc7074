"""Which implementation of GPT-OSS to use. Plain code: edit it as the model needs it."""

from typing import Any

from ..factory import UPSTREAM, ModelFactory, because
from ..platform import cpu_has, family, get_platform_target
from ..rules import asked_quantization, quantization_of, unaligned

BF16 = "vllm_graft.models.gpt_oss.model_bf16:GptOssForCausalLM"
MXFP4 = "vllm_graft.models.gpt_oss.model_mxfp4:GptOssForCausalLM"

HAS_BACKEND = ("cuda", "rocm", "xpu")
"""Platforms for which vLLM has an MXFP4 backend for the experts: fused_moe/oracle/mxfp4.py.

It has one for the CPU where that has AMX.
"""


class GptOssForCausalLM(ModelFactory):
    """OpenAI's GPT-OSS, whose checkpoints have their experts in MXFP4.

    | `quantization` | experts |
    |---|---|
    | `mxfp4` | as in the checkpoint; without a backend of vLLM's, decoded when a step uses them |
    | `bf16` | dequantized while loading |
    """

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return the user's choice, else the platform's, else BF16."""
        target = get_platform_target()
        asked = asked_quantization(cls.options(neuron_config))
        if quantization_of(hf_config) != "mxfp4":
            return because("the checkpoint has no MXFP4 experts", UPSTREAM)

        if asked == "mxfp4":
            return cls._packed(target, "the user asks for mxfp4")
        if asked == "bf16":
            return because("the user asks for bf16", BF16)

        if _has_backend(target) or family(target) == "trn3":
            return cls._packed(target, f"{target} keeps MXFP4 by default")
        return because(f"{target} has BF16 by default", BF16)

    @classmethod
    def _packed(cls, target: str, why: str) -> str:
        if _has_backend(target):
            return because(f"{why}, and vLLM has a backend for it", UPSTREAM)
        return because(why, MXFP4)

    @classmethod
    def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
        asked = asked_quantization(cls.options(neuron_config))
        valid = cls._valid(hf_config)
        if asked is not None and asked not in valid:
            raise cls.unsupported("quantization", asked, valid)
        if quantization_of(hf_config) == "mxfp4":
            sizes = ("hidden_size", "intermediate_size")
            problem = unaligned({name: getattr(hf_config, name, None) for name in sizes})
            if problem:
                raise cls.refused(problem)
        experts = getattr(hf_config, "num_local_experts", None)
        used = getattr(hf_config, "num_experts_per_tok", None)
        if experts is not None and used is not None and not 0 < used <= experts:
            raise cls.refused(f"a token uses {used} experts, and the model has {experts}")

    @classmethod
    def _valid(cls, hf_config: Any) -> list[str]:
        """Return what `quantization` may be for a checkpoint on this platform."""
        target = get_platform_target()
        checkpoint = quantization_of(hf_config)
        if checkpoint is None:
            return ["bf16"]
        if checkpoint != "mxfp4":
            return []
        packs = family(target) in ("cpu", "trn3", *HAS_BACKEND)
        return ["bf16", "mxfp4"] if packs else ["bf16"]


def _has_backend(target: str) -> bool:
    return family(target) in HAS_BACKEND or (family(target) == "cpu" and cpu_has("amx_tile"))
