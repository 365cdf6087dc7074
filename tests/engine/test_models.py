"""Model factories on a real engine: what was chosen is in effect, and computes what it should."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.models.platform import cpu_has

from .checkpoints import PROMPTS, GptOssCheckpoints, write_gpt_oss
from .conftest import Outcome, Vllm, write_tokenizer
from .llama_checkpoints import (
    linear_bytes,
    write_adapter,
    write_draft,
    write_llama,
    write_quantized_llama,
)

STOCK = {"VLLM_GRAFT_PATCHES": "-models/*"}
LLAMA_PROMPTS = [[1, 5, 9, 13], [1, 77, 300, 41, 6, 250, 8], [1, 200]]
IN_MAIN = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # a process less to start
# The platform that packs by default; on a CPU with AMX, to be asked is to have vLLM's backend.
PACKED = {"VLLM_GRAFT_PLATFORM_TARGET": "trn3"}
BF16 = 2**-8
"""The relative accuracy of one rounding to bf16, of which a token's way has many."""

PROCESSES = {"MainProcess", "EngineCore", "VllmWorker-0"}
CHOSE = "GptOssForCausalLM: vllm_graft.models.gpt_oss.factory:GptOssForCausalLM chose "


def asking_for(quantization: str) -> dict[str, Any]:
    """Return the option of an engine that asks factories for a quantization."""
    return {"additional_config": {"neuron_config": {"quantization": quantization}}}


MXFP4 = asking_for("mxfp4")


def selections(outcome: Outcome) -> dict[str, set[str]]:
    """Return what each process traced of its choices."""
    found: dict[str, set[str]] = {}
    for line in outcome.trace:
        if line["event"] == "select_model":
            found.setdefault(line["process"], set()).add(line["detail"])
    return found


def tokens(outcome: Outcome, key: str = "base") -> list[list[int]]:
    """Return the tokens that an engine gave for each prompt."""
    assert outcome.code == 0, outcome.log[-6000:]
    return [answer["tokens"] for answer in outcome.answer[key]]


def differences(first: Outcome, second: Outcome, key: str = "base") -> list[float]:
    """Return for each step how far the first engine's logits are from the second's, relatively.

    That is the norm of the difference over the norm of the logits, which logarithms of
    probabilities have but for a constant.
    """
    return [
        math.dist(one, other) / math.dist(other, [sum(other) / len(other)] * len(other))
        for answers in zip(first.answer[key], second.answer[key], strict=True)
        for one, other in zip(*(answer["logprobs"] for answer in answers), strict=True)
    ]


def agree_to_bf16(first: Outcome, second: Outcome) -> bool:
    """Tell whether logits agree as those of one model do that rounds to bf16 in another order.

    Compiled and eager, `model_mxfp4` differs from itself by 0.016 in the median of the steps, and
    by 0.045 at most.
    """
    found = differences(first, second)
    return statistics.median(found) < 5 * BF16 and max(found) < 16 * BF16


@pytest.fixture(scope="module")
def gpt_oss(tmp_path_factory: pytest.TempPathFactory) -> GptOssCheckpoints:
    """A tiny GPT-OSS in MXFP4, and the same weights in BF16."""
    return write_gpt_oss(tmp_path_factory.mktemp("gpt-oss"))


@pytest.fixture(scope="module")
def gpt_oss_stock(vllm: Vllm, gpt_oss: GptOssCheckpoints) -> Outcome:
    """Stock vLLM on the BF16 checkpoint."""
    return vllm.ask_model("gpt-oss-stock", gpt_oss.bf16, STOCK | IN_MAIN, prompts=PROMPTS)


@pytest.fixture(scope="module")
def gpt_oss_bf16(vllm: Vllm, gpt_oss: GptOssCheckpoints) -> Outcome:
    """The MXFP4 checkpoint with its experts dequantized, the default of CPUs without AMX."""
    options = {} if not cpu_has("amx_tile") else asking_for("bf16")
    return vllm.ask_model("gpt-oss-bf16", gpt_oss.mxfp4, IN_MAIN, prompts=PROMPTS, **options)


