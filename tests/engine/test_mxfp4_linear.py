"""Linear layers in MXFP4: what they hold, how they are loaded in parts, what they refuse.

They are vLLM's own layers, each given a rank and a number of ranks; no engine is started. That the
values are right is told by the plain reference of `llama_checkpoints`.
"""

import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers import linear

from vllm_graft.models import mxfp4_linear

from .llama_checkpoints import quantized

RANKS = [(0, 1), (0, 2), (1, 2)]


@pytest.fixture(autouse=True)
def config() -> Iterator[None]:
    """Set a current configuration: layers ask for one while they are made."""
    with set_current_vllm_config(VllmConfig()):
        yield


@pytest.fixture
def rank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Let vLLM's layers take this process for one of several, which no test here starts."""
    number, count = request.param
    monkeypatch.setattr(linear, "get_tensor_model_parallel_rank", lambda: number)
    monkeypatch.setattr(linear, "get_tensor_model_parallel_world_size", lambda: count)
    return number, count


def weight(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Return a random weight (out, in)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator)


def made(kind: str, *sizes: Any, **options: Any) -> Any:
    """Return a layer of vLLM's that is quantized to MXFP4."""
    quantization = mxfp4_linear.PackedMxfp4Config()
    layer = getattr(linear, kind)
    options |= {"bias": False, "return_bias": False, "prefix": "model.layers.0.it"}
    return layer(*sizes, quant_config=quantization, params_dtype=torch.float32, **options)


def held(layer: Any) -> torch.Tensor:
    """Return the weight of a layer, as its product with the unit matrix shows it."""
    unit = torch.eye(2 * layer.weight.shape[1])
    shown: torch.Tensor = layer.quant_method.apply(layer, unit).T
    return shown


@pytest.mark.parametrize("rank", RANKS, indirect=True)
def test_a_column_parallel_layer_holds_its_rows(rank: tuple[int, int]) -> None:
    """Each rank holds its share of the outputs, in the values of the reference."""
    number, count = rank
    full = weight(8, 64)
    layer = made("ColumnParallelLinear", 64, 8)
    layer.weight.weight_loader(layer.weight, full)
    expected = quantized(full).chunk(count, 0)[number]
    assert torch.equal(held(layer), expected)


@pytest.mark.parametrize("rank", RANKS, indirect=True)
def test_a_row_parallel_layer_holds_its_columns(rank: tuple[int, int]) -> None:
    """Each rank holds its share of the inputs; a block belongs to one rank."""
    number, count = rank
    full = weight(8, 128)
    layer = made("RowParallelLinear", 128, 8, reduce_results=False)
    layer.weight.weight_loader(layer.weight, full)
    expected = quantized(full).chunk(count, 1)[number]
    assert torch.equal(held(layer), expected)


@pytest.mark.parametrize("rank", RANKS, indirect=True)
def test_merged_layers_hold_their_parts_one_after_the_other(rank: tuple[int, int]) -> None:
    """The parts of a merged layer are encoded one by one, and each is shared out."""
    number, count = rank
    parts = [weight(8, 64, seed) for seed in (1, 2)]
    layer = made("MergedColumnParallelLinear", 64, [8, 8])
    for index, part in enumerate(parts):
        layer.weight.weight_loader(layer.weight, part, index)
    shares = [quantized(part).chunk(count, 0)[number] for part in parts]
    assert torch.equal(held(layer), torch.cat(shares))


