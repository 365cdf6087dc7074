"""Wraps, without any change, of the functions that most modules of vLLM import by name."""

from collections.abc import Callable
from typing import Any

from vllm_graft import PatchSet

patches = PatchSet("aliased")

TARGETS = (
    "vllm.logger:init_logger",
    "vllm.utils.torch_utils:direct_register_custom_op",
    "vllm.utils.math_utils:cdiv",
    "vllm.utils.math_utils:round_up",
    "vllm.config.vllm:get_current_vllm_config",
    "vllm.config.vllm:get_layers_from_vllm_config",
    "vllm.forward_context:get_forward_context",
    "vllm.distributed.parallel_state:get_tensor_model_parallel_world_size",
    "vllm.distributed.parallel_state:get_tensor_model_parallel_rank",
    "vllm.distributed.parallel_state:get_pp_group",
    "vllm.distributed.parallel_state:get_tp_group",
    "vllm.distributed.parallel_state:get_ep_group",
    "vllm.utils.torch_utils:async_tensor_h2d",
    "vllm.model_executor.models.utils:maybe_prefix",
    "vllm.model_executor.utils:replace_parameter",
    "vllm.utils.import_utils:resolve_obj_by_qualname",
    "vllm.utils.hashing:safe_hash",
    "vllm.utils.gpu_sync_debug:gpu_sync_allowed",
    "vllm.model_executor.model_loader.weight_utils:default_weight_loader",
    "vllm.model_executor.utils:set_weight_attrs",
    "vllm.model_executor.layers.rotary_embedding:get_rope",
    "vllm.plugins:load_general_plugins",
    "vllm.v1.core.kv_cache_utils:get_kv_cache_configs",
    "vllm.v1.core.kv_cache_utils:resolve_kv_cache_block_sizes",
    "vllm.transformers_utils.config:get_config",
)


def unchanged(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the original."""
    return original(*args, **kwargs)


for _target in TARGETS:
    patches.wrap(
        _target,
        unchanged,
        id=_target.rpartition(":")[2].replace("_", "-"),
        vllm=">=0.27.1,<1",
        why="The tests of vllm-graft count the names that still have the original.",
        how="Call the original.",
        upstream="None: vLLM is as it should be.",
        remove="Never.",
    )


def count(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Count when a process has started, and write what was found where the test reads it."""
    result = original(*args, **kwargs)
    from .counting import write

    write()
    return result


for _name, _entry in (
    ("main", "vllm.v1.engine.llm_engine:LLMEngine.__init__"),
    ("engine-core", "vllm.v1.engine.core:EngineCoreProc.__init__"),
    ("worker", "vllm.v1.executor.multiproc_executor:WorkerProc.__init__"),
):
    patches.wrap(
        _entry,
        count,
        id=f"count-in-{_name}",
        vllm=">=0.27.1,<1",
        why="The tests of vllm-graft count the names that still have the original.",
        how="Count at the end of the start.",
        upstream="None: vLLM is as it should be.",
        remove="Never.",
    )
