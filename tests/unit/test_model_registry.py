"""Which architectures have a factory, and their registration with vLLM when its registry is there.

vLLM is a fake where its registry is needed (fake_vllm.py); distributions are real.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_graft.builtin import builtin_sets
from vllm_graft.catalog import Catalog
from vllm_graft.errors import BrokenSetError
from vllm_graft.models import Model, get_models
from vllm_graft.models.registry import BUILTIN_MODELS, ORIGIN, models_set
from vllm_graft.models.resolve import FACTORIES
from vllm_graft.plan import Environment, make_plan
from vllm_graft.settings import Selection, Settings
from vllm_graft.version import VllmVersion

from .conftest import ACME_MODEL, Vllm
from .fake_vllm import RELEASES

Install = Callable[..., None]
Python = Callable[..., str]
Start = Callable[..., Vllm]
Write = Callable[[str, str], Path]

BUILTIN = {
    "GptOssForCausalLM": "models/gpt_oss",
    "LlamaForCausalLM": "models/llama3",
    "Eagle3LlamaForCausalLM": "models/eagle3_llama",
}


@pytest.fixture
def only_ours(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the models that the interpreter which runs the tests has installed."""
    monkeypatch.setattr(sys, "path", [item for item in sys.path if "-packages" not in item])


def added(models: tuple[Model, ...]) -> list[Model]:
    """Return the models that are not built in."""
    return [model for model in models if model.origin != ORIGIN]


@pytest.mark.usefixtures("only_ours")
def test_the_built_in_models() -> None:
    """Each under its architecture, with the id that selects it."""
    assert get_models() == get_models(()) == BUILTIN_MODELS
    assert {model.architecture: model.id for model in BUILTIN_MODELS} == BUILTIN
    for model in BUILTIN_MODELS:
        assert model.origin == "vllm-graft (built in)"
        assert model.factory.endswith(f":{model.architecture}")


@pytest.mark.usefixtures("only_ours")
def test_models_of_distributions(install: Install) -> None:
    """By architecture, with their origin; no factory is imported, not even one that is missing."""
    install("acme-models", "1.2", models={"ZooForCausalLM": "no_such_package.zoo:Zoo"})
    install("other", "3", models={"MyCustomModelForCausalLM": "other.factory:Factory"})

    assert added(get_models()) == [
        Model("MyCustomModelForCausalLM", "other.factory:Factory", "my_custom_model", "other 3"),
        Model("ZooForCausalLM", "no_such_package.zoo:Zoo", "zoo", "acme-models 1.2"),
    ]
    assert get_models()[:3] == BUILTIN_MODELS


@pytest.mark.usefixtures("only_ours")
def test_a_distribution_takes_the_place_of_a_built_in_model(install: Install) -> None:
    """Under the same id, so that what selects the model selects it still."""
    install("acme", "1.0", models={"LlamaForCausalLM": ACME_MODEL.factory})

    assert get_models() == tuple(
        ACME_MODEL if model.name == "llama3" else model for model in BUILTIN_MODELS
    )


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("AcmeForCausalLM", "acme"),
        ("MyCustomModelForCausalLM", "my_custom_model"),
        ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vlfor_conditional_generation"),
        ("DeepSeekMTPModel", "deep_seek_mtpmodel"),
        ("Phi3ForCausalLM", "phi3"),
        ("GPT2LMHeadModel", "gpt2_lmhead_model"),
        # built-in models have these names
        ("Llama3ForCausalLM", "llama3_for_causal_lm"),
        ("GptOSSForCausalLM", "gpt_ossfor_causal_lm"),
    ],
)
@pytest.mark.usefixtures("only_ours")
def test_an_id_comes_from_the_architecture(install: Install, architecture: str, name: str) -> None:
    """As modules are named; in full where the short form is another model's."""
    install("acme", "1", models={architecture: "acme:F"})

    (model,) = added(get_models())
    assert model.id == f"models/{name}"
    assert models_set(get_models()).patches[-1].id == f"models/{name}"


