"""Call real modules of vLLM, without an engine, and write what came out as JSON."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any


def layers() -> dict[str, dict[str, list[float]]]:
    """Return what four kinds of layer functions give, called plainly and compiled."""
    import torch
    from vllm.config import VllmConfig, set_current_vllm_config

    with set_current_vllm_config(VllmConfig()):
        from vllm.model_executor.layers import utils
        from vllm.model_executor.layers.activation import SiluAndMul
        from vllm.model_executor.layers.layernorm import RMSNorm
        from vllm.model_executor.layers.rotary_embedding.common import ApplyRotaryEmb

        activation, norm = SiluAndMul(), RMSNorm(8)
    linear: Any = torch.nn.Module()
    linear.cpu_linear = torch.nn.functional.linear
    x = torch.linspace(-1.0, 1.0, 8).reshape(1, 8)
    calls: dict[str, Any] = {
        "function": lambda: utils.cpu_unquantized_gemm(linear, x, torch.eye(8)),
        "method": lambda: norm.forward_native(x),
        "static": lambda: ApplyRotaryEmb.forward_static(
            x.reshape(1, 1, 8), torch.ones(1, 4), torch.zeros(1, 4)
        ),
        "op": lambda: activation.forward_native(x),
    }

    def values(result: Any) -> list[float]:
        numbers: list[float] = result.flatten().tolist()
        return numbers

    return {
        kind: {
            "eager": values(call()),
            "compiled": values(torch.compile(call, backend="eager", fullgraph=True)()),
        }
        for kind, call in calls.items()
    }


def configs() -> dict[str, Any]:
    """Return what configs say that vLLM makes by itself, by name and inside of others."""
    from vllm import EngineArgs
    from vllm.config import CacheConfig, LoadConfig, ParallelConfig, VllmConfig

    whole = VllmConfig()
    parts: dict[str, Any] = {"parallel_config": {}, "load_config": {}, "cache_config": {}}
    from_dict = VllmConfig(**parts)
    return {
        "cache": [CacheConfig().block_size, from_dict.cache_config.block_size],
        "engine_args": EngineArgs(model="none").worker_extension_cls,
        "extension": [each.parallel_config.worker_extension_cls for each in (whole, from_dict)],
        "load": [LoadConfig().download_dir, from_dict.load_config.download_dir],
        "parallel": [
            getattr(each, "effects", None)
            for each in (ParallelConfig(), whole.parallel_config, from_dict.parallel_config)
        ],
        "validated": [
            getattr(each, "validated_by", None)
            for each in (ParallelConfig(), from_dict.parallel_config)
        ],
        "refused": _refused(lambda: CacheConfig(block_size=0)),
    }


def _refused(make: Any) -> bool:
    from pydantic import ValidationError

    try:
        make()
    except ValidationError:
        return True
    return False


def classes() -> dict[str, Any]:
    """Return how a replaced class appears to those who import, pickle and look for it."""
    from vllm.v1.core import block_pool, kv_cache_coordinator

    cls = block_pool.BlockPool
    same: Any = pickle.loads(pickle.dumps(cls))
    return {
        "signature": getattr(cls, "signature", None),
        "name": f"{cls.__module__}:{cls.__qualname__}",
        "alias": kv_cache_coordinator.BlockPool is cls,
        "pickled": same is cls,
    }


def environment() -> dict[str, Any]:
    """Return what vLLM would have for its caches."""
    from vllm import envs
    from vllm.compilation.caching import aot_compile_hash_factors
    from vllm.config import CompilationConfig, VllmConfig
    from vllm.model_executor.models.registry import ModelRegistry

    registered: Any = ModelRegistry.models["OPTForCausalLM"]
    return {
        "factors": envs.compile_factors(),
        "aot": aot_compile_hash_factors(VllmConfig()),
        "model_info": registered._get_cache_filename(),
        "cache_dir": CompilationConfig(cache_dir="given").cache_dir,
        "disabled": envs.VLLM_DISABLE_COMPILE_CACHE,
        "aot_enabled": envs.VLLM_USE_AOT_COMPILE,
    }


def main(result: str, questions: list[str]) -> None:
    """Answer each question, named after a function of this module, and say how patches stand."""
    import vllm  # noqa: F401 - activates

    import vllm_graft

    answers = {name: globals()[name]() for name in questions}
    answers["status"] = vllm_graft.status().to_dict()
    Path(result).write_text(json.dumps(answers, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