@pytest.fixture(scope="module")
def gpt_oss_mxfp4(vllm: Vllm, gpt_oss: GptOssCheckpoints) -> Outcome:
    """The MXFP4 checkpoint with packed experts, over two workers."""
    return vllm.ask_model(
        "gpt-oss-mxfp4",
        gpt_oss.mxfp4,
        {"VLLM_CPU_OMP_THREADS_BIND": "0|1", **PACKED},
        prompts=PROMPTS,
        tensor_parallel_size=2,
    )


@pytest.mark.once
@pytest.mark.skipif(cpu_has("amx_tile"), reason="vLLM has a backend for this CPU")
def test_stock_vllm_refuses_the_checkpoint(vllm: Vllm, gpt_oss: GptOssCheckpoints) -> None:
    """Without a factory vLLM has no implementation for MXFP4 experts on the CPU."""
    outcome = vllm.ask_model("gpt-oss-refused", gpt_oss.mxfp4, STOCK | IN_MAIN, prompts=PROMPTS)
    assert outcome.code != 0
    assert "No MXFP4 MoE backend supports the deployment configuration" in outcome.log


@pytest.mark.once
def test_dequantized_experts_give_the_tokens_of_the_bf16_checkpoint(
    gpt_oss_stock: Outcome, gpt_oss_bf16: Outcome
) -> None:
    """`model_bf16` computes what vLLM computes from the dequantized weights."""
    assert tokens(gpt_oss_bf16) == tokens(gpt_oss_stock)
    assert max(differences(gpt_oss_bf16, gpt_oss_stock)) < 1e-3


def test_packed_experts_give_the_tokens_of_the_bf16_checkpoint(
    gpt_oss_stock: Outcome, gpt_oss_mxfp4: Outcome
) -> None:
    """`model_mxfp4` does too, to the accuracy of bf16, over two workers, and packed in memory."""
    assert tokens(gpt_oss_mxfp4) == tokens(gpt_oss_stock)
    assert agree_to_bf16(gpt_oss_mxfp4, gpt_oss_stock)
    packed = sum(each["experts"] for each in gpt_oss_mxfp4.answer["bytes"])
    assert packed < 0.29 * gpt_oss_stock.answer["bytes"][0]["experts"]


@pytest.mark.once
def test_packed_experts_in_a_compiled_model(
    vllm: Vllm, gpt_oss: GptOssCheckpoints, gpt_oss_stock: Outcome
) -> None:
    """The experts are one operator in the compiled graph."""
    compiled = vllm.ask_model(
        "gpt-oss-compiled",
        gpt_oss.mxfp4,
        IN_MAIN | PACKED,
        prompts=PROMPTS,
        enforce_eager=False,
    )
    assert tokens(compiled) == tokens(gpt_oss_stock)
    assert agree_to_bf16(compiled, gpt_oss_stock)


@pytest.mark.once
def test_the_choice_of_dequantized_experts_is_traced(gpt_oss_bf16: Outcome) -> None:
    """The implementation is the one that this CPU has, in the one process that there is."""
    (choice,) = selections(gpt_oss_bf16)["MainProcess"]
    assert choice.startswith(
        f"{CHOSE}vllm_graft.models.gpt_oss.model_bf16:GptOssForCausalLM because "
    )


def test_every_process_chooses_and_says_why(gpt_oss_mxfp4: Outcome) -> None:
    """Main, EngineCore and both workers trace one and the same choice, with its reason."""
    assert gpt_oss_mxfp4.code == 0
    found = selections(gpt_oss_mxfp4)
    processes = {*PROCESSES, "VllmWorker-1"}
    assert set(found) == processes
    ((choice,),) = {tuple(choices) for choices in found.values()}
    assert choice.startswith(
        f"{CHOSE}vllm_graft.models.gpt_oss.model_mxfp4:GptOssForCausalLM because "
    )
    registered = [line for line in gpt_oss_mxfp4.trace if line["event"] == "register_model"]
    assert {line["process"] for line in registered} >= processes
    assert {"models/gpt_oss", "models/llama3"} <= {line.get("patch") for line in registered}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Llama of eight layers, its quantized twin, an adapter and a draft."""
    folder = tmp_path_factory.mktemp("llama")
    write_llama(folder / "plain", num_hidden_layers=8)
    write_quantized_llama(folder / "quantized", num_hidden_layers=8)
    write_adapter(folder / "adapter", num_hidden_layers=8)
    write_draft(folder / "draft")
    return folder


def with_adapter(folder: Path) -> dict[str, Any]:
    """Return the options of an engine that is asked with and without an adapter."""
    lora = {"enable_lora": True, "max_lora_rank": 8, "lora": str(folder / "adapter")}
    return {"prompts": LLAMA_PROMPTS, "dtype": "float32", **lora}


@pytest.fixture(scope="module")
def llama_stock(vllm: Vllm, folder: Path) -> Outcome:
    """Stock vLLM on weights that the tests' own reference quantized and dequantized."""
    return vllm.ask_model(
        "llama-stock", folder / "quantized", STOCK | IN_MAIN, **with_adapter(folder)
    )