@pytest.mark.parametrize(
    ("architecture", "value"),
    [
        ("AcmeForCausalLM", "acme.factory"),
        ("AcmeForCausalLM", "acme.factory:"),
        ("AcmeForCausalLM", "acme/factory.py:Acme"),
        ("AcmeForCausalLM", "acme.factory:Acme [extra]"),
        ("Acme-ForCausalLM", "acme.factory:Acme"),
        ("Acme.For", "acme.factory:Acme"),
        ("1Acme", "acme.factory:Acme"),
    ],
)
@pytest.mark.usefixtures("only_ours")
def test_an_entry_point_that_names_no_factory(
    install: Install, architecture: str, value: str
) -> None:
    """The error says whose it is, what to write, and how to go on without."""
    install("acme", "1.0", models={architecture: value})

    with pytest.raises(BrokenSetError) as caught:
        get_models()
    for word in (
        f"the entry point {architecture!r} = ",
        "(group 'vllm_graft.models', acme 1.0) does not name a factory",
        "Write Architecture = 'package.module:Class'",
        "VLLM_GRAFT_PATCHES='-models/*'",
    ):
        assert word in str(caught.value)


@pytest.mark.usefixtures("only_ours")
@pytest.mark.parametrize("architecture", ["AcmeForCausalLM", "LlamaForCausalLM"])
def test_two_distributions_with_one_architecture(install: Install, architecture: str) -> None:
    """Neither is taken silently, whether there is a built-in one or not."""
    install("first", "1.0", models={architecture: "first.factory:F"})
    install("second", "2.0", models={architecture: "second.factory:F"})

    with pytest.raises(BrokenSetError) as caught:
        get_models()
    for word in (
        f"the entry point {architecture!r} = 'second.factory:F'",
        "second 2.0) claims an architecture that first 1.0 has the factory first.factory:F of",
        "Uninstall one of the two",
    ):
        assert word in str(caught.value)


def armed_ids(version: str, *models: Model, select: str = "") -> list[str]:
    """Return which models a plan registers."""
    catalog = Catalog((*builtin_sets(), models_set(models)), {})
    settings = Settings(selection=Selection.parse(select))
    plan = make_plan(catalog, Environment(VllmVersion(version, "a test")), settings)
    assert plan.problems == ()
    return [patch.id.partition("/")[2] for patch in plan.armed if patch.set_name == "models"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("", "gpt_oss llama3 eagle3_llama"),
        ("models/gpt_oss", "gpt_oss"),
        ("-models/gpt_oss", "llama3 eagle3_llama"),
        ("models/*,-models/*llama*", "gpt_oss"),
        ("-models/*", ""),
        ("acme/*", ""),
        ("-vllm-graft/*", "gpt_oss llama3 eagle3_llama"),
    ],
)
def test_models_are_selected_as_patches_are(select: str, expected: str) -> None:
    """`VLLM_GRAFT_PATCHES` has the ids that `vllm-graft list` shows."""
    assert armed_ids("0.32.0", *BUILTIN_MODELS, select=select) == expected.split()


@pytest.mark.parametrize(
    ("version", "built_in", "others"),
    [
        ("0.9.1", False, False),
        ("0.9.2", False, True),
        ("0.10.1", False, True),
        ("0.27.0", False, True),
        ("0.27.1", True, True),
        ("0.33.0", True, True),
        ("0.34.0", False, True),
    ],
)
def test_models_and_the_releases_that_they_are_for(
    version: str, built_in: bool, others: bool
) -> None:
    """Built-in implementations are for the releases that they were written for."""
    expected = ["gpt_oss"] * built_in + ["llama3"] * others

    assert armed_ids(version, BUILTIN_MODELS[0], ACME_MODEL) == expected


def test_a_model_is_declared_as_any_patch() -> None:
    """It is listed with its factory and whose it is."""
    patch = models_set([ACME_MODEL]).patches[0]

    assert (patch.operation, str(patch.target)) == (
        "run",
        "vllm.model_executor.models.registry",
    )
    assert not patch.required
    assert "acme.factory:LlamaForCausalLM of acme 1.0" in patch.how
    assert patch.why.startswith("LlamaForCausalLM has several implementations")


# Registration.


@pytest.mark.parametrize("version", ["0.9.2", "0.10.1", "0.32.0"])
def test_a_factory_is_registered_with_vllms_registry(vllm: Start, version: str) -> None:
    """As a lazy string, when vLLM imports its registry; no factory is imported for it."""
    here = vllm(version, ACME_MODEL)
    assert here.state("models/llama3") == "armed"
    entry = here.models["LlamaForCausalLM"]

    assert here.state("models/llama3") == "applied"
    assert (entry.module_name, entry.class_name) == ("acme.factory", "LlamaForCausalLM")
    assert type(entry) is here.registry._LazyRegisteredModel
    assert not {"acme", "acme.factory"} & set(sys.modules)
    assert list(FACTORIES.by_architecture) == ["LlamaForCausalLM"]
    assert here.registry.inspected == []


