"""Model factories where processes, engines and packages are not as one expects them."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from vllm_graft.builtin import builtin_sets
from vllm_graft.catalog import load_catalog
from vllm_graft.errors import FactoryError, UnsupportedConfigError
from vllm_graft.imports import without_heavy_imports
from vllm_graft.models import ModelFactory, inside
from vllm_graft.models.choice import is_factory
from vllm_graft.models.context import engine_config, give, neuron_config_of
from vllm_graft.models.platform import VARIABLE
from vllm_graft.models.registry import models_set
from vllm_graft.models.resolve import FACTORIES, Factories
from vllm_graft.models.rules import quantization_of
from vllm_graft.target import Target
from vllm_graft.testing import armed

from .conftest import ACME_MODEL, Vllm

Install = Callable[..., None]
Start = Callable[..., Vllm]
Write = Callable[[str, str], Path]

STATUS = importlib.import_module("vllm_graft.cli.status")
PACKED = {"quantization": "packed"}
OWN = "vllm.model_executor.models.llama:LlamaForCausalLM"


def test_two_engines_one_after_the_other(vllm: Start) -> None:
    """The second engine has the class that its factory chooses, not the one that vLLM has kept."""
    here = vllm("0.32.0", ACME_MODEL)

    assert here.cls(here.model(neuron=PACKED)) == "acme.packed:LlamaForCausalLM"
    assert here.cls(here.model()) == OWN


def test_a_configuration_by_hand_after_the_class_was_asked_for(vllm: Start) -> None:
    """A `VllmConfig` made by hand brings the option: flags and class are of one implementation."""
    here = vllm("0.32.0", ACME_MODEL)
    config = importlib.import_module("vllm.config")
    model = config.ModelConfig("a/model", SimpleNamespace(architectures=["LlamaForCausalLM"]))
    assert here.cls(model) == OWN

    config.VllmConfig(model, additional_config={"neuron_config": PACKED})

    assert model._model_info.supports_pp is False
    assert here.cls(model) == "acme.packed:LlamaForCausalLM"


@pytest.mark.parametrize("gone", ["factory", "architecture"])
def test_a_process_without_the_factory_raises(
    vllm: Start, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Another VLLM_GRAFT_PATCHES there, or a package less, does not end in vLLM's own."""
    here = vllm("0.32.0", ACME_MODEL)
    model = here.model(neuron=PACKED)
    # What the registry of a process is where the model was not selected, or its package not there.
    here.models["LlamaForCausalLM"] = FACTORIES.upstream["LlamaForCausalLM"]
    if gone == "architecture":
        del here.models["LlamaForCausalLM"]
    for name, value in vars(Factories()).items():
        monkeypatch.setattr(FACTORIES, name, value)

    with pytest.raises(FactoryError, match="where the engine was configured"):
        inside.agree(SimpleNamespace(model_config=model))


