"""`vllm-graft status --model`: which implementation a model would have, without an engine.

vLLM is a fake (fake_vllm.py) whose sources are read; the command imports none.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from vllm_graft.models import factory
from vllm_graft.models.platform import VARIABLE

Install = Callable[..., None]
Status = Callable[..., Result]

STATUS = importlib.import_module("vllm_graft.cli.status")
OWN = "vllm.model_executor.models"
LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128}
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "quantization_config": {"quant_method": "mxfp4"},
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_local_experts": 8,
    "num_experts_per_tok": 4,
}
MXFP4 = json.dumps({"neuron_config": {"quantization": "mxfp4"}})


@pytest.fixture(autouse=True)
def vllm(stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a vLLM, which is not imported, and only what a test installs."""
    monkeypatch.setattr(sys, "path", [item for item in sys.path if "-packages" not in item])
    stand_in("0.32.0")
    # The implementations are asked for where the tables are tested.
    monkeypatch.setattr(factory, "exists", lambda _: True)
    monkeypatch.setenv("VLLM_VERSION", "0.32.0")
    monkeypatch.setenv(VARIABLE, "cpu")
    monkeypatch.delenv("VLLM_GRAFT_PATCHES", raising=False)


@pytest.fixture
def status(tmp_path: Path) -> Status:
    """Return a function that asks about a model whose `config.json` it writes."""

    def status(config: Any, *arguments: str, folder: bool = False) -> Result:
        file = tmp_path / "config.json"
        file.write_text(config if isinstance(config, str) else json.dumps(config))
        path = str(tmp_path if folder else file)
        return CliRunner().invoke(STATUS.status, ["--model", path, *arguments])

    return status


def explained(result: Result) -> dict[str, Any]:
    """Return what JSON says about the one architecture, without what is empty."""
    (found,) = json.loads(result.output)["models"]
    return {key: value for key, value in found.items() if value}


HOME = "vllm_graft.models"


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize(
    ("config", "platform", "arguments", "implementation", "why"),
    [
        (LLAMA, "cpu", [], f"{OWN}.llama:LlamaForCausalLM", "bf16 is the default"),
        (
            LLAMA,
            "cpu",
            ["--additional-config", MXFP4],
            f"{HOME}.llama3.model_mxfp4:LlamaForCausalLM",
            "the user asks for mxfp4 (Llama 3)",
        ),
        (
            GPT_OSS,
            "trn3",
            [],
            f"{HOME}.gpt_oss.model_mxfp4:GptOssForCausalLM",
            "trn3 keeps MXFP4 by default",
        ),
        (
            GPT_OSS,
            "cuda-sm90",
            ["--additional-config", MXFP4],
            f"{OWN}.gpt_oss:GptOssForCausalLM",
            "the user asks for mxfp4, and vLLM has a backend for it",
        ),
    ],
)
def test_a_choice_is_explained(
    status: Status,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
    platform: str,
    arguments: list[str],
    implementation: str,
    why: str,
    folder: bool,
) -> None:
    """Platform, factory, implementation and reason; vLLM's own by its name, and not imported."""
    monkeypatch.setenv(VARIABLE, platform)
    architecture = config["architectures"][0]
    package = {"LlamaForCausalLM": "llama3", "GptOssForCausalLM": "gpt_oss"}[architecture]

    result = status(config, "--json", *arguments, folder=folder)

    assert result.exit_code == 0
    assert explained(result) == {
        "architecture": architecture,
        "platform": platform,
        "factory": f"{HOME}.{package}.factory:{architecture}",
        "implementation": implementation,
        "why": why,
    }
    text = status(config, *arguments, folder=folder)
    assert text.exit_code == 0
    lines = [line.split(maxsplit=1) for line in text.output.splitlines()]
    assert lines[0] == [architecture]
    assert lines[1:] == [list(each) for each in list(explained(result).items())[1:]]
    assert "vllm" not in sys.modules


@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [
        (
            LLAMA,
            ["--additional-config", '{"neuron_config": {"quantization": "fp4"}}'],
            ["quantization 'fp4' is not supported on 'cpu'", "Valid there: bf16, mxfp4."],
        ),
        (
            LLAMA,
            ["--additional-config", '{"neuron_config": {"quant": "mxfp4"}}'],
            ["has 'quant', which this model does not know", "It knows quantization."],
        ),
        (
            LLAMA,
            ["--additional-config", '{"neuron_config": "mxfp4"}'],
            ["neuron_config is 'mxfp4'. Give a mapping"],
        ),
        ({**GPT_OSS, "hidden_size": 33}, [], ["hidden_size is 33, and MXFP4 needs a multiple"]),
        ({"architectures": ["NobodysForCausalLM"]}, [], ["no implementation of 'NobodysForC"]),
    ],
)
def test_the_error_that_vllm_would_stop_with(
    status: Status, config: dict[str, Any], arguments: list[str], words: list[str]
) -> None:
    """It is shown, and the exit code says that there is one."""
    result = status(config, "--json", *arguments)

    assert result.exit_code == 1
    found = explained(result)
    assert "implementation" not in found
    for word in words:
        assert word in found["error"]
    text = status(config, *arguments)
    assert text.exit_code == 1
    assert found["error"] in text.output.replace("\n", "")


