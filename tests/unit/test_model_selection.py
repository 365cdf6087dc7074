"""What the built-in factories choose: platform, wish of the user and checkpoint, as tables.

Whether the implementations exist that they name is asked once, at the end: the tables are about
the choice.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_graft.errors import UnsupportedConfigError
from vllm_graft.models import ModelFactory, factory
from vllm_graft.models import platform as model_platform
from vllm_graft.models.gpt_oss import factory as gpt_oss
from vllm_graft.models.gpt_oss.factory import GptOssForCausalLM
from vllm_graft.models.llama3 import factory as llama3
from vllm_graft.models.llama3.eagle3 import Eagle3LlamaForCausalLM
from vllm_graft.models.llama3.factory import LlamaForCausalLM
from vllm_graft.models.platform import VARIABLE
from vllm_graft.sources import exists
from vllm_graft.target import Target

PLATFORMS = (
    *("cpu", "cuda-sm90", "rocm-gfx942", "xpu", "trn2", "trn3", "npu-ascend910b3"),
    *("cuda", "rocm", "neuron", "tpu"),  # whose kind is not known
)
U, BF16, MXFP4 = "vllm:upstream", gpt_oss.BF16, gpt_oss.MXFP4
LLAMA_MXFP4 = llama3.MXFP4


@pytest.fixture(autouse=True)
def implementations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take it that every implementation exists; return what stands for the CPU's description."""
    monkeypatch.setattr(factory, "exists", lambda _: True)
    cpu = tmp_path / "cpuinfo"
    cpu.write_text("processor : 0\nflags : fpu avx2 avx512f amx\n")
    monkeypatch.setattr(model_platform, "_CPU", cpu)
    return cpu


def test_gpt_oss_on_a_cpu_with_amx(monkeypatch: pytest.MonkeyPatch, implementations: Path) -> None:
    """vLLM has a backend for it, which is taken as on a GPU; BF16 is there for the asking."""
    monkeypatch.setenv(VARIABLE, "cpu")
    implementations.write_text("processor : 0\nflags : fpu amx_bf16 amx_tile\nbugs :\n")

    assert [ask(GptOssForCausalLM, oss(), asked) for asked in WISHES] == [U, U, BF16, BOTH]


def ask(cls: type[ModelFactory], hf_config: Any, asked: str | None, **other: Any) -> Any:
    """Return what a factory chooses, or "valid: …" as its error has it for what is not there."""
    try:
        return cls.choose(hf_config, {"quantization": asked, **other})
    except UnsupportedConfigError as error:
        head, _, valid = str(error).partition(". Valid there: ")
        assert head.startswith(f"{cls.__name__}: quantization {asked!r} is not supported on ")
        return "valid: " + valid


def oss(checkpoint: str | None = "mxfp4", **changes: Any) -> Any:
    """Return the configuration of a GPT-OSS."""
    given = {
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        **changes,
    }
    if checkpoint is not None:
        given["quantization_config"] = {"quant_method": checkpoint}
    return SimpleNamespace(**given)


