"""Which implementation a model would have, from its `config.json` alone: no engine, no weights."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..errors import GraftError, ModelError
from .choice import choose
from .context import draft_options, neuron_config_in
from .factory import UPSTREAM
from .platform import get_platform_target
from .registry import Model
from .upstream import upstream


@dataclass(frozen=True)
class Explanation:
    """What would be chosen for an architecture, and why, or the error that vLLM would stop with.

    `factory` is None where there is none, or it is not selected.
    """

    architecture: str
    platform: str | None
    factory: str | None = None
    implementation: str | None = None
    why: str = ""
    error: str | None = None


def explain(
    config: Path, additional_config: Any, models: Mapping[str, Model], *, draft: bool = False
) -> list[Explanation]:
    """Ask the factories of a model's architectures; `models` are those that take part.

    `config` is a `config.json` or the folder that has one; `draft` says that it is that of the
    draft model in speculative decoding. Raises `ModelError` where it cannot be read or names no
    architecture.
    """
    hf_config = read_config(config)
    neuron_config = neuron_config_in(additional_config)
    if draft:
        neuron_config = draft_options(neuron_config)
    return [_explain(name, hf_config, neuron_config, models) for name in hf_config.architectures]


def read_config(path: Path) -> Any:
    """Return a model's configuration with its values as attributes, as transformers has it."""
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        architectures = values["architectures"]
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        raise ModelError(f"{file} names no architectures") from error
    if not isinstance(architectures, list) or not architectures:
        raise ModelError(f"{file} has architectures={architectures!r}, not a list of names")
    return SimpleNamespace(**values)


def _explain(
    architecture: str, hf_config: Any, neuron_config: Any, models: Mapping[str, Model]
) -> Explanation:
    known = _base(architecture, models)
    model = models.get(known)
    platform = factory = None
    try:
        if model is None:
            why = "no factory takes part" + (
                ", and nothing reads the neuron_config" if neuron_config else ""
            )
            return Explanation(architecture, None, None, upstream(known), why)
        platform, factory = get_platform_target(), model.factory
        choice = choose(known, factory, hf_config, neuron_config)
        implementation = choice.implementation
        if implementation == UPSTREAM:
            implementation = upstream(known)
        return Explanation(architecture, platform, factory, implementation, choice.why)
    except GraftError as error:
        return Explanation(architecture, platform, factory, error=str(error))


def _base(architecture: str, models: Mapping[str, Model]) -> str:
    """Return the architecture that vLLM takes one for which it does not know, to convert it.

    The suffixes are those of vLLM's `config/model.py`.
    """
    if architecture in models:
        return architecture
    try:
        upstream(architecture)
    except ModelError:
        base = _CONVERTED.sub("ForCausalLM", architecture)
        return base if base in models else architecture
    return architecture


_CONVERTED = re.compile(
    "(ForTextEncoding|EmbeddingModel|ForSequenceClassification|ForTokenClassification"
    "|ForAudioClassification|ForImageClassification|ForVideoClassification|ClassificationModel"
    "|ForRewardModeling|RewardModel|Model)$"
)
