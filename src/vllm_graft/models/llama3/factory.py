"""Which implementation of Llama 3 to use. Plain code: edit it as the model needs it."""

from typing import Any

from ..factory import UPSTREAM, ModelFactory, because
from ..platform import family, get_platform_target
from ..rules import asked_quantization, quantization_of, rope_scaling, unaligned

MXFP4 = "vllm_graft.models.llama3.model_mxfp4:LlamaForCausalLM"

QUANTIZES = ("cpu", "trn3")
"""Platforms on which linear layers can be packed in MXFP4."""

_LLAMA_3_1 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def is_llama_3_1(hf_config: Any) -> bool:
    """Tell Llama 3.1 and later from Llama 3: only their RoPE is scaled, in a way of its own."""
    return rope_scaling(hf_config)[0] == "llama3"


class LlamaForCausalLM(ModelFactory):
    """Meta's Llama 3, 3.1, 3.2 and 3.3, and what else has this architecture.

    | `quantization` | linear layers |
    |---|---|
    | `bf16` | vLLM's own implementation |
    | `mxfp4` | quantized while loading; `lm_head` and embeddings stay as they are |
    """

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return the user's choice; every platform has BF16 by default."""
        asked = asked_quantization(cls.options(neuron_config))
        if asked == "mxfp4":
            name = "Llama 3.1" if is_llama_3_1(hf_config) else "Llama 3"
            return because(f"the user asks for mxfp4 ({name})", MXFP4)
        if asked == "bf16":
            return because("the user asks for bf16", UPSTREAM)
        return because("bf16 is the default", UPSTREAM)

    @classmethod
    def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
        asked = asked_quantization(cls.options(neuron_config))
        packs = family(get_platform_target()) in QUANTIZES
        valid = ["bf16", "mxfp4"] if packs else ["bf16"]
        if asked is not None and asked not in valid:
            raise cls.unsupported("quantization", asked, valid)
        if asked == "mxfp4":
            problem = _why_not_mxfp4(hf_config)
            if problem:
                raise cls.refused(f"{problem}. Valid for this checkpoint: bf16")

    @classmethod
    def _validate_engine(cls, vllm_config: Any, implementation: str) -> None:
        if implementation != MXFP4:
            return
        model_config = vllm_config.model_config
        if model_config.quantization is not None:
            raise cls.refused(f"quantization is {model_config.quantization!r} as well as mxfp4")
        ranks = vllm_config.parallel_config.tensor_parallel_size
        problem = unaligned(_inputs(model_config.hf_config, ranks))
        if problem:
            raise cls.refused(f"over {ranks} tensor-parallel ranks, {problem}")


def _why_not_mxfp4(hf_config: Any) -> str | None:
    checkpoint = quantization_of(hf_config)
    if checkpoint is not None:
        return f"the checkpoint is quantized already ({checkpoint})"
    kind, parameters = rope_scaling(hf_config)
    if kind not in ("default", "llama3"):
        return f"its RoPE scaling is {kind!r}, which is neither Llama 3's nor Llama 3.1's"
    missing = [name for name in _LLAMA_3_1 if name not in parameters]
    if kind == "llama3" and missing:
        return f"its RoPE scaling is that of Llama 3.1, without {', '.join(missing)}"
    return unaligned(_inputs(hf_config))


def _inputs(hf_config: Any, ranks: int = 1) -> dict[str, float | None]:
    """Return how many inputs the linear layers have on a rank, by what the user knows of them."""
    hidden, inner, heads, head_dim = (
        getattr(hf_config, name, None)
        for name in ("hidden_size", "intermediate_size", "num_attention_heads", "head_dim")
    )
    found = {"hidden_size": hidden, "intermediate_size": inner and inner / ranks}
    if heads and head_dim:  # where there is no head_dim, the heads share the hidden size
        found["num_attention_heads * head_dim"] = heads * head_dim / ranks
    elif heads and hidden:
        found["hidden_size"] = hidden / ranks
    return found
