"""Start an engine on a checkpoint with real weights, and write what it answers as JSON."""

import json
import sys
from pathlib import Path
from typing import Any


def main(model: str, result: str, options: dict[str, Any]) -> None:
    """Ask with the engine's options; the others say what is asked.

    `prompts`: lists of token ids; `lora`: the folder of an adapter, asked for as well; `embed`:
    embeddings, instead of tokens.
    """
    from vllm import LLM
    from vllm.lora.request import LoRARequest

    prompts = [{"prompt_token_ids": ids} for ids in options.pop("prompts")]
    lora, embed = options.pop("lora", None), options.pop("embed", False)
    arguments: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "max_model_len": 256,
        "max_num_seqs": 8,
        "max_logprobs": -1,
        "worker_extension_cls": "worker_extension.Extension",
        **options,
    }
    llm = LLM(model, **arguments)
    answer: dict[str, Any] = {"bytes": llm.collective_rpc("weight_bytes")}
    if embed:
        outputs = llm.embed(prompts, use_tqdm=False)
        answer["embeddings"] = [output.outputs.embedding for output in outputs]
    else:
        answer["base"] = _generate(llm, prompts, None)
    if lora is not None:
        answer["lora"] = _generate(llm, prompts, LoRARequest("adapter", 1, lora))
    Path(result).write_text(json.dumps(answer))


def _generate(llm: Any, prompts: list[Any], lora: Any) -> list[dict[str, Any]]:
    """Return the eight tokens that follow each prompt, and all logarithms of probabilities."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        max_tokens=8, temperature=0.0, ignore_eos=True, detokenize=False, logprobs=512
    )
    outputs = llm.generate(prompts, sampling, use_tqdm=False, lora_request=lora)
    return [
        {
            "tokens": list(output.outputs[0].token_ids),
            "logprobs": [
                [step[token].logprob for token in sorted(step)]
                for step in output.outputs[0].logprobs
            ],
        }
        for output in outputs
    ]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