def test_two_blocks_in_one_process(vllm: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """`armed` takes a registration back, though it is in a container of an object of the module."""
    here = vllm("0.32.0", select="-*/*")  # the stand-in, with nothing in effect
    own = here.models["LlamaForCausalLM"]
    sets = (*builtin_sets(), models_set([ACME_MODEL]))
    with armed(*sets, vllm="0.32.0") as status:
        (first,) = (each for each in status().patches if each.id == "models/llama3")
        assert here.models["LlamaForCausalLM"] is not own
    left = here.models["LlamaForCausalLM"]
    with armed(*sets, vllm="0.32.0") as status:
        (second,) = (each for each in status().patches if each.id == "models/llama3")

    assert first.state == "applied"
    assert (left, second.state) == (own, "applied"), second.reason


@pytest.mark.parametrize(
    "source",
    [
        "Base = ModelFactory\n",
        "try:\n    from vllm_graft.models import ModelFactory as Base\n"
        "except ImportError:\n    Base = object\n",
        "from vllm_graft.models import *\nBase = ModelFactory\n",
    ],
)
def test_a_factory_class_whose_base_the_source_does_not_say(
    vllm: Start, write: Write, source: str
) -> None:
    """A factory given as a class is one, whatever its source looks like."""
    write(
        "dynamic.py",
        "from vllm_graft.models import UPSTREAM, ModelFactory\n"
        + source
        + "class LlamaForCausalLM(Base):\n"
        + "    @classmethod\n"
        + "    def select(cls, hf_config, neuron_config):\n"
        + "        return 'acme.packed:LlamaForCausalLM'\n",
    )
    here = vllm()
    factory = importlib.import_module("dynamic").LlamaForCausalLM
    assert issubclass(factory, ModelFactory)

    here.registry.ModelRegistry.register_model("MyForCausalLM", factory)

    assert here.cls(here.model("MyForCausalLM")) == "acme.packed:LlamaForCausalLM"


def test_a_draft_of_the_same_architecture(vllm: Start) -> None:
    """The target's compile key has its mark when the draft, otherwise chosen, was loaded last."""
    here = vllm("0.32.0", ACME_MODEL)
    target, draft = here.model(neuron=PACKED), here.model()
    here.cls(target)
    here.cls(draft)

    assert "acme.packed:LlamaForCausalLM" in (FACTORIES.mark() or "")


@pytest.mark.parametrize(
    "architectures", [("ACME", "Acme"), ("ForCausalLM",)], ids=["same id", "no id"]
)
def test_a_model_without_an_id_of_its_own(architectures: tuple[str, ...]) -> None:
    """Every architecture has an id, also one whose name would give none, or another one's."""
    from importlib.metadata import EntryPoint

    given = [EntryPoint(name, "acme.f:F", "vllm_graft.models") for name in architectures]

    catalog = load_catalog((), given)
    assert [each.name for each in catalog.broken] in ([], ["models"])


def test_status_goes_on_without_factories(
    stand_in: Callable[[str], None],
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What the error of a broken entry point advises works for `status --model` as well."""
    monkeypatch.setattr(sys, "path", [item for item in sys.path if "-packages" not in item])
    stand_in("0.32.0")
    install("broken", "1.0", models={"AcmeForCausalLM": "no factory"})
    monkeypatch.setenv("VLLM_VERSION", "0.32.0")
    monkeypatch.setenv("VLLM_GRAFT_PATCHES", "-models/*")
    file = tmp_path / "config.json"
    file.write_text('{"architectures": ["LlamaForCausalLM"]}')

    result = CliRunner().invoke(STATUS.status, ["--model", str(file), "--json"])

    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["models"][0]["implementation"] == OWN


def test_status_where_the_platform_cannot_be_told(
    site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a vLLM to import, it asks for the variable."""
    monkeypatch.setitem(sys.modules, "vllm.platforms", None)
    monkeypatch.setenv("VLLM_VERSION", "0.32.0")
    monkeypatch.delenv("VLLM_GRAFT_PATCHES", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    file = tmp_path / "config.json"
    file.write_text('{"architectures": ["LlamaForCausalLM"]}')

    result = CliRunner().invoke(STATUS.status, ["--model", str(file), "--json"])

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "VLLM_GRAFT_PLATFORM_TARGET" in result.output


def test_options_that_are_attributes_of_a_class() -> None:
    """Defaults of a class and slots are read like attributes."""

    class Defaults:
        quantization = "mxfp4"

    class Slots:
        __slots__ = ("quantization",)

    slots = Slots()
    slots.quantization = "mxfp4"  # type: ignore[attr-defined]
    found: list[Any] = []
    for given in (Defaults(), slots):
        try:
            found.append(ModelFactory.options(given))
        except Exception as error:
            found.append(error)
    assert found == [{"quantization": "mxfp4"}] * 2


@pytest.mark.parametrize("given", [{}, {"bits": 4}])
def test_a_checkpoint_whose_method_is_not_said(given: dict[str, Any]) -> None:
    """A description without a method is none."""
    assert quantization_of(SimpleNamespace(quantization_config=given)) != "none"


def test_an_alias_that_begins_like_another(write: Write) -> None:
    """The module of a base is told by the whole of its name."""
    write("odd.py", "import json as mz, vllm_graft.models as m\nclass F(m.ModelFactory): ...\n")

    assert is_factory(Target("odd", "F"))


@pytest.mark.parametrize("attribute", ["runner", "runner_type", "task"])
def test_a_draft_has_options_of_its_own(attribute: str) -> None:
    """Of the `neuron_config` that both models share it has what begins with `draft_`."""
    given = {"quantization": "mxfp4", "voice": "loud", "draft_quantization": "bf16"}
    for neuron_config in (given, SimpleNamespace(**given)):
        target, draft = SimpleNamespace(), SimpleNamespace(**{attribute: "draft"})
        for model in (target, draft):
            give(model, neuron_config)
        assert neuron_config_of(target) is neuron_config
        assert neuron_config_of(draft) == {"quantization": "bf16"}
        assert set(ModelFactory.options({"draft_quantization": "bf16"})) == set()


def test_a_model_inside_of_another_one_is_vllms_own(vllm: Start) -> None:
    """What the main process has not asked a factory about, no other process asks about either."""
    here = vllm("0.32.0", ACME_MODEL)
    outer = here.engine({"neuron_config": PACKED}, "OPTForCausalLM").model_config
    outer.hf_config = SimpleNamespace(architectures=["LlamaForCausalLM"])

    assert here.cls(outer) == OWN


def test_a_draft_may_have_another_name_first(vllm: Start) -> None:
    """What its first architecture refuses is told at the end, if it has kept that name."""
    here = vllm("0.32.0", ACME_MODEL)
    config = importlib.import_module("vllm.config")
    options = {"neuron_config": {"draft_depth": 3}}
    with engine_config(options):
        target, draft = here.model(), _draft(config)
        assert draft._model_info.supports_pp is True
        draft.hf_config = SimpleNamespace(architectures=["Eagle3LlamaForCausalLM"])
        config.VllmConfig(target, SimpleNamespace(draft_model_config=draft), options)

        with pytest.raises(UnsupportedConfigError, match="'depth'"):
            config.VllmConfig(target, SimpleNamespace(draft_model_config=_draft(config)), options)


def test_the_drafts_own_engine_is_none(vllm: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A worker makes a configuration with the draft in the target's place: nothing is amiss."""
    here = vllm("0.32.0", ACME_MODEL)
    config = importlib.import_module("vllm.config")
    draft = _draft(config)
    options = {"neuron_config": {"quantization": "packed", "draft_quantization": None}}
    caplog.clear()

    config.VllmConfig(draft, SimpleNamespace(draft_model_config=draft), options)

    assert here.cls(draft) == OWN
    assert [each for each in caplog.messages if "neuron_config" in each] == []


def _draft(config: Any) -> Any:
    class Draft(config.ModelConfig):  # type: ignore[misc]  # the stand-in is not typed
        runner = "draft"

    return Draft("a/draft", SimpleNamespace(architectures=["LlamaForCausalLM"]))


def test_a_factory_may_refuse_an_engine(vllm: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked with the whole configuration, and what it has chosen."""
    here = vllm("0.32.0", ACME_MODEL)
    asked: list[Any] = []
    factory = importlib.import_module("acme.factory").LlamaForCausalLM
    monkeypatch.setattr(
        factory, "_validate_engine", lambda config, chosen: asked.append((config, chosen))
    )

    engine = here.engine({"neuron_config": PACKED})

    assert asked == [(engine, "acme.packed:LlamaForCausalLM")]


def test_no_option_of_a_factory_is_the_drafts() -> None:
    """It would never be given one."""
    with pytest.raises(TypeError, match="draft_tree"):
        type("Odd", (ModelFactory,), {"known_options": ("draft_tree",)})


def test_choosing_in_threads() -> None:
    """Watching for imports of vLLM leaves nothing behind, and refuses nothing to other threads."""
    import builtins
    import threading

    before = builtins.__import__

    def choose_often() -> None:
        for _ in range(300):
            with without_heavy_imports():
                importlib.import_module("json")

    threads = [threading.Thread(target=choose_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builtins.__import__ is before
