"""What factories are told: the user's `neuron_config`, wherever vLLM has it when it asks.

vLLM is a fake (fake_vllm.py): the moments are those of `ModelConfig`, `VllmConfig` and the engine's
arguments, for which the real ones would load a model's files.
"""

import copy
import importlib
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_graft.errors import FactoryError, UnsupportedConfigError
from vllm_graft.models import context, inside
from vllm_graft.models.platform import VARIABLE
from vllm_graft.models.registry import Model
from vllm_graft.models.resolve import FACTORIES, Factories

from .conftest import ACME_MODEL, Vllm

Start = Callable[..., Vllm]

PACKED = {"quantization": "packed"}
SMALL = {"quantization": "small"}
UPSTREAM_LLAMA = "vllm.model_executor.models.llama:LlamaForCausalLM"


class Additional:
    """An `additional_config` that is an object."""

    def __init__(self, neuron_config: Any) -> None:
        self.neuron_config = neuron_config


@pytest.mark.parametrize(
    ("additional_config", "expected"),
    [
        (None, None),
        ({}, None),
        ({"other": 1}, None),
        ({"neuron_config": PACKED}, PACKED),
        (Additional(PACKED), PACKED),
        (SimpleNamespace(), None),
        (SimpleNamespace(neuron_config=None), None),
    ],
)
def test_the_neuron_config_of_an_additional_config(additional_config: Any, expected: Any) -> None:
    """A mapping or an object has it; either may have none."""
    assert context.neuron_config_in(additional_config) == expected


@pytest.mark.parametrize("version", ["0.9.2", "0.10.1", "0.32.0"])
def test_an_engines_additional_config_reaches_the_factory(vllm: Start, version: str) -> None:
    """Already while the model is configured: mapping or object, in each combination."""
    here = vllm(version, ACME_MODEL)

    for given in (PACKED, SimpleNamespace(**PACKED)):
        for additional in ({"neuron_config": given}, Additional(given)):
            assert here.engine(additional).model_config._model_info.supports_pp is False
            assert here.engine(None).model_config._model_info.supports_pp is True


def test_two_engines_in_one_process(vllm: Start) -> None:
    """The configuration of one is not that of the next, also where making the first has failed."""
    here = vllm("0.32.0", ACME_MODEL)

    assert here.model(neuron=PACKED)._model_info.supports_pp is False
    with pytest.raises(UnsupportedConfigError):
        here.model(neuron={"unknown": 1})
    assert here.model()._model_info.supports_pp is True


@pytest.mark.parametrize("version", ["0.10.1", "0.32.0"])
def test_a_configuration_that_is_made_by_hand(vllm: Start, version: str) -> None:
    """The model is configured first, and inspected again when `VllmConfig` brings the wish."""
    here = vllm(version, ACME_MODEL)
    config = importlib.import_module("vllm.config")
    llama = SimpleNamespace(architectures=["LlamaForCausalLM"])
    model, draft = (config.ModelConfig("a/model", llama) for _ in range(2))
    assert (model._model_info.supports_pp, here.registry.inspected) == (True, [UPSTREAM_LLAMA])

    made = config.VllmConfig(
        model, SimpleNamespace(draft_model_config=draft), {"neuron_config": PACKED}
    )

    assert made.made
    for each in (model, draft):
        assert each._model_info.supports_pp is False
        assert here.cls(each) == "acme.packed:LlamaForCausalLM"
    config.VllmConfig(model, additional_config={"neuron_config": SMALL})
    assert here.registry.inspected[1:] == [
        f"acme.{name}:LlamaForCausalLM" for name in ("packed", "small")
    ]


