"""The implementations of the set `vllm-graft`. vLLM calls these; each is named in `layer`."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..caches import FINGERPRINT
from ..journal import JOURNAL
from ..process import PROCESS
from ..settings import VARIABLES

Function = Callable[..., Any]


def register_variables(envs: ModuleType) -> None:
    """Make the layer's variables known to vLLM, whose own entries win."""
    for name in VARIABLES:
        envs.environment_variables.setdefault(name, lambda name=name: os.environ.get(name))


def compile_factors(original: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return vLLM's factors without the layer's variables, and with the patches' fingerprint."""
    factors = {name: value for name, value in original().items() if name not in VARIABLES}
    fingerprint = JOURNAL.fingerprint
    return {**factors, FINGERPRINT: fingerprint} if fingerprint else factors


def engine_core(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `engine_core` from the start of the original on."""
    PROCESS.gain("engine_core")
    return original(*args, **kwargs)


def worker(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `worker` from the start of the original on."""
    PROCESS.gain("worker")
    return original(*args, **kwargs)


def started(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Say how the process stands when the original has ended."""
    result = original(*args, **kwargs)
    JOURNAL.started()
    return result


def async_llm(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `api_server` where the engine's usage context says that it serves the API."""
    usage = kwargs.get("usage_context")
    if getattr(usage, "name", "") == "OPENAI_API_SERVER":
        PROCESS.gain("api_server")
    return started(original, self, *args, **kwargs)


def coordinator(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `coordinator`, and say how its process stands."""
    PROCESS.gain("coordinator")
    return started(original, *args, **kwargs)
