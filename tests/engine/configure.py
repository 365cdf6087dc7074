"""Make engine configurations, without an engine, and write what came of each as JSON."""

import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any


def configured(model: str, neuron_config: Any) -> dict[str, Any]:
    """Return the class and the flags that vLLM has for a model, or the error that stopped it."""
    from vllm import EngineArgs
    from vllm.envs import compile_factors
    from vllm.model_executor.model_loader.utils import get_model_cls

    arguments: dict[str, Any] = {
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "additional_config": {"neuron_config": neuron_config},
    }
    try:
        model_config = EngineArgs(model=model, **arguments).create_engine_config().model_config
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    cls = get_model_cls(model_config)
    return {
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "pooling": model_config._model_info.default_seq_pooling_type,
        "mark": compile_factors().get("VLLM_GRAFT_MODELS"),
    }


def main(result: str, cases: list[tuple[str, Any]]) -> None:
    """Try each model with each `neuron_config`."""
    answers = [configured(model, neuron_config) for model, neuron_config in cases]
    started = [child.name for child in multiprocessing.active_children()]
    Path(result).write_text(json.dumps({"configured": answers, "children": started}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
