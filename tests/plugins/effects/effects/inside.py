"""The implementations, which torch.compile traces through."""

from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., Any]


def doubled_function(
    original: Function,
    layer: torch.nn.Module,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return twice the product."""
    result: torch.Tensor = original(layer, x, weight, bias)
    return result * 2


def doubled_method(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return twice the normalized values."""
    return original(self, *args, **kwargs) * 2


def doubled_static(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Return twice the rotated values."""
    return original(*args, **kwargs) * 2


def doubled_op(original: Function, x: torch.Tensor) -> Any:
    """Return twice the activations."""
    return original(x) * 2


def seven_function(
    layer: torch.nn.Module,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sevens in the shape of the product."""
    return torch.full((*x.shape[:-1], weight.shape[0]), 7.0)


def seven_method(self: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    """Return sevens in the shape of the input."""
    return torch.full_like(x, 7.0)


def seven_static(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    is_neox_style: bool = True,
    enable_fp32_compute: bool = False,
) -> torch.Tensor:
    """Return sevens in the shape of the input."""
    return torch.full_like(x, 7.0)


def seven_op(x: torch.Tensor) -> torch.Tensor:
    """Return sevens in the shape of the activations."""
    return torch.full_like(x[..., : x.shape[-1] // 2], 7.0)


def shifted(original: Function, self: Any, x: torch.Tensor) -> torch.Tensor:
    """Add a ramp to what the layer returns."""
    result: torch.Tensor = original(self, x)
    return result + torch.linspace(-8.0, 8.0, result.shape[-1], dtype=result.dtype)


def after_load_config(self: Any) -> None:
    """Sign the config."""
    self.download_dir = "effects"


def after_parallel_config(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Sign the config."""
    original(self, *args, **kwargs)
    self.effects = "post-init"


def validated(original: Function, self: Any) -> Any:
    """Sign the config, as a model validator of mode `after`."""
    result = original(self)
    result.validated_by = "effects"
    return result


def nothing(_module: Any) -> None:
    """Do nothing."""


def counting_block_pool(original: type) -> type:
    """Return a subclass that can be told."""

    class Pool(original):  # type: ignore[misc]  # known at run time
        signature = "effects"

    return Pool
