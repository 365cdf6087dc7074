"""The implementations of the set `vllm-graft`. vLLM calls these; each is named in `layer`."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..caches import FINGERPRINT, MODELS
from ..hooks import take_out_failed_groups
from ..journal import JOURNAL
from ..models import inside as models
from ..models.resolve import FACTORIES
from ..process import PROCESS
from ..settings import VARIABLES

Function = Callable[..., Any]


def register_variables(envs: ModuleType) -> None:
    """Make the layer's variables known to vLLM, whose own entries win."""
    for name in VARIABLES:
        envs.environment_variables.setdefault(name, lambda name=name: os.environ.get(name))


def compile_factors(original: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return vLLM's factors without the layer's variables, and with what is not vLLM's own."""
    factors = {name: value for name, value in original().items() if name not in VARIABLES}
    return {**factors, **_marks()}


def compute_hash(original: Callable[[], str]) -> str:
    """Return vLLM's hash, with what is not vLLM's own mixed in where there is any."""
    text, marks = original(), _marks()
    if not marks:
        return text
    return hashlib.sha256(f"{text} {sorted(marks.values())}".encode()).hexdigest()


def _marks() -> dict[str, str]:
    """Return the patches' fingerprint, and the mark of models that factories have chosen."""
    marks = {FINGERPRINT: JOURNAL.fingerprint, MODELS: FACTORIES.mark()}
    return {name: mark for name, mark in marks.items() if mark}


def own_cache_folder(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Give the patches a folder of their own in a compile cache that the user has placed."""
    original(self, *args, **kwargs)
    fingerprint = JOURNAL.fingerprint
    if fingerprint and self.cache_dir and not self.cache_dir.endswith(fingerprint):
        self.cache_dir = str(Path(self.cache_dir) / fingerprint)


def model_info_file(original: Callable[[Any], str], self: Any) -> str:
    """Return the name of a file of model information, other patches having another one."""
    name, fingerprint = models.model_info_file(original(self), self), JOURNAL.fingerprint
    return f"{name.removesuffix('.json')}-{fingerprint}.json" if fingerprint else name


def engine_core(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `engine_core` from the start of the original on."""
    PROCESS.gain("engine_core")
    return original(*args, **kwargs)


def engine_core_made(original: Function, self: Any, vllm_config: Any, *args: Any, **kw: Any) -> Any:
    """Hold the role `engine_core`, and ask the factories of the models in this process too."""
    PROCESS.gain("engine_core")
    models.agree(vllm_config)
    return original(self, vllm_config, *args, **kw)


def worker(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Hold the role `worker` from the start of the original on."""
    PROCESS.gain("worker")
    return original(*args, **kwargs)


def started(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Say how the process stands when the original has ended."""
    result = original(*args, **kwargs)
    take_out_failed_groups(JOURNAL)
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
