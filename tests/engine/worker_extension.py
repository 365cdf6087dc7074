"""What the tests ask of a worker; vLLM mixes it into the worker's class."""

from typing import Any


class Extension:
    """Answers about the model in a worker."""

    model_runner: Any

    def weight_bytes(self) -> dict[str, int]:
        """Return the bytes of weights in memory, by kind of module, with their scales."""
        model = self.model_runner.get_model()
        found = {"linear": 0, "experts": 0, "other": 0}
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            found[_kind(name)] += tensor.nbytes
        return found


def _kind(name: str) -> str:
    if "_proj." in name and "bias" not in name:
        return "linear"
    return "experts" if ".experts." in name else "other"