def test_what_is_not_selected_is_not_registered(vllm: Start) -> None:
    """The architecture is vLLM's own, with its own entry."""
    here = vllm("0.32.0", select="-models/llama3")

    assert here.models["LlamaForCausalLM"].module_name == "vllm.model_executor.models.llama"
    assert here.models["GptOssForCausalLM"].module_name == "vllm_graft.models.gpt_oss.factory"
    assert here.state("models/llama3").startswith("skipped not selected by VLLM_GRAFT_PATCHES")


@pytest.mark.parametrize("as_class", [False, True])
def test_an_architecture_of_somebody_else_is_left_alone(
    vllm: Start, caplog: pytest.LogCaptureFixture, write: Write, as_class: bool
) -> None:
    """Whoever registered it before keeps it; the patch has failed, and a warning says so."""
    mine = "type('Mine', (Module,), {'supports_pp': True, '__module__': 'mine'})"
    given = mine if as_class else "'mine:Mine'"
    for path, source in RELEASES["0.32.0"].items():
        # Registered as the registry is imported, as a fork of vLLM has it.
        more = f"ModelRegistry.register_model('LlamaForCausalLM', {given})\n"
        write(path, source + more if path.endswith("registry.py") else source)
    here = vllm("0.32.0", ACME_MODEL)

    entry = here.models["LlamaForCausalLM"]

    assert type(entry).__name__ == ("_RegisteredModel" if as_class else "_LazyRegisteredModel")
    state = here.state("models/llama3")
    assert state.startswith("failed ")
    assert "'LlamaForCausalLM' is registered as mine:Mine by somebody else" in state
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert any("models/llama3" in text and "who keeps it" in text for text in told)
    assert FACTORIES.by_architecture == {}
    assert FACTORIES.registering is None


@pytest.mark.parametrize("name", ["register", "inspect", "resolve"])
def test_no_factory_without_the_patches_that_resolve_it(vllm: Start, name: str) -> None:
    """vLLM would take the factory for a model; so the architecture stays vLLM's own."""
    here = vllm("0.32.0", ACME_MODEL, select=f"-vllm-graft/model-{name}")

    assert here.models["LlamaForCausalLM"].module_name == "vllm.model_executor.models.llama"
    assert f"it needs vllm-graft/model-{name}, which" in here.state("models/llama3")
    assert here.cls(here.model()) == "vllm.model_executor.models.llama:LlamaForCausalLM"


def test_a_model_that_is_new_to_vllm(vllm: Start) -> None:
    """An architecture that vLLM does not have needs no other registration."""
    here = vllm("0.32.0", Model("AcmeForCausalLM", ACME_MODEL.factory, "acme", "acme 1.0"))

    model = here.model("AcmeForCausalLM", neuron={"quantization": "packed"})

    assert here.cls(model) == "acme.packed:LlamaForCausalLM"


def test_registering_imports_no_torch(python: Python, write: Write) -> None:
    """In a real interpreter, as vLLM's registry is imported; nor any factory. The registry is fake:
    that of vLLM imports torch itself.
    """
    path = "vllm/model_executor/models"
    for package in ("vllm", "vllm/model_executor", path):
        write(f"{package}/__init__.py", "")
    write(
        f"{path}/registry.py",
        """
        from dataclasses import dataclass, field

        @dataclass(frozen=True)
        class _LazyRegisteredModel:
            module_name: str
            class_name: str

        @dataclass
        class _ModelRegistry:
            models: dict = field(default_factory=dict)
            def register_model(self, model_arch, model_cls):
                self.models[model_arch] = _LazyRegisteredModel(*model_cls.split(":"))
            def inspect_model_cls(self, architectures, model_config):
                pass
            def resolve_model_cls(self, architectures, model_config):
                pass

        ModelRegistry = _ModelRegistry()
        """,
    )
    found = python(
        """
        import sys
        from vllm_graft.builtin import builtin_sets
        from vllm_graft.models.registry import BUILTIN_MODELS, models_set
        from vllm_graft.testing import armed
        with armed(*builtin_sets(), models_set(BUILTIN_MODELS), vllm="0.32.0"):
            from vllm.model_executor.models.registry import ModelRegistry
            print(*sorted(ModelRegistry.models))
        print({"torch", "transformers"} & set(sys.modules))
        print(*(name for name in sys.modules if name.startswith("vllm_graft.models.") and
                name.partition(".models.")[2].partition(".")[0] in ("gpt_oss", "llama3")))
        """
    )
    assert found.splitlines() == [" ".join(sorted(BUILTIN)), "set()"]