BOTH, ONE = "valid: bf16, mxfp4.", "valid: bf16."
HAS_BACKEND = dict.fromkeys(("cuda-sm90", "rocm-gfx942", "xpu", "cuda", "rocm"), (U, U, BF16, BOTH))
GPT_OSS = {  # by no wish, mxfp4, bf16, fp8
    **HAS_BACKEND,
    "cpu": (BF16, MXFP4, BF16, BOTH),
    "trn3": (MXFP4, MXFP4, BF16, BOTH),
    **dict.fromkeys(("trn2", "npu-ascend910b3", "neuron", "tpu"), (BF16, ONE, BF16, ONE)),
}
WISHES = (None, "mxfp4", "bf16", "fp8")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_gpt_oss_from_a_checkpoint_in_mxfp4(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """The user first, then the platform, then BF16; packed is vLLM's own where it has a backend."""
    monkeypatch.setenv(VARIABLE, platform)

    assert tuple(ask(GptOssForCausalLM, oss(), asked) for asked in WISHES) == GPT_OSS[platform]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_gpt_oss_from_another_checkpoint(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """It is as it is, on every platform; what it is not cannot be asked for."""
    monkeypatch.setenv(VARIABLE, platform)
    none = "valid: none."

    for checkpoint, expected in ((None, (U, ONE, U, ONE)), ("fp8", (U, none, none, none))):
        assert tuple(ask(GptOssForCausalLM, oss(checkpoint), asked) for asked in WISHES) == expected


@pytest.mark.parametrize(
    ("platform", "asked", "why"),
    [
        ("cpu", None, "cpu has BF16 by default"),
        ("cpu", "mxfp4", "the user asks for mxfp4"),
        ("cpu", "bf16", "the user asks for bf16"),
        ("cuda-sm90", "mxfp4", "the user asks for mxfp4, and vLLM has a backend for it"),
        ("cuda-sm90", None, "cuda-sm90 keeps MXFP4 by default, and vLLM has a backend for it"),
        ("trn3", None, "trn3 keeps MXFP4 by default"),
        ("trn2", None, "trn2 has BF16 by default"),
    ],
)
def test_gpt_oss_says_why(
    monkeypatch: pytest.MonkeyPatch, platform: str, asked: str | None, why: str
) -> None:
    """Whose wish it was, or which platform's."""
    monkeypatch.setenv(VARIABLE, platform)

    assert ask(GptOssForCausalLM, oss(), asked).why == why
    assert ask(GptOssForCausalLM, oss(None), None).why == "the checkpoint has no MXFP4 experts"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_size": 2881}, "hidden_size is 2881, and MXFP4 needs a multiple of 32"),
        ({"intermediate_size": 16}, "intermediate_size is 16, and MXFP4 needs a multiple of 32"),
        ({"hidden_size": None}, "hidden_size is None, and MXFP4 needs a multiple of 32"),
        ({"num_experts_per_tok": 33}, "a token uses 33 experts, and the model has 32"),
        ({"num_experts_per_tok": 0}, "a token uses 0 experts, and the model has 32"),
    ],
)
def test_gpt_oss_that_nothing_can_run(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], problem: str
) -> None:
    """The error says what is wrong with the checkpoint, and on which platform it was asked for."""
    monkeypatch.setenv(VARIABLE, "trn2")

    with pytest.raises(UnsupportedConfigError) as caught:
        GptOssForCausalLM.choose(oss(**changes), None)
    assert str(caught.value) == f"GptOssForCausalLM on 'trn2': {problem}."


def test_gpt_oss_in_bf16_has_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are of no concern where nothing is packed."""
    monkeypatch.setenv(VARIABLE, "cpu")

    assert GptOssForCausalLM.choose(oss(None, hidden_size=7, intermediate_size=7), None) == U


@pytest.mark.parametrize("name", ["mxfp4", "MXFP4", "gpt_oss_mxfp4"])
def test_gpt_oss_by_all_names_of_its_format(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """vLLM renames it between the configuration and the model."""
    monkeypatch.setenv(VARIABLE, "cpu")

    assert ask(GptOssForCausalLM, oss(name), None) == BF16


def llama(**changes: Any) -> Any:
    """Return the configuration of a Llama."""
    return SimpleNamespace(**{"hidden_size": 4096, "intermediate_size": 14336, **changes})


FACTORS = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_llama(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """BF16 is the default and vLLM's own; MXFP4 is asked for, where it can be had."""
    monkeypatch.setenv(VARIABLE, platform)
    packs = platform in ("cpu", "trn3")
    valid = BOTH if packs else ONE
    mxfp4 = LLAMA_MXFP4 if packs else valid

    assert tuple(ask(LlamaForCausalLM, llama(), asked) for asked in WISHES) == (U, mxfp4, U, valid)


