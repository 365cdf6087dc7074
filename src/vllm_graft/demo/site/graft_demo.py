"""Three patches, for a name that lives in each of the engine's three processes."""

from collections.abc import Callable
from typing import Any

from vllm_graft import PatchSet

patches = PatchSet("demo")

_WHY: dict[str, Any] = {
    "vllm": ">=0.27.1,<0.33",
    "why": "To show that a patch reaches the process in which its target lives.",
    "upstream": "None: this is a demonstration.",
    "remove": "Never installed: the demonstration puts it on PYTHONPATH for one run.",
}


@patches.wrap(
    "vllm.v1.engine.output_processor:RequestState._new_completion_output",
    how="Give every answer a stop reason of ours.",
    **_WHY,
)
def signed_answers(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    output = original(self, *args, **kwargs)
    output.stop_reason = "patched"
    return output


@patches.wrap(
    "vllm.v1.core.sched.scheduler:Scheduler.add_request",
    how="Let no request have more than four tokens.",
    **_WHY,
)
def short_answers(original: Callable[..., Any], self: Any, request: Any) -> Any:
    request.max_tokens = min(request.max_tokens, 4)
    return original(self, request)


@patches.wrap(
    "vllm.model_executor.models.llama:LlamaForCausalLM.compute_logits",
    how="Make token 7 the most likely one.",
    **_WHY,
)
def always_seven(original: Callable[..., Any], self: Any, hidden_states: Any) -> Any:
    logits = original(self, hidden_states)
    if logits is not None:
        logits[..., 7] += 1e4
    return logits
