"""GPT-OSS's experts: a checkpoint's MXFP4 as BF16, and the layer that leaves them packed."""

import gc
import itertools
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vllm_graft.models.gpt_oss.experts_mxfp4 import (
    apply_experts,
    experts_op,
    route,
    swiglu,
)
from vllm_graft.models.gpt_oss.weight_loaders import dequantized, is_mxfp4
from vllm_graft.models.mxfp4 import decode, encode

EXPERTS, HIDDEN, INNER = 4, 64, 32
STEM = "model.layers.0.mlp.experts.gate_up_proj"

Stream = list[tuple[str, Any]]


def packed(*shape: int, seed: int = 0) -> tuple[Any, Any]:
    """Return packed random weights and their scales."""
    return encode(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


def projection(stem: str = STEM, seed: int = 0) -> Stream:
    """Return the two tensors of one projection as a checkpoint has them."""
    blocks, scales = packed(EXPERTS, 2 * INNER, HIDDEN, seed=seed)
    return [(f"{stem}_blocks", blocks.unflatten(-1, (-1, 16))), (f"{stem}_scales", scales)]


CONFIGURATIONS = [
    ({"quantization_config": {"quant_method": "mxfp4"}}, True),
    ({"quantization_config": {"quant_method": "gpt_oss_mxfp4"}}, True),
    ({"quantization_config": {"quant_method": "quark"}}, False),
    ({"quantization_config": {}}, False),
    ({"quantization_config": None}, False),
    ({}, False),
]


@pytest.mark.parametrize(("configuration", "expected"), CONFIGURATIONS)
def test_which_checkpoints_are_mxfp4(configuration: dict[str, Any], expected: bool) -> None:
    """A checkpoint is MXFP4 by its own word or by what vLLM rewrites that to."""
    assert is_mxfp4(SimpleNamespace(**configuration)) is expected


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_pairs_in_every_order(order: tuple[int, ...]) -> None:
    """Blocks and scales find each other in any order, between those of other projections."""
    other = STEM.replace("layers.0", "layers.1")
    tensors = projection() + projection(other, seed=1)
    found = dict(dequantized([tensors[i] for i in order], torch.bfloat16))
    for stem, (blocks, scales) in {STEM: tensors[:2], other: tensors[2:]}.items():
        expected = decode(blocks[1].flatten(-2), scales[1]).transpose(1, 2)
        assert found[stem].shape == (EXPERTS, HIDDEN, 2 * INNER)
        assert torch.equal(found[stem], expected)
    assert set(found) == {STEM, other}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_decoded_type(dtype: Any) -> None:
    """Experts come in the type that is asked for."""
    [(_, weight)] = dequantized(projection(), dtype)
    assert weight.dtype == dtype


def test_all_else_passes() -> None:
    """A BF16 checkpoint and tensors that only look like blocks pass as they are, in order."""
    names = [STEM, f"{STEM}_bias", "model.norm.weight", "model.quantizer_scales", "lm_head_blocks"]
    stream = [(name, torch.ones(1)) for name in names]
    found = list(dequantized(stream, torch.bfloat16))
    assert [name for name, _ in found] == names
    assert all(tensor is given for (_, tensor), (_, given) in zip(found, stream, strict=True))


def test_nothing_decoded_is_kept() -> None:
    """Of what was yielded, and of the blocks it was made from, nothing lives on in the loader."""
    alive: list[weakref.ref[Any]] = []

    def checkpoint() -> Iterator[tuple[str, Any]]:
        for layer in range(3):
            tensors = projection(STEM.replace("layers.0", f"layers.{layer}"))
            while tensors:
                alive.append(weakref.ref(tensors[0][1]))
                yield tensors.pop(0)

    for name, weight in dequantized(checkpoint(), torch.bfloat16):
        gc.collect()
        # The last tensor that was read is in the hands of the loop.
        assert not any(reference() is not None for reference in alive[:-1]), name
        alive.append(weakref.ref(weight))
        del weight


@pytest.mark.parametrize("lost", [0, 1])
def test_incomplete_checkpoint(lost: int) -> None:
    """Blocks without scales, and scales without blocks, are an error that names both."""
    tensors = projection()
    missing = tensors.pop(lost)[0]
    with pytest.raises(ValueError, match="not complete") as raised:
        list(dequantized([("model.norm.weight", torch.ones(1)), *tensors], torch.bfloat16))
    assert f"{tensors[0][0]!r} without {missing!r}" in str(raised.value)


def test_shapes_that_do_not_fit() -> None:
    """Scales of another shape than the blocks ask for are an error that says which."""
    (name, blocks), (other, scales) = projection()
    with pytest.raises(ValueError, match=rf"{STEM}.*\(4, 64, 2, 16\).*\(4, 64, 2\).*\(4, 64, 1\)"):
        list(dequantized([(name, blocks), (other, scales[..., :1])], torch.bfloat16))


def test_routing() -> None:
    """The weights are the softmax over the chosen experts alone."""
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0], [5.0, -1.0, 5.5, 0.0]])
    weights, experts = route(logits, 2)
    assert experts.tolist() == [[1, 3], [2, 0]]
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights[0], torch.softmax(torch.tensor([3.0, 2.0]), 0))