@pytest.fixture(scope="module")
def llama_mxfp4(vllm: Vllm, folder: Path) -> Outcome:
    """The plain weights, quantized while they are loaded, over two workers."""
    return vllm.ask_model(
        "llama-mxfp4",
        folder / "plain",
        {"VLLM_CPU_OMP_THREADS_BIND": "0|1"},
        tensor_parallel_size=2,
        **with_adapter(folder),
        **MXFP4,
    )


@pytest.mark.parametrize("key", ["base", "lora"])
def test_a_quantized_llama_computes_what_its_weights_say(
    llama_stock: Outcome, llama_mxfp4: Outcome, key: str
) -> None:
    """With and without an adapter, the logits are those of the reference's weights."""
    assert tokens(llama_mxfp4, key) == tokens(llama_stock, key)
    assert max(differences(llama_mxfp4, llama_stock, key)) < 1e-5


def test_the_adapter_is_in_effect(llama_mxfp4: Outcome) -> None:
    """An adapter changes the tokens of the quantized model."""
    assert tokens(llama_mxfp4, "lora") != tokens(llama_mxfp4)


def test_quantized_linear_layers_are_packed_in_memory(llama_mxfp4: Outcome) -> None:
    """They take at most 0.28 of what they would in BF16."""
    assert llama_mxfp4.code == 0
    found = sum(each["linear"] for each in llama_mxfp4.answer["bytes"])
    assert found <= 0.28 * linear_bytes(num_hidden_layers=8)


@pytest.mark.once
def test_speculative_decoding_with_a_draft_of_its_own_factory(
    vllm: Vllm, folder: Path, llama_mxfp4: Outcome
) -> None:
    """Eagle3 gives the target's tokens; the draft is chosen by its own factory, in BF16."""
    draft = {"method": "eagle3", "model": str(folder / "draft"), "num_speculative_tokens": 2}
    outcome = vllm.ask_model(
        "eagle3",
        folder / "plain",
        IN_MAIN,
        prompts=LLAMA_PROMPTS,
        dtype="float32",
        speculative_config=draft,
        **MXFP4,
    )
    assert tokens(outcome) == tokens(llama_mxfp4)
    chosen = selections(outcome)["MainProcess"]
    assert {choice.split(" ", 1)[0] for choice in chosen} == {
        "LlamaForCausalLM:",
        "Eagle3LlamaForCausalLM:",
    }
    assert any("eagle3:Eagle3LlamaForCausalLM chose vllm:upstream" in each for each in chosen)


@pytest.mark.once
def test_a_quantized_llama_embeds(vllm: Vllm, folder: Path) -> None:
    """vLLM converts the implementation, not the factory, into an embedding model."""
    options = {"runner": "pooling", "convert": "embed", "embed": True, "dtype": "float32"}
    options["skip_tokenizer_init"] = False  # which vLLM's pooling needs
    for model in ("plain", "quantized"):
        write_tokenizer(folder / model)
    stock, packed = (
        vllm.ask_model(
            name, folder / model, env | IN_MAIN, prompts=LLAMA_PROMPTS, **options, **more
        )
        for name, model, env, more in (
            ("embed-stock", "quantized", STOCK, {}),
            ("embed-mxfp4", "plain", {}, MXFP4),
        )
    )
    assert packed.code == 0, packed.log[-6000:]
    for one, other in zip(stock.answer["embeddings"], packed.answer["embeddings"], strict=True):
        assert other == pytest.approx(one, abs=1e-5)
