"""MXFP4 weights: elements of four bits, with one scale for every 32 of them.

Source: OCP Microscaling Formats (MX) Specification v1.0: sections 5.3.3 (E2M1 elements), 5.4.1
(E8M0 scales) and 6.3 (conversion). Blocks lie along the last dimension, which is the input
dimension of a weight. Two elements share a byte, the one with the even index in its low four bits,
as in the checkpoints of gpt-oss, whose `..._blocks` of shape (..., K/32, 16) are the packed weight
with its last dimension split.
"""

import functools
from collections.abc import Iterator

import torch
from torch._subclasses import FakeTensor

BLOCK = 32
"""The number of elements that share a scale."""

_BYTES = BLOCK // 2
_NAN_SCALE = 255
_DECODED = (torch.bfloat16, torch.float16, torch.float32)
_ENCODED = _DECODED

# Large tensors are worked on in slices, which bounds the memory that is used on the way. Slices to
# be decoded, of so many bytes, stay in the cache of a core, and torch does not share out work of
# at most 32768 elements among threads, which costs more than it gains for look-ups.
_DECODE_SLICE = 1 << 15
_ENCODE_SLICE = 1 << 18  # elements


def encode(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode a weight (..., K) of bfloat16, float16 or float32 as MXFP4.

    Returns the packed elements, uint8 (..., K/2), and the scales, uint8 (..., K/32). The scale of
    a block is 2**(floor(log2(max |v|)) - 2), with the exponent held to E8M0's -127 and above.
    Elements are rounded to the nearest, ties to the even mantissa, and saturate at 6.0. Zeros keep
    their signs.

    What the specification leaves open: a block of zeros has the least scale, 2**-127; a block
    with a NaN or an infinity has the scale NaN and elements of zero.

    Raises TypeError for another dtype and ValueError where K is not a multiple of 32.
    """
    if weight.dtype not in _ENCODED:
        raise TypeError(f"cannot encode {weight.dtype} as MXFP4; it takes {_names(_ENCODED)}")
    if weight.ndim == 0 or weight.shape[-1] % BLOCK:
        raise ValueError(
            f"cannot encode a weight of shape {tuple(weight.shape)} as MXFP4: "
            f"its last dimension is not a multiple of {BLOCK}"
        )
    blocks = weight.detach().unflatten(-1, (weight.shape[-1] // BLOCK, BLOCK))
    if torch.compiler.is_compiling():
        codes, scales = _encoded(blocks)
        return _packed(codes).flatten(-2), scales.squeeze(-1)
    packed = _empty(blocks, (*blocks.shape[:-1], _BYTES), torch.uint8)
    scales = _empty(blocks, (*blocks.shape[:-1], 1), torch.uint8)
    for part, packed_part, scales_part in _slices((blocks, packed, scales), _ENCODE_SLICE):
        codes, exponents = _encoded(part)
        packed_part.copy_(_packed(codes))
        scales_part.copy_(exponents)
    return packed.flatten(-2), scales.squeeze(-1)


def decode(
    packed: torch.Tensor,
    scales: torch.Tensor,
    dtype: torch.dtype = torch.bfloat16,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Decode packed elements, uint8 (..., K/2), with their scales, uint8 (..., K/32), to (..., K).

    Each result is the product of element and scale, rounded once to the dtype: bfloat16 and
    float32 hold every product exactly, but for those of 2**128 and more, which are infinite;
    float16 rounds to nearest even. The scale 255 makes a whole block NaN.

    The result goes into `out` where it is given; it may have any strides. May be called in a
    function that `torch.compile` compiles.

    Raises TypeError for other dtypes and ValueError for shapes that do not fit together.
    """
    _check_decode(packed, scales, dtype, out)
    blocks = packed.unflatten(-1, (scales.shape[-1], _BYTES))
    exponents = scales.unsqueeze(-1)
    shape = (*scales.shape[:-1], scales.shape[-1] * BLOCK)
    if _is_traced(packed) or packed.device.type != "cpu":
        computed = _computed(blocks, exponents).to(dtype).reshape(shape)
        return computed if out is None else out.copy_(computed)
    result = _empty(packed, shape, dtype) if out is None else out
    _look_up(blocks, exponents, result.unflatten(-1, (scales.shape[-1], BLOCK)))
    return result


def _is_traced(tensor: torch.Tensor) -> bool:
    return torch.compiler.is_compiling() or isinstance(tensor, FakeTensor)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Pack codes of elements, uint8 (..., K) of 0 to 15, two to a byte: uint8 (..., K/2).

    Raises TypeError for another dtype, and ValueError where K is odd or a code is above 15.
    """
    _check_uint8("codes", codes)
    if codes.ndim == 0 or codes.shape[-1] % 2:
        raise ValueError(f"cannot pack codes of shape {tuple(codes.shape)} in pairs")
    # Compiled code cannot raise for a value.
    if not torch.compiler.is_compiling() and codes.numel() and int(codes.max()) > 15:
        raise ValueError(f"cannot pack the code {int(codes.max())}: E2M1 has the codes 0 to 15")
    return _packed(codes)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Return the codes of the elements, uint8 (..., K), of packed ones, uint8 (..., K/2).

    Raises TypeError for another dtype and ValueError for a tensor without dimensions.
    """
    _check_uint8("packed", packed)
    if packed.ndim == 0:
        raise ValueError("cannot unpack a tensor without dimensions")
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)