@pytest.mark.parametrize("rank", RANKS, indirect=True)
@pytest.mark.parametrize("kv_heads", [2, 1])
def test_query_key_and_value_are_shared_out_by_heads(rank: tuple[int, int], kv_heads: int) -> None:
    """A rank holds its heads; where there are fewer of keys than ranks, it holds a copy."""
    number, count = rank
    sizes = {"q": 4 * 16, "k": kv_heads * 16, "v": kv_heads * 16}
    full = {name: weight(rows, 64, seed) for seed, (name, rows) in enumerate(sizes.items())}
    layer = made("QKVParallelLinear", 64, 16, 4, kv_heads)
    for name, part in full.items():
        layer.weight.weight_loader(layer.weight, part, name)
    shares = []
    for name, part in full.items():
        copies = max(1, count // kv_heads) if name != "q" else 1
        expected = quantized(part)
        shares.append(expected.chunk(count // copies, 0)[number // copies])
    assert torch.equal(held(layer), torch.cat(shares))


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
@pytest.mark.parametrize("kind", ["QKVParallelLinear", "MergedColumnParallelLinear"])
def test_a_weight_that_is_merged_in_the_checkpoint_is_loaded_whole(
    kind: str, rank: tuple[int, int]
) -> None:
    """A checkpoint that stores merged weights gives no part's name."""
    sizes = (64, 16, 2, 1) if kind == "QKVParallelLinear" else (64, [32, 32])
    full = weight(64, 64)
    layer = made(kind, *sizes)
    assert list(layer.load_weights([("weight", full)])) == ["weight"]
    assert torch.equal(held(layer), quantized(full))


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_a_row_parallel_layer_loads_itself(rank: tuple[int, int]) -> None:
    """It loads its tensors, and passes over a bias that it has none of."""
    full = weight(8, 64)
    layer = made("RowParallelLinear", 64, 8)
    named = [("weight", full), ("bias", torch.ones(8))]
    assert list(layer.load_weights(named)) == ["weight"]
    assert torch.equal(held(layer), quantized(full))


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_a_layer_holds_seventeen_bytes_for_thirty_two_weights(rank: tuple[int, int]) -> None:
    """Of the weight's 2 bytes in BF16 remain half a byte and a 32nd; nothing else is held."""
    layer = made("ColumnParallelLinear", 64, 8)
    tensors = [*layer.parameters(), *layer.buffers()]
    assert {each.dtype for each in tensors} == {torch.uint8}
    assert sum(each.nbytes for each in tensors) == 8 * 64 * 17 // 32
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert set(layer.state_dict()) == {"weight", "weight_scale"}


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_weights_that_are_never_loaded_are_finite(rank: tuple[int, int]) -> None:
    """`load_format="dummy"` fills only tensors of floating point."""
    layer = made("ColumnParallelLinear", 64, 8)
    assert torch.isfinite(held(layer)).all()


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_product_has_the_type_of_what_comes_in(rank: tuple[int, int], dtype: Any) -> None:
    """Weights are decoded to the activations' type, and a bias is added."""
    layer = made("ColumnParallelLinear", 64, 8)
    layer.weight.weight_loader(layer.weight, weight(8, 64))
    x, bias = weight(3, 64, 5).to(dtype), torch.ones(8, dtype=dtype)
    expected = torch.nn.functional.linear(x, held(layer).to(dtype), bias)
    answer = layer.quant_method.apply(layer, x, bias)
    assert answer.dtype == dtype
    torch.testing.assert_close(answer, expected)


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_the_product_is_compiled_whole(rank: tuple[int, int]) -> None:
    """`torch.compile` takes it in one graph, for any number of rows."""
    layer = made("ColumnParallelLinear", 64, 8)
    layer.weight.weight_loader(layer.weight, weight(8, 64))
    compiled = torch.compile(
        layer.quant_method.apply, fullgraph=True, dynamic=True, backend="eager"
    )
    for rows in (2, 5):
        x = weight(rows, 64, rows)
        assert torch.equal(compiled(layer, x), layer.quant_method.apply(layer, x))


@pytest.mark.parametrize("rank", [(1, 2)], indirect=True)
def test_a_split_block_is_refused(rank: tuple[int, int]) -> None:
    """The error names the layer, its inputs on a rank, and the number of ranks."""
    with pytest.raises(ValueError, match=r"the 48 inputs of 96, over 2 tensor.*'model\.layers\.0"):
        made("RowParallelLinear", 96, 8)


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_an_odd_number_of_inputs_is_refused(rank: tuple[int, int]) -> None:
    """Without several ranks, the error speaks of none."""
    with pytest.raises(
        ValueError, match=r"the 40 inputs of 'model\.layers\.0\.it' are no multiple"
    ):
        made("ColumnParallelLinear", 40, 8)


def test_only_linear_layers_are_quantized() -> None:
    """Anything else, embeddings and `lm_head` among it, stays as vLLM makes it."""
    assert mxfp4_linear.PackedMxfp4Config().get_quant_method(torch.nn.Identity(), "") is None


def asked(**options: Any) -> Any:
    """Return what of a configuration is read, for vLLM checks a real one against a checkpoint."""
    model = types.SimpleNamespace(model="some/model")
    given = {"model_config": model, "quant_config": None, "additional_config": {}, **options}
    return types.SimpleNamespace(**given)


def test_the_shared_configuration_stays_as_it_is() -> None:
    """The model's configuration is a copy that shares all that is not replaced."""
    given = asked(additional_config={"mine": 1})
    copied = mxfp4_linear.with_mxfp4_linears(given)
    assert isinstance(copied.quant_config, mxfp4_linear.PackedMxfp4Config)
    assert copied.model_config is given.model_config
    assert given.quant_config is None
    assert given.additional_config == {"mine": 1}


def test_a_quantized_checkpoint_is_refused() -> None:
    """Weights that are quantized already are not quantized again."""
    fp8 = types.SimpleNamespace(get_name=lambda: "fp8")
    with pytest.raises(ValueError, match=r"'some/model' is quantized already, as 'fp8'"):
        mxfp4_linear.with_mxfp4_linears(asked(quant_config=fp8))
