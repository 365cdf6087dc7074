"""A package of somebody else's that brings a model: `tests/plugins/acme_model`, on a real vLLM."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from vllm_graft.demo.model import CONFIG

from .conftest import Outcome, Vllm
from .test_models import LLAMA_PROMPTS, PROCESSES, selections, tokens

pytestmark = pytest.mark.once

PACKAGE = "acme_model"
ACME, CUSTOM, OTHER = "AcmeForCausalLM", "MyCustomModelForCausalLM", "MyOtherModelForCausalLM"
FAULTY = "FaultyForCausalLM"
FACTORY = """
from vllm_graft.models import ModelFactory

IMPLEMENTATIONS = {
    "nonsense": None,
    "missing": "faulty_model:NothingForCausalLM",
    "broken": "faulty_model:FaultyForCausalLM",
}


class FaultyForCausalLM(ModelFactory):
    known_options = ("fault",)

    @classmethod
    def select(cls, hf_config, neuron_config):
        return IMPLEMENTATIONS[cls.options(neuron_config)["fault"]]
"""
MODEL = "import no_such_kernels\n\n\nclass FaultyForCausalLM: ...\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each of the packages' architectures."""
    folder = tmp_path_factory.mktemp("acme-models")
    for architecture in (ACME, CUSTOM, OTHER, FAULTY):
        (folder / architecture).mkdir()
        config = json.dumps({**CONFIG, "architectures": [architecture]})
        (folder / architecture / "config.json").write_text(config)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed distribution whose factory goes wrong in the way it is asked."""
    site = tmp_path_factory.mktemp("faulty")
    (site / "faulty.py").write_text(FACTORY)
    (site / "faulty_model.py").write_text(MODEL)
    info = site / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[vllm_graft.models]\n{FAULTY} = faulty:{FAULTY}\n")
    return site


@pytest.fixture(scope="module")
def refused(vllm: Vllm, faulty: Path, models: dict[str, Path]) -> Outcome:
    """What vLLM says of bad input, each in turn in one process."""
    faults = [{"fault": fault} for fault in ("raises", "nonsense", "missing", "broken")]
    return vllm.configure(
        "refused",
        *((models[FAULTY], fault) for fault in faults),
        (models[ACME], {"voise": "loud"}),
        (models[ACME], {"quantization": "mxfp4"}),
        PYTHONPATH=os.pathsep.join((str(faulty), vllm.acme_model)),
    )


@pytest.mark.parametrize(
    ("case", "error", "words"),
    [
        (0, "FactoryError", "raised KeyError: 'raises'"),
        (1, "FactoryError", "faulty:FaultyForCausalLM.select returned None"),
        (2, "FactoryError", "chose 'faulty_model:NothingForCausalLM', and there is no such"),
        (3, "FactoryError", "ModuleNotFoundError: No module named 'no_such_kernels'"),
        (4, "UnsupportedConfigError", "It knows quantization, voice."),
        (5, "UnsupportedConfigError", "'mxfp4' is not supported on 'cpu'. Valid there: bf16."),
    ],
)
def test_bad_input_is_told_in_the_main_process(
    refused: Outcome, case: int, error: str, words: str
) -> None:
    """The error says what is wrong, before there is an engine; never "failed to be inspected"."""
    assert refused.code == 0, refused.log[-3000:]
    found = refused.answer["configured"][case]
    assert found["error"] == error
    assert words in found["message"]
    assert "failed to be inspected" not in found["message"]
    assert refused.answer["children"] == []


@pytest.fixture(scope="module")
def flags(vllm: Vllm, models: dict[str, Path]) -> Outcome:
    """Both implementations, in turns in one process, and those that are registered directly."""
    return vllm.configure(
        "acme-flags",
        (models[ACME], {}),
        (models[ACME], {"voice": "loud"}),
        (models[ACME], {"voice": "plain"}),
        (models[OTHER], {"voice": "loud"}),
    )


def test_flags_and_class_are_those_of_the_implementation(flags: Outcome) -> None:
    """Asked again, or with another option, vLLM has what the factory chooses then."""
    assert flags.code == 0, flags.log[-3000:]
    assert [(each["class"], each["pooling"]) for each in flags.answer["configured"]] == [
        ("acme_model.model_plain:AcmeForCausalLM", "LAST"),
        ("acme_model.model_loud:AcmeForCausalLM", "MEAN"),
        ("acme_model.model_plain:AcmeForCausalLM", "LAST"),
        ("acme_model.direct_loud:MyOtherModelForCausalLM", "MEAN"),
    ]


def test_an_edit_is_not_answered_from_a_cache(
    vllm: Vllm, models: dict[str, Path], flags: Outcome, tmp_path: Path
) -> None:
    """What the implementation imports from its package is edited, in the same cache folder."""
    assert flags.code == 0
    shutil.copytree(vllm.site / "acme_model", tmp_path, dirs_exist_ok=True)
    common = tmp_path / PACKAGE / "common.py"
    common.write_text(common.read_text().replace('POOLING = "MEAN"', 'POOLING = "CLS"'))
    edited = vllm.configure(
        "acme-edited", (models[ACME], {"voice": "loud"}), PYTHONPATH=str(tmp_path)
    )
    assert edited.code == 0, edited.log[-3000:]
    (now,), before = edited.answer["configured"], flags.answer["configured"][1]
    assert (before["pooling"], now["pooling"]) == ("MEAN", "CLS")
    assert before["class"] == now["class"]
    assert before["mark"] != now["mark"]


def test_status_explains_a_choice(vllm: Vllm, models: dict[str, Path], tmp_path: Path) -> None:
    """The command asks the factory as vLLM would, on the platform that vLLM finds here."""
    outcome = vllm.command(
        [str(Path(sys.executable).parent / "vllm-graft"), "status", "--model", str(models[ACME])],
        tmp_path,
        {"PYTHONPATH": vllm.acme_model},
    )
    assert outcome.code == 0, outcome.log
    for words in (
        "platform        cpu",
        "factory         acme_model.factory:AcmeForCausalLM",
        "implementation  acme_model.model_plain:AcmeForCausalLM",
        "why             cpu has no voice of its own",
    ):
        assert words in outcome.log


def test_a_model_that_is_registered_directly_runs(vllm: Vllm, models: dict[str, Path]) -> None:
    """A lazy string that names a factory, given to `ModelRegistry.register_model` by a plugin."""
    outcome = vllm.ask_model(
        "acme-custom",
        models[CUSTOM],
        {},
        prompts=LLAMA_PROMPTS,
        load_format="dummy",
        dtype="float32",
        additional_config={"neuron_config": {"voice": "loud"}},
    )
    assert {token for answer in tokens(outcome) for token in answer} == {58}
    found = selections(outcome)
    assert set(found) == PROCESSES
    assert {choice for choices in found.values() for choice in choices} == {
        f"{CUSTOM}: acme_model.direct:{CUSTOM} chose acme_model.direct_loud:{CUSTOM} because the "
        "user asks for loud"
    }