def _packed(codes: torch.Tensor) -> torch.Tensor:
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def _encoded(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the codes (..., 32) and the scales (..., 1) of blocks (..., 32)."""
    values = blocks.to(torch.float32)
    bits = values.view(torch.int32)
    # The exponent of the largest as float32 stores it, with the same bias as E8M0: 0 for what is
    # subnormal, which is below the least scale in any case, and 255 for infinity and NaN.
    largest = (bits & 0x7FFFFFFF).amax(-1, keepdim=True) >> 23
    invalid = largest == 255
    scales = (largest - 2).clamp_min(0).masked_fill(invalid, _NAN_SCALE)
    # 2**-X, exact and never subnormal: X is at most 125, for the largest is finite.
    inverse = ((254 - scales).clamp_min(1) << 23).view(torch.float32)
    magnitudes = (values.abs() * inverse).masked_fill(invalid, 0)
    signs = (bits < 0).logical_and(~invalid).to(torch.uint8) << 3
    return _rounded(magnitudes) | signs, scales.to(torch.uint8)


def _rounded(magnitudes: torch.Tensor) -> torch.Tensor:
    """Return the codes of the elements nearest to float32 values that are not negative.

    The elements are 0.5 apart up to 2.0, 1.0 apart up to 4.0 and 2.0 apart from there on: the code
    is the number of steps of each kind. `torch.round` rounds ties to even, which is the even code.
    """
    halves = (magnitudes * 2).round_().clamp_max_(4)
    ones = magnitudes.round().clamp_(2, 4)
    twos = (magnitudes / 2).round_().clamp_(2, 3)
    return (halves + ones + twos - 4).to(torch.uint8)


def _computed(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Decode blocks (..., 16) with scales (..., 1) to float32 (..., 32), without a table."""
    codes = unpack(blocks).to(torch.int32)
    magnitudes = codes & 7
    # Twice the magnitude is a whole number: 0, 1, 2, 3, 4, 6, 8, 12.
    doubled = magnitudes + (magnitudes - 4).clamp_min(0) + 2 * (magnitudes - 6).clamp_min(0)
    signs = 1 - (codes >> 2 & 2)
    # The sign is multiplied as a float, so that a zero has it too.
    elements = doubled.to(torch.float32) * signs.to(torch.float32) * 0.5
    exponents = scales.to(torch.int32)
    bits = (exponents << 23).masked_fill(exponents == 0, 0x00400000)  # 2**-127 is subnormal
    bits = bits.masked_fill(exponents == _NAN_SCALE, 0x7FC00000)
    return elements * bits.view(torch.float32)


@functools.cache
def _table() -> torch.Tensor:
    """Return what every byte decodes to with every scale: two bfloat16 as an int32, (65536,)."""
    scales, values = torch.arange(256, dtype=torch.uint8, device="cpu").expand(2, 256)
    blocks = values.reshape(-1, _BYTES).repeat(256, 1)
    pairs = _computed(blocks, scales.repeat_interleave(256 // _BYTES).unsqueeze(-1))
    return pairs.to(torch.bfloat16).view(torch.int32).flatten()


def _look_up(blocks: torch.Tensor, scales: torch.Tensor, result: torch.Tensor) -> None:
    """Decode blocks (..., G, 16) with scales (..., G, 1) into a result (..., G, 32).

    One look-up decodes a byte, scale and all, at a fraction of what arithmetic on the elements
    takes. bfloat16 holds all finite products, so that other dtypes are made from it.
    """
    table = _table()
    size = min(max(blocks.numel(), 1), _DECODE_SLICE)
    indices = _empty(blocks, (size,), torch.int32)
    direct = result.dtype == torch.bfloat16 and result.is_contiguous()
    scratch = None if direct and result.storage_offset() % 2 == 0 else torch.empty_like(indices)
    for part, scales_part, result_part in _slices((blocks, scales, result), _DECODE_SLICE):
        index = indices[: part.numel()]
        torch.add(part, scales_part.to(torch.int32) << 8, out=index.view(part.shape))
        if scratch is None:
            torch.index_select(table, 0, index, out=result_part.view(torch.int32).view(-1))
        else:
            pairs = scratch[: part.numel()]
            torch.index_select(table, 0, index, out=pairs)
            result_part.copy_(pairs.view(torch.bfloat16).view(result_part.shape))


def _slices(tensors: tuple[torch.Tensor, ...], limit: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Cut tensors alike, along their leading dimensions, to at most `limit` elements of the first.

    A slice along the last dimension alone is never cut. Views are cut without being copied.
    """
    first = tensors[0]
    if first.numel() <= limit or first.ndim == 1:
        yield tensors
        return
    each = first.numel() // first.shape[0]
    if each > limit:
        for rows in zip(*tensors, strict=True):
            yield from _slices(rows, limit)
        return
    yield from zip(*(tensor.split(limit // each) for tensor in tensors), strict=True)


def _empty(like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=like.device)


def _check_decode(
    packed: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype, out: torch.Tensor | None
) -> None:
    _check_uint8("packed", packed)
    _check_uint8("scales", scales)
    if dtype not in _DECODED:
        raise TypeError(f"cannot decode MXFP4 to {dtype}; it goes to {_names(_DECODED)}")
    if scales.ndim == 0 or packed.shape != (*scales.shape[:-1], scales.shape[-1] * _BYTES):
        raise ValueError(
            f"packed elements of shape {tuple(packed.shape)} do not fit scales of shape "
            f"{tuple(scales.shape)}: there are {_BYTES} bytes to a scale along the last dimension"
        )
    if out is None:
        return
    if out.dtype != dtype:
        raise TypeError(f"cannot decode to {dtype} into a tensor of {out.dtype}")
    if out.shape != (*scales.shape[:-1], scales.shape[-1] * BLOCK):
        raise ValueError(
            f"cannot decode packed elements of shape {tuple(packed.shape)} "
            f"into a tensor of shape {tuple(out.shape)}"
        )


def _check_uint8(name: str, tensor: torch.Tensor) -> None:
    if tensor.dtype != torch.uint8:
        raise TypeError(f"{name} must be uint8, not {tensor.dtype}")


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
