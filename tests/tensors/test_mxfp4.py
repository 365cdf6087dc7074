"""MXFP4 as the OCP specification has it, against references that share no code with it."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

from vllm_graft.models import mxfp4

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
ELEMENTS = (*MAGNITUDES, *(-magnitude for magnitude in MAGNITUDES))
"""The values of the sixteen codes, as section 5.3.3 of the specification lists them."""

MIXED = (6.0, 1.0)
"""Elements that put a block's scale at 1 and say in their order which nibble is the first."""

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
ONE = 127  # the scale 2**0

TIES = [
    (0.25, 0.0),
    (0.75, 1.0),
    (1.25, 1.0),
    (1.75, 2.0),
    (2.5, 2.0),
    (3.5, 4.0),
    (5.0, 4.0),
]
"""Midpoints, and the neighbour whose mantissa is even."""


def _bits(value: float, dtype: Any) -> int:
    """Return the bits that a value has in a dtype, rounded to nearest even; of NaN those of 0."""
    if math.isnan(value):
        return 0
    form = "e" if dtype == torch.float16 else "f"
    try:
        raw = struct.pack(f"<{form}", value)
    except OverflowError:
        raw = struct.pack(f"<{form}", math.copysign(math.inf, value))
    bits = int.from_bytes(raw, "little")
    if dtype == torch.bfloat16:
        assert bits & 0xFFFF == 0, "bfloat16 holds every product exactly"
        return bits >> 16
    return bits


def _decoded(scale: int) -> list[float]:
    """Return the sixteen elements with a scale, in the arithmetic of Python's doubles."""
    return [math.nan if scale == 255 else math.ldexp(each, scale - 127) for each in ELEMENTS]


def _integers(tensor: Any) -> list[int]:
    """Return the bits of floats, NaN as 0, for comparisons that see signs of zeros."""
    width = torch.int32 if tensor.dtype == torch.float32 else torch.int16
    mask = 0xFFFFFFFF if tensor.dtype == torch.float32 else 0xFFFF
    bits = tensor.view(width).masked_fill(tensor.isnan(), 0).to(torch.int64) & mask
    found: list[int] = bits.flatten().tolist()
    return found


def _encode_block(values: list[float]) -> tuple[int, list[int]]:
    """Encode a block in exact fractions: the slow reference."""
    if not all(map(math.isfinite, values)):
        return 255, [0] * 32
    largest = max(map(abs, values))
    exponent = max(math.frexp(largest)[1] - 1 - 2, -127) if largest else -127
    return exponent + 127, [_nearest(value, exponent) for value in values]


def _nearest(value: float, exponent: int) -> int:
    exact = abs(Fraction(value)) / Fraction(2) ** exponent
    # Of two neighbours at the same distance the even code, whose last bit is the mantissa.
    code = min(range(8), key=lambda each: (abs(Fraction(MAGNITUDES[each]) - exact), each & 1))
    return code | (8 if math.copysign(1, value) < 0 else 0)