@pytest.mark.parametrize("asked", ["bfloat16", "none", "BF16", "MXFP4"])
def test_llama_by_other_spellings(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """vLLM's name of the type, and capitals; the error has the one name that the layer uses."""
    monkeypatch.setenv(VARIABLE, "cpu")
    expected = LLAMA_MXFP4 if asked == "MXFP4" else U
    assert ask(LlamaForCausalLM, llama(), asked) == expected

    monkeypatch.setenv(VARIABLE, "xpu")
    if asked == "MXFP4":
        with pytest.raises(UnsupportedConfigError, match="'mxfp4' is not supported on 'xpu'"):
            LlamaForCausalLM.choose(llama(), {"quantization": asked})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "the user asks for mxfp4 (Llama 3)"),
        ({"rope_scaling": None}, "the user asks for mxfp4 (Llama 3)"),
        ({"rope_parameters": {"rope_theta": 5e5}}, "the user asks for mxfp4 (Llama 3)"),
        ({"rope_parameters": {"rope_type": "default"}}, "the user asks for mxfp4 (Llama 3)"),
        ({"rope_scaling": {"rope_type": "llama3", **FACTORS}}, "the user asks for mxfp4 (Llama 3"),
        ({"rope_parameters": {"rope_type": "llama3", **FACTORS}}, "the user asks for mxfp4 (Llam"),
        ({"rope_scaling": {"type": "llama3", **FACTORS}}, "the user asks for mxfp4 (Llama 3.1)"),
    ],
)
def test_llama_3_is_told_from_3_1_by_its_rope(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    """As transformers 4 and 5, and old checkpoints, have it."""
    monkeypatch.setenv(VARIABLE, "cpu")
    chosen: Any = LlamaForCausalLM.choose(llama(**changes), {"quantization": "mxfp4"})

    is_3_1 = "llama3" in str(changes)
    assert llama3.is_llama_3_1(llama(**changes)) is is_3_1
    assert chosen.why == f"the user asks for mxfp4 ({'Llama 3.1' if is_3_1 else 'Llama 3'})"
    assert chosen.why.startswith(why)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"quantization_config": {"quant_method": "fp8"}},
            "the checkpoint is quantized already (fp8)",
        ),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            "its RoPE scaling is 'yarn', which is neither Llama 3's nor Llama 3.1's",
        ),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}},
            "its RoPE scaling is that of Llama 3.1, without high_freq_factor, "
            "original_max_position_embeddings",
        ),
        ({"hidden_size": 100}, "hidden_size is 100, and MXFP4 needs a multiple of 32"),
        ({"intermediate_size": 33}, "intermediate_size is 33, and MXFP4 needs a multiple of 32"),
    ],
)
def test_llama_that_cannot_be_packed(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], problem: str
) -> None:
    """In BF16 it is none of the layer's business."""
    monkeypatch.setenv(VARIABLE, "trn3")

    with pytest.raises(UnsupportedConfigError) as caught:
        LlamaForCausalLM.choose(llama(**changes), {"quantization": "mxfp4"})
    assert str(caught.value) == (
        f"LlamaForCausalLM on 'trn3': {problem}. Valid for this checkpoint: bf16."
    )
    for asked in (None, "bf16"):
        assert LlamaForCausalLM.choose(llama(**changes), {"quantization": asked}) == U


def test_llama_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wish and the default are told apart, though both are vLLM's own."""
    monkeypatch.setenv(VARIABLE, "cpu")

    assert ask(LlamaForCausalLM, llama(), None).why == "bf16 is the default"
    assert ask(LlamaForCausalLM, llama(), "bf16").why == "the user asks for bf16"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_eagle3(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """A draft is vLLM's own on every platform, and nothing else can be asked for."""
    monkeypatch.setenv(VARIABLE, platform)

    for asked in (None, "bf16", "bfloat16"):
        chosen: Any = Eagle3LlamaForCausalLM.choose(llama(), {"quantization": asked})
        assert chosen == U
        assert chosen.why == ("the user asks for bf16" if asked else "drafts stay in bf16")
    with pytest.raises(UnsupportedConfigError) as caught:
        Eagle3LlamaForCausalLM.choose(llama(), {"quantization": "mxfp4"})
    assert str(caught.value) == (
        "Eagle3LlamaForCausalLM: quantization of the draft 'mxfp4' is not supported on "
        f"{platform!r}. Valid there: bf16."
    )


@pytest.mark.parametrize(
    ("draft", "vocabulary", "fits"),
    [(32000, 128256, True), (128256, 128256, True), (128257, 128256, False), (None, 10, True)],
)
def test_eagle3_drafts_words_of_its_target(
    monkeypatch: pytest.MonkeyPatch, draft: int | None, vocabulary: int, fits: bool
) -> None:
    """A draft's vocabulary is a part of the model's."""
    monkeypatch.setenv(VARIABLE, "cpu")
    given = llama(draft_vocab_size=draft, vocab_size=vocabulary)

    if fits:
        assert Eagle3LlamaForCausalLM.choose(given, None) == U
    else:
        with pytest.raises(UnsupportedConfigError, match="draft_vocab_size is 128257, more than"):
            Eagle3LlamaForCausalLM.choose(given, None)


@pytest.mark.parametrize("cls", [GptOssForCausalLM, LlamaForCausalLM])
@pytest.mark.parametrize("given", [{"quantisation": "mxfp4"}, SimpleNamespace(quantisation="x")])
def test_a_misspelt_wish_is_an_error(cls: type[ModelFactory], given: Any) -> None:
    """It lists the known ones."""
    with pytest.raises(UnsupportedConfigError) as caught:
        cls.choose(oss(), given)
    assert str(caught.value) == (
        f"{cls.__name__}: neuron_config has 'quantisation', which this model does not know. "
        "It knows quantization."
    )


@pytest.mark.parametrize("implementation", [BF16, MXFP4, LLAMA_MXFP4])
def test_what_the_factories_name_exists(implementation: str) -> None:
    """Under the architecture's name, which vLLM compares."""
    assert exists(Target.parse(implementation))
    assert implementation.rpartition(":")[2] in ("GptOssForCausalLM", "LlamaForCausalLM")
