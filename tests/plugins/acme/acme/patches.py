"""One patch for each kind of process that vLLM has, each with an effect that can be seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vllm_graft import Environment, PatchSet

patches = PatchSet("acme")

_FIELDS: dict[str, Any] = {
    "why": "The tests of vllm-graft must see where a patch lands.",
    "upstream": "None: vLLM is as it should be.",
    "remove": "Never.",
}
_RECENT = ">=0.27.1,<0.33"


@patches.wrap(
    "vllm.v1.engine.output_processor:RequestState._new_completion_output",
    vllm=_RECENT,
    how="In the front end: sign every answer.",
    **_FIELDS,
)
def signed_answers(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    output = original(self, *args, **kwargs)
    output.stop_reason = "acme"
    return output


@patches.wrap(
    # Where it was before V1, and where it is.
    "vllm.core.scheduler:Scheduler.add_request | "
    "vllm.v1.core.sched.scheduler:Scheduler.add_request",
    vllm=_RECENT,
    how="In EngineCore: no request has more than four tokens.",
    **_FIELDS,
)
def short_answers(original: Callable[..., Any], self: Any, request: Any) -> Any:
    request.max_tokens = min(request.max_tokens, 4)
    return original(self, request)


patches.wrap(
    "vllm.model_executor.models.llama:LlamaForCausalLM.compute_logits",
    "acme.heavy:always_seven",
    vllm=_RECENT,
    how="In the worker: token 7 is the most likely one. Given lazily, since it imports torch.",
    **_FIELDS,
)


@patches.wrap(
    "vllm.model_executor.models.registry:_ModelInfo.from_model_cls",
    vllm=_RECENT,
    process="inspection",
    how="In the model inspection subprocess only: another pooling type in the answer.",
    **_FIELDS,
)
def inspected(original: Callable[..., Any], model: Any) -> Any:
    return replace(original(model), default_seq_pooling_type="CLS")


@patches.wrap(
    "torch.distributed:get_world_size",
    vllm=_RECENT,
    process="worker",
    how="In the worker only, on a module of torch: nothing but being there.",
    **_FIELDS,
)
def world_size(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


@patches.wrap(
    "vllm.v1.core.sched.scheduler:Scheduler.add_request",
    vllm=">=0.18,<0.20",
    how="For an old release: no request has more than two tokens.",
    **_FIELDS,
)
def for_old_releases(original: Callable[..., Any], self: Any, request: Any) -> Any:
    request.max_tokens = min(request.max_tokens, 2)
    return original(self, request)


def _broken(kind: str) -> Callable[[Environment], bool]:
    return lambda environment: environment.environ.get("ACME_BROKEN") == kind


patches.wrap(
    "vllm.v1.engine.output_processor:RequestState._new_completion_output",
    lambda original, *args, **kwargs: replace(original(*args, **kwargs), stop_reason="front"),
    id="front-half",
    vllm=_RECENT,
    order=1,
    required=False,
    together="pair",
    when=_broken("pair"),
    how="Sign every answer, which makes sense with the other half only.",
    **_FIELDS,
)
patches.wrap(
    "vllm.v1.core.sched.scheduler:Scheduler.no_such_method",
    "acme.heavy:always_seven",
    id="core-half",
    vllm=_RECENT,
    required=False,
    together="pair",
    when=_broken("pair"),
    how="Fail in EngineCore: there is no such target.",
    **_FIELDS,
)

for _kind, _target in (
    ("name", "vllm.v1.core.sched.scheduler:Scheduler.no_such_method"),
    ("module", "vllm.no_such_module:function"),
):
    patches.wrap(
        _target,
        "acme.heavy:always_seven",
        id=f"missing-{_kind}",
        vllm=_RECENT,
        when=_broken(_kind),
        how="Fail: there is no such target.",
        **_FIELDS,
    )