def test_a_platform_that_is_no_word(status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is at fault, and is named."""
    monkeypatch.setenv(VARIABLE, "no word")

    result = status(LLAMA, "--json")
    assert result.exit_code == 1
    assert "VLLM_GRAFT_PLATFORM_TARGET is 'no word'" in explained(result)["error"]


@pytest.mark.parametrize(
    ("patches", "version", "config", "why"),
    [
        ("-models/llama3", "0.32.0", LLAMA, "no factory takes part"),
        ("models/gpt_oss", "0.32.0", LLAMA, "no factory takes part"),
        ("", "0.27.0", LLAMA, "no factory takes part"),
        ("", "0.32.0", {"architectures": ["OPTForCausalLM"]}, "no factory takes part"),
    ],
)
def test_a_model_without_a_factory(
    status: Status,
    monkeypatch: pytest.MonkeyPatch,
    patches: str,
    version: str,
    config: dict[str, Any],
    why: str,
) -> None:
    """There is none, or it is not selected, or not for this vLLM: it is vLLM's own."""
    monkeypatch.setenv("VLLM_GRAFT_PATCHES", patches)
    monkeypatch.setenv("VLLM_VERSION", version)
    name = config["architectures"][0]
    module = {"LlamaForCausalLM": "llama", "OPTForCausalLM": "opt"}[name]

    result = status(config, "--json")
    assert (result.exit_code, explained(result)) == (
        0,
        {"architecture": name, "implementation": f"{OWN}.{module}:{name}", "why": why},
    )
    asked = explained(status(config, "--json", "--additional-config", MXFP4))
    assert asked["why"] == f"{why}, and nothing reads the neuron_config"


def test_all_architectures_of_a_model(status: Status) -> None:
    """vLLM takes the first that it can; each is explained."""
    both = {**LLAMA, "architectures": ["OPTForCausalLM", "LlamaForCausalLM"]}

    result = status(both, "--json")
    found = json.loads(result.output)["models"]
    assert [each["architecture"] for each in found] == both["architectures"]
    assert [bool(each["factory"]) for each in found] == [False, True]


def test_the_factory_of_a_distribution(status: Status, install: Install) -> None:
    """It is found by its entry point, and shown in place of the built-in one."""
    install("acme", "1.0", models={"LlamaForCausalLM": "acme.factory:LlamaForCausalLM"})
    asked = json.dumps({"neuron_config": {"quantization": "packed"}})

    found = explained(status(LLAMA, "--json", "--additional-config", asked))
    assert found["factory"] == "acme.factory:LlamaForCausalLM"
    assert found["implementation"] == "acme.packed:LlamaForCausalLM"
    assert "acme.packed" not in sys.modules


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", ["config.json cannot be read: "]),
        ("[]", ["config.json names no architectures"]),
        ("{}", ["config.json names no architectures"]),
        ('{"architectures": []}', ["has architectures=[], not a list of names"]),
        ('{"architectures": "Llama"}', ["has architectures='Llama', not a list of names"]),
        ('{"architectures": null}', ["has architectures=None, not a list of names"]),
    ],
)
def test_a_file_that_is_no_configuration(status: Status, config: str, words: list[str]) -> None:
    """The error names the file."""
    result = status(config)

    assert result.exit_code == 1
    for word in words:
        assert word in result.output.replace("\n", "")


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    """It may be that of another file."""
    result = CliRunner().invoke(STATUS.status, ["--model", str(tmp_path)])

    assert result.exit_code == 1
    assert "config.json cannot be read: " in result.output


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--model", "/no/such/model"], "does not exist"),
        (["--additional-config", "{}"], "--additional-config and --draft are for --model"),
    ],
)
def test_wrong_usage(arguments: list[str], word: str) -> None:
    """Exit code 2, as everywhere."""
    result = CliRunner().invoke(STATUS.status, arguments)

    assert result.exit_code == 2
    assert word in result.output


def test_an_additional_config_that_is_no_json(status: Status) -> None:
    """As vLLM would refuse it."""
    result = status(LLAMA, "--additional-config", "{neuron_config}")

    assert result.exit_code == 2
    assert "--additional-config" in result.output