def _everything() -> tuple[Any, Any]:
    """Return all 256 bytes with all 256 scales: packed (256, 256), scales (256, 16)."""
    packed = torch.arange(256, dtype=torch.uint8).repeat(256, 1)
    return packed, torch.arange(256, dtype=torch.uint8).repeat_interleave(16).view(256, 16)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without a code generator, for which some machines have no compiler."""
    compiled: Callable[..., Any] = torch.compile(function, fullgraph=True, backend="eager")
    return compiled


def _in_one_call(packed: Any, scales: Any, dtype: Any) -> Any:
    return mxfp4.decode(packed, scales, dtype)


def _into_a_view(packed: Any, scales: Any, dtype: Any) -> Any:
    out = torch.full((packed.shape[-1] * 2, packed.shape[0]), 7.0, dtype=dtype).t()
    assert mxfp4.decode(packed, scales, dtype, out=out) is out
    return out


def _in_slices(packed: Any, scales: Any, dtype: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mxfp4, "_DECODE_SLICE", 1000)
        return mxfp4.decode(packed, scales, dtype)


def _compiled_decode(packed: Any, scales: Any, dtype: Any) -> Any:
    return _compiled(mxfp4.decode)(packed, scales, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("decode", [_in_one_call, _into_a_view, _in_slices, _compiled_decode])
def test_every_byte_with_every_scale(decode: Callable[..., Any], dtype: Any) -> None:
    """The product is right to the bit: subnormal, overflowing, of either zero, and NaN."""
    expected = []
    for scale in range(256):
        element = [_bits(value, dtype) for value in _decoded(scale)]
        expected += [element[code] for byte in range(256) for code in (byte & 15, byte >> 4)]
    decoded = decode(*_everything(), dtype)
    assert decoded.dtype == dtype
    assert decoded.shape == (256, 512)
    assert decoded.isnan().flatten().nonzero().flatten().tolist() == list(range(255 * 512, 131072))
    assert _integers(decoded) == expected


def test_every_code() -> None:
    """The sixteen codes decode to the values that the specification lists."""
    codes = torch.arange(32, dtype=torch.uint8) % 16
    decoded = mxfp4.decode(mxfp4.pack(codes), torch.tensor([ONE], dtype=torch.uint8))
    assert list(map(str, decoded.tolist())) == list(map(str, ELEMENTS * 2))


def test_the_low_nibble_is_the_even_element() -> None:
    """A byte 0x27 holds 6.0 and then 1.0, packed, unpacked, encoded and decoded."""
    assert mxfp4.pack(torch.tensor([7, 2], dtype=torch.uint8)).tolist() == [0x27]
    assert mxfp4.unpack(torch.tensor([0x27], dtype=torch.uint8)).tolist() == [7, 2]
    packed, scales = mxfp4.encode(torch.tensor(MIXED * 16))
    assert packed.tolist() == [0x27] * 16
    assert mxfp4.decode(packed, scales).tolist() == list(MIXED) * 16


def test_pack_and_unpack_are_inverse() -> None:
    """Every byte unpacks to two codes that pack to it again."""
    packed = torch.arange(256, dtype=torch.uint8).view(2, 4, 32)
    codes = mxfp4.unpack(packed)
    assert codes.shape == (2, 4, 64)
    assert torch.equal(mxfp4.pack(codes), packed)


@pytest.mark.parametrize(("value", "expected"), TIES)
def test_ties_go_to_the_even_mantissa(value: float, expected: float) -> None:
    """A midpoint goes to the even one of its neighbours, and what is beside it to the nearest."""
    low = max(each for each in MAGNITUDES if each < value)
    high = min(each for each in MAGNITUDES if each > value)
    below, above = _neighbours(value)
    block = torch.tensor([4.0, value, -value, below, above, -below, -above] + [0.0] * 25)
    decoded = mxfp4.decode(*mxfp4.encode(block), torch.float32).tolist()
    assert decoded[1:7] == [expected, -expected, low, high, -low, -high]


def _neighbours(value: float) -> tuple[float, float]:
    """Return the float32 next below and next above a value."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    below, above = struct.unpack("<2f", struct.pack("<2I", bits - 1, bits + 1))
    return below, above


