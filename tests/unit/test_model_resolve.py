"""vLLM's registry with factories in it: vLLM only ever sees the implementation that is chosen.

The registry is a fake, in the shapes of 0.9.2, 0.10.1 and 0.32.0 (fake_vllm.py): what a release
does with a factory is a question of how it asks, and three releases cannot be installed at once.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_graft.errors import FactoryError, UnsupportedConfigError
from vllm_graft.models import ModelFactory, inside
from vllm_graft.models.registry import BUILTIN_MODELS, Model
from vllm_graft.models.resolve import FACTORIES

from .conftest import ACME_MODEL, Vllm

Start = Callable[..., Vllm]
Write = Callable[[str, str], Path]

VERSIONS = ["0.9.2", "0.10.1", "0.32.0"]
UPSTREAM_LLAMA = "vllm.model_executor.models.llama:LlamaForCausalLM"
MESSAGE = "LlamaForCausalLM: acme.factory:LlamaForCausalLM chose"


def warnings(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    """Return the warnings of the layer that have a word in them."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and word in record.getMessage()
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("neuron", "cls", "supports_pp"),
    [
        (None, UPSTREAM_LLAMA, True),
        ({"quantization": "packed"}, "acme.packed:LlamaForCausalLM", False),
        (SimpleNamespace(quantization="small"), "acme.small:LlamaForCausalLM", False),
    ],
)
def test_a_models_class_and_flags_are_those_of_the_choice(
    vllm: Start, version: str, neuron: Any, cls: str, supports_pp: bool
) -> None:
    """In every shape of the registry; nothing but the choice is inspected or imported."""
    here = vllm(version, ACME_MODEL)

    model = here.model(neuron=neuron)

    assert model._model_info.supports_pp is supports_pp
    assert here.cls(model) == cls
    assert here.registry.inspected == [cls]
    others = {"acme.packed", "acme.small", "acme.broken"} - {cls.partition(":")[0]}
    assert not others & set(sys.modules)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_entry_of_a_choice_that_is_vllms_own_is_vllms_own_object(
    vllm: Start, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs nothing: what vLLM has cached for its entry is found by it."""
    here = vllm(version, ACME_MODEL)
    seen: list[Any] = []
    load = here.registry._try_load_model_cls  # the registry is imported, and the factory in it

    def watched(architecture: str, entry: Any) -> Any:
        seen.append(entry)
        return load(architecture, entry)

    monkeypatch.setattr(here.registry, "_try_load_model_cls", watched)

    here.cls(here.model())

    assert len(seen) == 1
    assert seen[0] is FACTORIES.upstream["LlamaForCausalLM"]
    assert seen[0] is not here.models["LlamaForCausalLM"]


def test_a_registry_with_built_in_factories_gives_vllms_own_entries(vllm: Start) -> None:
    """By default, on a platform without anything of its own, nothing of vLLM's is replaced."""
    here = vllm("0.32.0", *BUILTIN_MODELS)

    for model, extra in zip(
        BUILTIN_MODELS, [{"num_local_experts": 4, "num_experts_per_tok": 2}, {}, {}], strict=True
    ):
        config = here.model(model.architecture, **extra)
        assert here.cls(config).startswith("vllm.model_executor.models.")
        assert here.models[model.architecture].module_name.startswith("vllm_graft.models.")


@pytest.mark.parametrize("version", VERSIONS)
def test_other_architectures_are_left_alone(vllm: Start, version: str) -> None:
    """What has no factory is what it was, and what vLLM does not have it still does not have."""
    here = vllm(version, ACME_MODEL)

    model = here.model("OPTForCausalLM")

    assert here.cls(model) == "vllm.model_executor.models.opt:OPTForCausalLM"
    with pytest.raises(ValueError, match="not supported for now"):
        here.model("NobodysForCausalLM")


@pytest.mark.parametrize("version", ["0.10.1", "0.32.0"])
def test_the_registry_keeps_the_factory(vllm: Start, version: str) -> None:
    """The next model may be given another implementation."""
    here = vllm(version, ACME_MODEL)
    registry = here.registry.ModelRegistry
    before = dict(here.models)

    for name in ("packed", "small"):
        model = here.model(neuron={"quantization": name})
        found, architecture = registry.resolve_model_cls("LlamaForCausalLM", model)
        assert (found.__module__, architecture) == (f"acme.{name}", "LlamaForCausalLM")

    assert here.models == before
    assert type(here.models) is dict
    assert registry.models is here.models


def test_every_step_is_traced(vllm: Start) -> None:
    """Which factory of whom was registered, what it chose and why; once, not for each question."""
    here = vllm("0.32.0", ACME_MODEL)
    model = here.model(neuron={"quantization": "packed"})
    here.cls(model)

    assert here.traced("register_model") == [
        "LlamaForCausalLM: acme.factory:LlamaForCausalLM of acme 1.0"
    ]
    assert here.traced("select_model") == [
        f"{MESSAGE} acme.packed:LlamaForCausalLM because the user asks for packed"
    ]
    events = ("register_model", "select_model")
    assert {line["patch"] for line in here.lines if line["event"] in events} == {"models/llama3"}


# What is registered directly, as packages for vLLM do it.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("as_class", [False, True])
def test_a_factory_that_is_registered_directly(vllm: Start, version: str, as_class: bool) -> None:
    """A lazy string is told from its source, a class is made one: both are factories."""
    here = vllm(version)
    if as_class:
        from acme.factory import (  # type: ignore[import-not-found]  # written by `vllm`
            LlamaForCausalLM,
        )
    else:
        LlamaForCausalLM = "acme.factory:LlamaForCausalLM"

    here.registry.ModelRegistry.register_model("MyCustomModelForCausalLM", LlamaForCausalLM)

    entry = here.models["MyCustomModelForCausalLM"]
    assert (entry.module_name, entry.class_name) == ("acme.factory", "LlamaForCausalLM")
    model = here.model("MyCustomModelForCausalLM", neuron={"quantization": "packed"})
    assert here.cls(model) == "acme.packed:LlamaForCausalLM"
    assert here.traced("select_model")[-1].startswith("MyCustomModelForCausalLM: acme.factory:")


def test_a_lazy_string_is_not_imported_to_be_told(vllm: Start, write: Write) -> None:
    """Neither that of a model, when its configuration is made, nor that of a factory before."""
    write("lazy_model.py", "class Lazy:\n    supports_pp = False\n")
    here = vllm()
    register = here.registry.ModelRegistry.register_model
    register("LazyForCausalLM", "lazy_model:Lazy")
    register("FactoryForCausalLM", "acme.factory:LlamaForCausalLM")

    told = [FACTORIES.of(name, here.models[name]) for name in ("LazyForCausalLM",)]
    found = FACTORIES.of("FactoryForCausalLM", here.models["FactoryForCausalLM"])

    assert told == [None]
    assert found is not None
    assert found.name == "acme.factory:LlamaForCausalLM"
    assert not {"lazy_model", "acme", "acme.factory"} & set(sys.modules)
    assert here.cls(here.model("LazyForCausalLM")) == "lazy_model:Lazy"


def test_a_class_that_is_no_factory_is_registered_as_ever(vllm: Start) -> None:
    """An imported model, and what vLLM refuses."""
    here = vllm()
    Mine = type("Mine", (here.registry.Module,), {"supports_pp": False})

    here.registry.ModelRegistry.register_model("MineForCausalLM", Mine)
    assert here.cls(here.model("MineForCausalLM")).endswith("Mine")
    for given in (int, 1, "no_colon"):
        with pytest.raises((TypeError, ValueError)):
            here.registry.ModelRegistry.register_model("BadForCausalLM", given)
    assert "BadForCausalLM" not in here.models


def test_a_factory_class_that_others_cannot_find(vllm: Start) -> None:
    """Other processes have the registry's strings alone, so that such a class is refused."""
    here = vllm()

    class Local(ModelFactory):
        pass

    Main = type("Main", (ModelFactory,), {"__module__": "__main__"})
    for factory in (Local, Main):
        with pytest.raises(FactoryError, match=r"cannot be found by other processes. Put it into"):
            here.registry.ModelRegistry.register_model("LlamaForCausalLM", factory)


def test_a_registration_that_replaces_a_factory_is_a_warning(
    vllm: Start, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """Newer releases of vLLM say nothing of it. The factory is asked no more."""
    write("other_llama.py", "class LlamaForCausalLM:\n    supports_pp = False\n")
    here = vllm("0.32.0", ACME_MODEL)

    here.registry.ModelRegistry.register_model("LlamaForCausalLM", "other_llama:LlamaForCausalLM")

    assert warnings(caplog, "in place of") == [
        "vllm-graft: LlamaForCausalLM is registered as other_llama:LlamaForCausalLM now, in place "
        "of the factory acme.factory:LlamaForCausalLM, which has no effect any more"
    ]
    model = here.model(neuron={"quantization": "packed"})
    assert here.cls(model) == "other_llama:LlamaForCausalLM"
    assert here.traced("select_model") == []
    assert here.traced("register_model")[-1] == "LlamaForCausalLM: other_llama:LlamaForCausalLM"


def test_registering_the_same_again_is_none(vllm: Start, caplog: pytest.LogCaptureFixture) -> None:
    """vLLM calls plugins more than once in a process."""
    here = vllm("0.32.0", ACME_MODEL)

    for _ in range(2):
        here.registry.ModelRegistry.register_model("LlamaForCausalLM", ACME_MODEL.factory)

    assert warnings(caplog, "in place of") == []
    model = here.model(neuron={"quantization": "packed"})
    assert here.cls(model) == "acme.packed:LlamaForCausalLM"
    assert here.cls(here.model("OPTForCausalLM")).endswith("opt:OPTForCausalLM")


def test_a_plugin_may_replace_vllms_own_model_by_a_factory(vllm: Start) -> None:
    """What was there is what its `UPSTREAM` means, however often it registers."""
    here = vllm("0.32.0", Model("OPTForCausalLM", "acme.factory:LlamaForCausalLM", "opt", "a"))
    for _ in range(2):
        here.registry.ModelRegistry.register_model("LlamaForCausalLM", ACME_MODEL.factory)

    assert here.cls(here.model()) == UPSTREAM_LLAMA


# What goes wrong.


@pytest.mark.parametrize("version", VERSIONS)
def test_an_implementation_that_cannot_be_imported(vllm: Start, version: str) -> None:
    """vLLM logs it and says "failed to be inspected"; here the error says what and who chose it."""
    here = vllm(version, ACME_MODEL)

    with pytest.raises(FactoryError) as caught:
        here.model(neuron={"quantization": "broken"})

    for word in (f"{MESSAGE} acme.broken:LlamaForCausalLM", "cannot use that class: no kernel"):
        assert word in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_implementation_that_does_not_exist(vllm: Start, version: str) -> None:
    """It is found out where the engine is configured, before anything is imported."""
    here = vllm(version, ACME_MODEL)

    with pytest.raises(FactoryError, match=r"chose 'acme.gone:Llama.*', and there is no such cl"):
        here.model(neuron={"quantization": "gone"})
    assert here.registry.inspected == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_factory_refuses_is_raised_where_the_engine_is_configured(
    vllm: Start, version: str
) -> None:
    """As it is, and not as vLLM's "failed to be inspected"."""
    here = vllm(version, ACME_MODEL)

    with pytest.raises(UnsupportedConfigError, match="'quant', which this model does not know"):
        here.model(neuron={"quant": "packed"})


def test_upstream_where_vllm_has_none(vllm: Start) -> None:
    """A factory for an architecture of its own must name an implementation."""
    here = vllm("0.32.0", Model("AcmeForCausalLM", "acme.factory:LlamaForCausalLM", "a", "acme 1"))

    with pytest.raises(FactoryError, match="this vLLM has no implementation of its own"):
        here.model("AcmeForCausalLM")


def test_a_registry_that_is_asked_for_nobodys_model(vllm: Start) -> None:
    """Releases before 0.10.1 do not say whose; what was chosen last is what is meant, if any."""
    here = vllm("0.9.2", ACME_MODEL)
    registry = here.registry.ModelRegistry

    with pytest.raises(FactoryError, match="without saying for which model"):
        registry.inspect_model_cls(["LlamaForCausalLM"])
    here.model(neuron={"quantization": "packed"})
    assert registry.inspect_model_cls(["LlamaForCausalLM"])[0].supports_pp is False


def test_a_neuron_config_that_no_factory_reads(
    vllm: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning for an architecture, and none where there is nothing that could be read."""
    here = vllm("0.32.0", ACME_MODEL)

    here.cls(here.model("OPTForCausalLM"))
    assert warnings(caplog, "neuron_config") == []
    inside._warn.cache_clear()
    for _ in range(2):
        here.cls(here.model("OPTForCausalLM", neuron={"quantization": "mxfp4"}))
    here.model(neuron={"quantization": "packed"})
    here.model(neuron={"draft_quantization": "bf16"})

    assert warnings(caplog, "neuron_config") == [
        "vllm-graft: neuron_config is given, and OPTForCausalLM has no factory that would read it",
        "vllm-graft: neuron_config has draft_quantization, and there is no draft model",
    ]