def test_nothing_is_inspected_again_without_need(
    vllm: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a configuration, or one that says nothing to factories, changes nothing."""
    here = vllm("0.32.0", ACME_MODEL)
    engine = here.engine({"neuron_config": PACKED})

    def never(_model_config: Any) -> None:
        raise AssertionError("inspected")

    monkeypatch.setattr(inside, "_inspect_again", never)
    make = type(engine)
    for additional in ({"neuron_config": dict(PACKED)}, {}, {"other": 1}):
        make(engine.model_config, additional_config=additional)
        make(None, additional_config=additional)
    with pytest.raises(AssertionError, match="inspected"):
        make(engine.model_config, additional_config={"neuron_config": SMALL})


def test_the_configuration_in_effect_is_asked_last(vllm: Start) -> None:
    """A model that is configured while vLLM builds another has what `VllmConfig` says."""
    here = vllm("0.32.0", ACME_MODEL)
    config = importlib.import_module("vllm.config")
    home: Any = importlib.import_module("vllm.config.vllm")
    llama = SimpleNamespace(architectures=["LlamaForCausalLM"])
    home._current_vllm_config = SimpleNamespace(
        model_config=None, additional_config={"neuron_config": PACKED}
    )

    assert config.ModelConfig("a/model", llama)._model_info.supports_pp is False
    home._current_vllm_config = None
    assert config.ModelConfig("a/model", llama)._model_info.supports_pp is True
    assert here.registry.inspected == ["acme.packed:LlamaForCausalLM", UPSTREAM_LLAMA]


def test_what_is_in_effect_tells_whose_registry_is_asked(vllm: Start) -> None:
    """In 0.9.2 the registry may be asked about a model while vLLM builds it."""
    here = vllm("0.9.2", ACME_MODEL)
    packed, small = here.model(neuron=PACKED), here.model(neuron=SMALL)
    home: Any = importlib.import_module("vllm.config")
    resolve = here.registry.ModelRegistry.resolve_model_cls

    for model, expected in ((packed, "packed"), (small, "small"), (packed, "packed")):
        home._current_vllm_config = SimpleNamespace(model_config=model)
        assert resolve(["LlamaForCausalLM"])[0].__module__ == f"acme.{expected}"
        assert here.cls(model) == f"acme.{expected}:LlamaForCausalLM"


# The other processes of an engine.


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has chosen, as one that has been sent a configuration knows none."""
    monkeypatch.setattr(FACTORIES, "chosen", Factories().chosen)


@pytest.mark.parametrize("send", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("neuron", [None, PACKED])
def test_another_process_chooses_the_same(
    vllm: Start, send: Callable[[Any], Any], neuron: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the model was configured with goes with its configuration."""
    here = vllm("0.32.0", ACME_MODEL)
    model = here.model(neuron=neuron)
    another_process(monkeypatch)

    sent = send(SimpleNamespace(model_config=model, speculative_config=None))
    inside.agree(sent)

    expected = "acme.packed:LlamaForCausalLM" if neuron else "vllm:upstream"
    assert [each.implementation for each in FACTORIES.chosen.values()] == [expected]
    assert here.cls(sent.model_config) == expected.replace("vllm:upstream", UPSTREAM_LLAMA)


BUILT_IN = Model("LlamaForCausalLM", "moody:LlamaForCausalLM", "llama3", "moody 1.0")
MOODY = """
from vllm_graft.models import UPSTREAM, ModelFactory, get_platform_target

class LlamaForCausalLM(ModelFactory):
    @classmethod
    def select(cls, hf_config, neuron_config):
        return UPSTREAM if get_platform_target() == "cpu" else "acme.packed:LlamaForCausalLM"
"""


@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize(("here_on", "there_on"), [("cpu", "trn2"), ("trn2", "cpu")])
def test_a_process_that_chooses_otherwise_raises(
    vllm: Start,
    write: Callable[[str, str], Any],
    monkeypatch: pytest.MonkeyPatch,
    here_on: str,
    there_on: str,
    draft: bool,
) -> None:
    """The error says what both chose, in which process, and how to bring them together."""
    write("moody.py", MOODY)
    here = vllm("0.32.0", BUILT_IN)
    monkeypatch.setenv(VARIABLE, here_on)
    model = here.model()
    names = {"cpu": "vllm:upstream", "trn2": "acme.packed:LlamaForCausalLM"}
    another_process(monkeypatch)
    monkeypatch.setenv(VARIABLE, there_on)
    sent = SimpleNamespace(model_config=model)
    if draft:
        sent = SimpleNamespace(
            model_config=None, speculative_config=SimpleNamespace(draft_model_config=model)
        )

    with pytest.raises(FactoryError) as caught:
        inside.agree(sent)

    for word in (
        f"moody:LlamaForCausalLM chose {names[there_on]}",
        f"in the process MainProcess, and {names[here_on]} was chosen where the engine was",
        "VLLM_GRAFT_PLATFORM_TARGET",
    ):
        assert word in str(caught.value)
    assert FACTORIES.chosen == {}
    with pytest.raises(FactoryError, match="where the engine was configured"):
        here.cls(model)


def test_an_engine_core_agrees_before_it_starts(
    vllm: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The factories are asked when vLLM's plugins have been loaded, which may register some."""
    from vllm_graft.builtin.inside import engine_core_made

    here = vllm("0.32.0", ACME_MODEL)
    sent = SimpleNamespace(model_config=here.model(neuron=PACKED))
    steps: list[Any] = []
    plugins = importlib.import_module("vllm.plugins")
    monkeypatch.setattr(
        plugins, "load_general_plugins", lambda: steps.append(list(FACTORIES.chosen))
    )

    def original(*_: Any) -> str:
        steps.append(list(FACTORIES.chosen))
        return "started"

    another_process(monkeypatch)
    assert engine_core_made(original, object(), sent) == "started"
    assert steps == [[], ["LlamaForCausalLM"]]
