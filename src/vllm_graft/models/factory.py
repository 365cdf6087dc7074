"""The base of model factories: plain code that chooses an implementation of one architecture."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..errors import FactoryError, UnsupportedConfigError
from ..sources import exists, parsed
from ..target import Target, importable, is_lazy, load
from .context import DRAFT, items
from .platform import get_platform_target

UPSTREAM = "vllm:upstream"
"""What `select` returns for vLLM's own implementation of the architecture, wherever it is."""


class Chosen(str):
    """A lazy `"module:Class"` string that says why it was chosen."""

    __slots__ = ("why",)
    why: str


def because(why: str, implementation: str) -> Chosen:
    """Return an implementation with the reason for its choice, for traces and `status --model`."""
    chosen = Chosen(implementation)
    chosen.why = why
    return chosen


class ModelFactory:
    """Chooses the implementation of an architecture; the subclass has the architecture's name.

    A factory is plain code that its model's owner edits: first what the user asks for, then what
    the platform wants, then the fallback. Its module imports neither torch nor vllm, so that only
    the implementation that is chosen is ever imported.

        class Qwen3ForCausalLM(ModelFactory):
            known_options = ("quantization",)

            @classmethod
            def select(cls, hf_config, neuron_config):
                asked = cls.options(neuron_config).get("quantization")
                if asked in (None, "bf16"):
                    return UPSTREAM
                if asked == "mxfp4":
                    return because("the user asks for mxfp4", "acme.model_mxfp4:Qwen3ForCausalLM")
                raise cls.unsupported("quantization", asked, ["bf16", "mxfp4"])

    vLLM never sees a factory: the layer resolves it at vLLM's registry.
    """

    known_options: ClassVar[tuple[str, ...]] = ("quantization",)
    """The keys that a `neuron_config` may have, besides those that begin with `draft_`.

    These are for the factory of a draft model, which has them without the prefix.
    """

    def __init_subclass__(cls) -> None:
        """Raise TypeError where an option could never be given."""
        taken = [name for name in cls.known_options if name.startswith(DRAFT)]
        if taken:
            raise TypeError(
                f"{cls.__name__} knows the options {', '.join(taken)}: those that begin with "
                f"{DRAFT!r} are for the factory of a draft model, without the prefix"
            )

    def __new__(cls, *_: object, **__: object) -> "ModelFactory":
        """Refuse to make an instance: a factory is used as a class."""
        raise TypeError(f"{cls.__name__} is a factory. Call {cls.__name__}.from_configs(…).")

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return the lazy `"module:Class"` of an implementation, or `UPSTREAM`.

        `hf_config` is the model's configuration as transformers has it (attributes),
        `neuron_config` the object or mapping in vLLM's `additional_config`, None where there is
        none; `options` reads it. Raises `UnsupportedConfigError`.
        """
        raise NotImplementedError(f"{cls.__name__}.select is not written")

    @classmethod
    def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
        """Raise `UnsupportedConfigError` for what no implementation can do."""

    @classmethod
    def _validate_engine(cls, vllm_config: Any, implementation: str) -> None:
        """Raise `UnsupportedConfigError` for what the chosen implementation cannot do in an engine.

        vLLM's `VllmConfig` has what `select` cannot know: tensor parallelism, LoRA, quantization.
        """

    @classmethod
    def options(cls, neuron_config: Any) -> dict[str, Any]:
        """Return what a `neuron_config`, object or mapping, says; keys that are None left out.

        Raises `UnsupportedConfigError` for a key that is not in `known_options`.
        """
        given = _items(cls.__name__, neuron_config, cls.known_options)
        unknown = sorted(set(given) - set(cls.known_options))
        if unknown:
            raise UnsupportedConfigError(
                f"{cls.__name__}: neuron_config has {', '.join(map(repr, unknown))}, which this "
                f"model does not know. It knows {', '.join(cls.known_options) or 'none'}."
            )
        return {key: value for key, value in given.items() if value is not None}

    @classmethod
    def unsupported(cls, name: str, asked: object, valid: "list[str]") -> UnsupportedConfigError:
        """Return the error that says what was asked, what is valid, and on which platform."""
        return UnsupportedConfigError(
            f"{cls.__name__}: {name} {asked!r} is not supported on {get_platform_target()!r}. "
            f"Valid there: {', '.join(valid) or 'none'}."
        )

    @classmethod
    def refused(cls, problem: str) -> UnsupportedConfigError:
        """Return the error for a model that cannot be had as it is, whatever is asked for."""
        return UnsupportedConfigError(f"{cls.__name__} on {get_platform_target()!r}: {problem}.")

    @classmethod
    def choose(cls, hf_config: Any, neuron_config: Any) -> str:
        """Validate, select, and check that what was selected exists, without importing it.

        Raises `UnsupportedConfigError`, and `FactoryError` where no implementation has that name.
        """
        cls.options(neuron_config)
        cls._validate_config(hf_config, neuron_config)
        chosen = cls.select(hf_config, neuron_config)
        if not is_lazy(chosen):
            raise FactoryError(
                f"{_name(cls)}.select returned {chosen!r}. It must return the string "
                "'module:Class' of an implementation, or UPSTREAM."
            )
        if chosen != UPSTREAM and not _is_there(Target.parse(chosen)):
            raise FactoryError(
                f"{_name(cls)} chose {str(chosen)!r}, and there is no such class. Mend the name in "
                "the factory, or install the package that has the implementation."
            )
        return chosen

    @classmethod
    def from_configs(cls, hf_config: Any, neuron_config: Any = None) -> Any:
        """Validate, select, import and build the implementation.

        An implementation whose constructor takes `vllm_config` is built as vLLM builds it, inside
        vLLM's `set_current_vllm_config`; any other one is called with `hf_config` and
        `neuron_config`. Raises what `choose` raises.
        """
        chosen = cls.choose(hf_config, neuron_config)
        if chosen == UPSTREAM:
            from .upstream import upstream

            chosen = upstream(cls.__name__)
        implementation = load(chosen)
        if "vllm_config" not in inspect.signature(implementation).parameters:
            return implementation(hf_config, neuron_config)
        from vllm.config import get_current_vllm_config

        return implementation(vllm_config=get_current_vllm_config(), prefix="")


def _items(name: str, neuron_config: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a mapping; of an object its attributes, those of its class if known."""
    if neuron_config is None:
        return {}
    if isinstance(neuron_config, (str, bytes, int, float, Sequence)):
        raise UnsupportedConfigError(
            f"{name}: neuron_config is {neuron_config!r}. Give a mapping, or an object with "
            "attributes."
        )
    found = items(neuron_config)
    if not isinstance(neuron_config, Mapping):
        of_class = {key for key in known if hasattr(neuron_config, key)}
        found |= {key: getattr(neuron_config, key) for key in of_class}
    return {key: value for key, value in found.items() if not key.startswith(DRAFT)}


def _is_there(target: Target) -> bool:
    """Tell whether a class exists, as far as that can be told; compiled code has no source."""
    if exists(target):
        return True
    return parsed(target.module) is None and importable(target.module)


def _name(factory: type) -> str:
    return f"{factory.__module__}:{factory.__qualname__}"