def test_activation_clamps() -> None:
    """Gates are clamped from above and ups from both sides; gates have the even places."""
    gate, up = torch.tensor([9.0, -9.0, 1.0, 2.0]), torch.tensor([9.0, -9.0, 0.5, -1.0])
    found = swiglu(torch.stack((gate, up), -1).flatten())
    low, high = torch.tensor([7.0, -9.0, 1.0, 2.0]), torch.tensor([7.0, -7.0, 0.5, -1.0])
    torch.testing.assert_close(found, (high + 1) * low / (1 + torch.exp(-1.702 * low)))


def layer(dtype: Any = torch.float32) -> tuple[Any, ...]:
    """Return w13, its scales and bias, and w2 with its own."""
    generator = torch.Generator().manual_seed(2)
    return (
        *packed(EXPERTS, 2 * INNER, HIDDEN),
        torch.randn(EXPERTS, 2 * INNER, generator=generator).to(dtype),
        *packed(EXPERTS, HIDDEN, INNER, seed=1),
        torch.randn(EXPERTS, HIDDEN, generator=generator).to(dtype),
    )


def dense(x: Any, weights: Any, experts: Any, tensors: tuple[Any, ...]) -> Any:
    """Compute the layer with every expert for every token, in float64."""
    w13, s13, b13, w2, s2, b2 = tensors
    up = torch.einsum("th,eoh->teo", x.double(), decode(w13, s13).double()) + b13
    inner = swiglu(up.float()).double()
    down = torch.einsum("tei,ehi->teh", inner, decode(w2, s2).double()) + b2
    share = torch.zeros(len(x), EXPERTS, dtype=torch.float64)
    share.scatter_add_(1, experts.clamp(min=0), weights.double() * (experts >= 0))
    return torch.einsum("te,teh->th", share, down)


@pytest.mark.parametrize("tokens", [0, 1, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packed_experts(tokens: int, dtype: Any) -> None:
    """The packed experts make what the decoded ones do, those of other ranks left out."""
    generator = torch.Generator().manual_seed(3)
    tensors = layer(dtype)
    x = torch.randn(tokens, HIDDEN, generator=generator).to(dtype)
    weights, experts = route(torch.randn(tokens, EXPERTS, generator=generator), 2)
    experts = torch.where(experts == 1, -1, experts)
    expected = dense(x, weights, experts, tensors)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for function in (apply_experts, experts_op):
        found = function(x, weights, experts, *tensors)
        assert (found.dtype, found.shape) == (dtype, x.shape)
        assert (found.double() - expected).norm() <= tolerance * expected.norm()


def test_only_routed_experts_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step decodes each expert that it uses once, one at a time, and no other."""
    decoded = []

    def counting(blocks: Any, scales: Any, dtype: Any) -> Any:
        decoded.append(tuple(blocks.shape))
        return decode(blocks, scales, dtype)

    monkeypatch.setattr("vllm_graft.models.gpt_oss.experts_mxfp4.decode", counting)
    experts = torch.tensor([[3, 0], [0, 3], [3, -1]])
    tensors = layer()
    apply_experts(torch.randn(3, HIDDEN), torch.rand(3, 2), experts, *tensors)
    assert decoded == [(2 * INNER, HIDDEN // 2), (HIDDEN, INNER // 2)] * 2


def test_operator_for_compilation() -> None:
    """`torch.compile` takes the operator as a whole, with any number of tokens."""
    tensors = layer()
    arguments = torch.randn(3, HIDDEN), torch.rand(3, 2), torch.tensor([[3, 0], [0, 3], [1, 2]])
    torch.library.opcheck(
        experts_op,
        (*arguments, *tensors),
        test_utils=("test_schema", "test_faketensor"),
    )
