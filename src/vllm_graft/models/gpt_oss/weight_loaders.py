"""What a GPT-OSS checkpoint says of its experts, and the experts as a BF16 checkpoint has them.

An MXFP4 checkpoint has two tensors for each projection of a layer's experts: `…_blocks`, uint8 of
shape (experts, out, groups, 16), and `…_scales`, uint8 of shape (experts, out, groups).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..mxfp4 import decode
from ..rules import quantization_of

_BLOCKS = "_blocks"
_SCALES = "_scales"


def is_mxfp4(hf_config: Any) -> bool:
    """Tell whether a model's configuration says that the checkpoint's experts are MXFP4."""
    return quantization_of(hf_config) == "mxfp4"


def dequantized(
    weights: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a checkpoint's tensors with the experts as a BF16 checkpoint has them.

    `gate_up_proj` is of shape (experts, hidden, 2 * intermediate) and `down_proj` of shape
    (experts, intermediate, hidden); both are transposed views. All other tensors pass unchanged.
    A tensor waits only for its counterpart, and no decoded one is kept.

    Raises:
        ValueError: at the end, for blocks that had no scales or scales that had no blocks.
    """
    waiting: dict[str, torch.Tensor] = {}
    for name, tensor in weights:
        other = _counterpart(name)
        if other is None:
            yield name, tensor
        elif other in waiting:
            yield _stem(name), _decoded(name, tensor, waiting.pop(other), dtype)
        else:
            waiting[name] = tensor
    if waiting:
        raise ValueError(_unpaired(waiting))


def _counterpart(name: str) -> str | None:
    """Return the name of the scales of blocks and of the blocks of scales; else None."""
    if ".experts." not in name:
        return None
    if name.endswith(_BLOCKS):
        return _stem(name) + _SCALES
    return _stem(name) + _BLOCKS if name.endswith(_SCALES) else None


def _stem(name: str) -> str:
    return name.removesuffix(_BLOCKS).removesuffix(_SCALES)


def _decoded(
    name: str, tensor: torch.Tensor, other: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    blocks, scales = (tensor, other) if name.endswith(_BLOCKS) else (other, tensor)
    if blocks.shape[:-1] != scales.shape:
        raise ValueError(
            f"{_stem(name)!r}: blocks of shape {tuple(blocks.shape)} need scales of shape "
            f"{tuple(blocks.shape[:-1])}, not {tuple(scales.shape)}"
        )
    return decode(blocks.flatten(-2), scales, dtype).transpose(-2, -1)


def _unpaired(waiting: Iterable[str]) -> str:
    missing = [f"{name!r} without {_counterpart(name)!r}" for name in sorted(waiting)]
    return f"the checkpoint is not complete: it has {', '.join(missing)}"
