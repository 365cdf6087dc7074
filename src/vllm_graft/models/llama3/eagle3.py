"""Which implementation of Llama's Eagle3 draft model to use."""

from typing import Any

from ..factory import UPSTREAM, ModelFactory, because
from ..rules import asked_quantization


class Eagle3LlamaForCausalLM(ModelFactory):
    """The draft model of Eagle3 speculative decoding, for a target of any architecture.

    It is small, and what it guesses wrong costs a step of the target: it stays in BF16 whatever
    the target's `quantization` is. Its own is what the user gives as `draft_quantization`.
    """

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return vLLM's own: there is no other one yet."""
        asked = asked_quantization(cls.options(neuron_config))
        return because(f"{'the user asks for' if asked else 'drafts stay in'} bf16", UPSTREAM)

    @classmethod
    def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
        asked = asked_quantization(cls.options(neuron_config))
        if asked not in (None, "bf16"):
            raise cls.unsupported("quantization of the draft", asked, ["bf16"])
        draft, target = (
            getattr(hf_config, name, None) for name in ("draft_vocab_size", "vocab_size")
        )
        if draft is not None and target is not None and draft > target:
            raise cls.refused(f"draft_vocab_size is {draft}, more than the vocabulary's {target}")
