"""One engine start: `python -m vllm_graft.demo.engine MODEL RESULT` writes an answer as JSON."""

import json
import sys
from pathlib import Path

PROMPT = [1, 5, 9, 13]


def main(model: str, result: str) -> None:
    """Start the engine, ask it once, and write what it answered."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model,
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=128,
        max_num_seqs=4,
    )
    sampling = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True, detokenize=False)
    answer = llm.generate([{"prompt_token_ids": PROMPT}], sampling, use_tqdm=False)[0]
    completion = answer.outputs[0]
    Path(result).write_text(
        json.dumps({"tokens": list(completion.token_ids), "stop_reason": completion.stop_reason})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