@pytest.mark.parametrize(
    ("largest", "scale", "code"),
    [
        (4.0, ONE, 6),
        (6.0, ONE, 7),
        (7.0, ONE, 7),  # between 6.0 and the next scale: saturated
        (7.9999995, ONE, 7),
        (8.0, ONE + 1, 6),
        (3.9999998, ONE - 1, 7),
        (2.0**-125, 0, 6),  # the least scale is 2**-127
        (2.0**-126, 0, 4),
        (2.0**-127, 0, 2),  # from here on float32 is subnormal
        (2.0**-128, 0, 1),
        (2.0**-129, 0, 0),
        (2.0**-149, 0, 0),
        (3.4028234663852886e38, 252, 7),  # the largest float32
        (2.0**127, 252, 6),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_scales_at_their_boundaries(largest: float, scale: int, code: int, sign: int) -> None:
    """The scale follows the exponent of the largest element, and ends at that of E8M0."""
    block = torch.zeros(32)
    block[5] = sign * largest
    packed, scales = mxfp4.encode(block)
    assert scales.tolist() == [scale]
    assert mxfp4.unpack(packed)[5] == code + (8 if sign < 0 else 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("invalid", [math.nan, math.inf, -math.inf])
def test_a_block_with_nan_or_infinity_is_nan(invalid: float, dtype: Any) -> None:
    """It has the scale 255 and elements of zero, and the blocks beside it are as they were."""
    weight = torch.ones(3, 32, dtype=dtype)
    weight[1, 7] = invalid
    packed, scales = mxfp4.encode(weight)
    assert scales.tolist() == [[ONE - 2], [255], [ONE - 2]]
    assert packed[1].tolist() == [0] * 16
    decoded = mxfp4.decode(packed, scales)
    assert decoded[1].isnan().all()
    assert (decoded[[0, 2]] == 1).all()


def test_zeros_keep_their_signs() -> None:
    """A block of zeros has the least scale; what is rounded to zero has its sign too."""
    packed, scales = mxfp4.encode(torch.tensor([0.0, -0.0] * 16 + [4.0, -1e-30] * 16))
    assert scales.tolist() == [0, ONE]
    assert packed.tolist() == [0x80] * 16 + [0x86] * 16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_encoding_agrees_with_exact_fractions(dtype: Any) -> None:
    """Random blocks of all magnitudes are as the slow reference has them."""
    generator = torch.Generator().manual_seed(1)
    exponents = torch.randint(-150, 128, (60, 1), generator=generator)
    spread = torch.randint(-6, 1, (60, 32), generator=generator)
    values = torch.randn(60, 32, generator=generator).double() * 2.0 ** (exponents + spread)
    weight = values.to(dtype)
    packed, scales = mxfp4.encode(weight)
    expected = [_encode_block(block) for block in weight.double().tolist()]
    assert scales.flatten().tolist() == [scale for scale, _ in expected]
    assert mxfp4.unpack(packed).tolist() == [codes for _, codes in expected]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_canonical_blocks_survive_a_round_trip(dtype: Any) -> None:
    """Encoding what was decoded returns the bytes, where the largest element is 4.0 or 6.0."""
    generator = torch.Generator().manual_seed(2)
    codes = torch.randint(0, 16, (253, 3, 32), dtype=torch.uint8, generator=generator)
    codes[..., 9] = torch.tensor([6, 7, 15], dtype=torch.uint8)
    scales = torch.arange(253, dtype=torch.uint8).view(-1, 1, 1).repeat(1, 3, 1)
    packed = mxfp4.pack(codes)
    again = mxfp4.encode(mxfp4.decode(packed, scales, dtype))
    assert torch.equal(again[0], packed)
    assert torch.equal(again[1], scales)


def test_large_and_transposed_weights_are_encoded_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slices of any size, and a weight that is not contiguous, give what single blocks give."""
    weight = torch.randn(3, 96, 10, generator=torch.Generator().manual_seed(3)).transpose(1, 2)
    expected = [_encode_block(block) for block in weight.reshape(-1, 32).tolist()]
    for limit in (1, 32, 100, 1000, 100_000):
        monkeypatch.setattr(mxfp4, "_ENCODE_SLICE", limit)
        packed, scales = mxfp4.encode(weight)
        assert packed.shape == (3, 10, 48)
        assert scales.shape == (3, 10, 3)
        assert scales.flatten().tolist() == [scale for scale, _ in expected]
        assert mxfp4.unpack(packed).view(-1, 32).tolist() == [codes for _, codes in expected]


@pytest.mark.parametrize("shape", [(0, 64), (2, 0), (0,), (3, 0, 32)])
def test_empty_weights(shape: tuple[int, ...]) -> None:
    """A weight without elements is encoded to nothing and comes back with its shape."""
    packed, scales = mxfp4.encode(torch.empty(shape))
    assert mxfp4.decode(packed, scales).shape == shape


def test_a_default_dtype_or_device_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM builds and loads models with other defaults, and the table may be made under them."""
    mxfp4._table.cache_clear()
    monkeypatch.setattr(mxfp4, "_DECODE_SLICE", 1000)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"), torch.inference_mode():
            decoded = mxfp4.decode(*_everything_on_cpu(), torch.float32)
            again = mxfp4.encode(decoded[:253])
    finally:
        torch.set_default_dtype(before)
    assert _integers(decoded) == _integers(mxfp4.decode(*_everything(), torch.float32))
    assert again[0].device.type == "cpu"


def _everything_on_cpu() -> tuple[Any, Any]:
    with torch.device("cpu"):
        return _everything()


def test_both_compile_whole() -> None:
    """Compiled encoding and decoding give what they give uncompiled, for two shapes."""
    encode, decode = _compiled(mxfp4.encode), _compiled(mxfp4.decode)
    for rows in (3, 5):
        weight = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows))
        expected = mxfp4.encode(weight)
        packed, scales = encode(weight)
        assert torch.equal(packed, expected[0])
        assert torch.equal(scales, expected[1])
        out = torch.empty(rows, 64)
        decode(packed, scales, torch.float32, out=out)
        assert torch.equal(out, mxfp4.decode(packed, scales, torch.float32))


def test_decoding_agrees_with_transformers() -> None:
    """Every byte with every scale but NaN is as transformers' own decoder has it.

    It has no NaN scale: 255 is the power 2**128 there, infinite in float32, of which only zeros
    become NaN.
    """
    module = pytest.importorskip("transformers.integrations.mxfp4")
    packed, scales = _everything()
    blocks = packed.view(1, 256, 16, 16)
    theirs = module.convert_moe_packed_tensors(blocks[:, :255], scales[None, :255])
    ours = mxfp4.decode(packed[:255], scales[:255])
    assert _integers(theirs[0].t().contiguous()) == _integers(ours)


def _zeros(*shape: int, dtype: Any = torch.uint8) -> Any:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mxfp4.encode(_zeros(2, 40, dtype=torch.float32)), ValueError, "multiple of 32"),
        (lambda: mxfp4.encode(torch.tensor(1.0)), ValueError, "multiple of 32"),
        (lambda: mxfp4.encode(_zeros(32, dtype=torch.float64)), TypeError, "float64"),
        (lambda: mxfp4.encode(_zeros(32)), TypeError, "uint8"),
        (lambda: mxfp4.decode(_zeros(2, 16), _zeros(2, 2)), ValueError, "16 bytes to a scale"),
        (lambda: mxfp4.decode(_zeros(2, 16), _zeros(3, 1)), ValueError, r"\(2, 16\).*\(3, 1\)"),
        (lambda: mxfp4.decode(_zeros(16), torch.tensor(1).byte()), ValueError, "do not fit"),
        (lambda: mxfp4.decode(_zeros(16).char(), _zeros(1)), TypeError, "packed must be uint8"),
        (lambda: mxfp4.decode(_zeros(16), _zeros(1).float()), TypeError, "scales must be uint8"),
        (lambda: mxfp4.decode(_zeros(16), _zeros(1), torch.float64), TypeError, "float64"),
        (lambda: mxfp4.decode(_zeros(16), _zeros(1), out=torch.empty(32)), TypeError, "float32"),
        (
            lambda: mxfp4.decode(_zeros(16), _zeros(1), out=_zeros(16, dtype=torch.bfloat16)),
            ValueError,
            "into a tensor of shape",
        ),
        (lambda: mxfp4.pack(_zeros(3)), ValueError, "in pairs"),
        (lambda: mxfp4.pack(_zeros(2).char()), TypeError, "codes must be uint8"),
        (lambda: mxfp4.pack(_zeros(2) + 16), ValueError, "the code 16"),
        (lambda: mxfp4.unpack(_zeros(2).int()), TypeError, "packed must be uint8"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    """A tensor of the wrong dtype or shape is named in the error."""
    with pytest.raises(error, match=message):
        call()
