"""Which implementation of Acme to use. This module and its package import no vLLM, no torch."""

from typing import Any

from vllm_graft.models import ModelFactory, because, family, get_platform_target

PLAIN = "acme_model.model_plain:AcmeForCausalLM"
LOUD = "acme_model.model_loud:AcmeForCausalLM"

VOICES = ["plain", "loud"]


class AcmeForCausalLM(ModelFactory):
    """Acme, a Llama with a voice.

    | `voice` | layers |
    |---|---|
    | `plain` | Llama's |
    | `loud` | what a layer adds is raised, by some dimensions more than by others |
    """

    known_options = ("quantization", "voice")

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return the user's choice, else the platform's, else the plain one."""
        asked = cls.options(neuron_config).get("voice")
        if asked == "plain":
            return because("the user asks for plain", PLAIN)
        if asked == "loud":
            return because("the user asks for loud", LOUD)

        target = get_platform_target()
        if family(target) in ("trn2", "trn3"):
            return because(f"{target} is loud by default", LOUD)
        return because(f"{target} has no voice of its own", PLAIN)

    @classmethod
    def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
        asked = cls.options(neuron_config)
        if asked.get("voice", "plain") not in VOICES:
            raise cls.unsupported("voice", asked["voice"], VOICES)
        if asked.get("quantization", "bf16") != "bf16":
            raise cls.unsupported("quantization", asked["quantization"], ["bf16"])
        if hf_config.hidden_size % 2:
            raise cls.refused(f"hidden_size is {hf_config.hidden_size}, which is odd")
