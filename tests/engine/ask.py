"""Start an engine, ask it once, and write the answer and this process's status as JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(model: str, result: str, options: dict[str, Any]) -> None:
    """Ask with the engine's options; `fork` starts its processes by fork."""
    from vllm import EngineArgs, LLMEngine, SamplingParams

    import vllm_graft

    fork = options.pop("fork", False)
    arguments: dict[str, Any] = {
        "load_format": "dummy",
        "enforce_eager": True,
        "dtype": "float32",
        "max_model_len": 128,
        "max_num_seqs": 4,
        **options,
    }
    # As LLM() does it, in two steps: the CPU platform sets the start method to spawn while the
    # configuration is made, and forking is possible only after that.
    config = EngineArgs(model=model, **arguments).create_engine_config()
    if fork:
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    engine = LLMEngine.from_vllm_config(config)
    sampling = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    engine.add_request("one", {"prompt_token_ids": [1, 5, 9, 13]}, sampling)
    completion: Any = None
    while engine.has_unfinished_requests():
        for output in engine.step():
            completion = output.outputs[0]
    answer = {
        "tokens": list(completion.token_ids),
        "stop_reason": completion.stop_reason,
        "status": vllm_graft.status().to_dict(),
        "start_method": os.environ.get("VLLM_WORKER_MULTIPROC_METHOD"),
    }
    Path(result).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
