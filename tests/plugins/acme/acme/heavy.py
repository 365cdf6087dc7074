"""What must not be loaded before its target is."""

from collections.abc import Callable
from typing import Any

import torch


def always_seven(original: Callable[..., Any], self: Any, hidden_states: torch.Tensor) -> Any:
    """Make token 7 the most likely one."""
    logits = original(self, hidden_states)
    if logits is not None:
        logits[..., 7] += 1e4
    return logits
