"""The measured programs, each run in a process of its own: `inside.py PROGRAM RESULT ...`.

What they measure goes into the file RESULT as JSON. vLLM starts this file again in the processes
that it spawns, so it imports nothing that is not needed there.
"""

import importlib
import json
import os
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP = 3
PROMPTS = 16
PROMPT = 32  # tokens
ANSWER = 64  # tokens
DECODE_PROMPTS = 4
DECODE_ANSWER = 256  # tokens


def plan() -> dict[str, float]:
    """Plan and arm what is declared, in the steps of `vllm_graft.activation`; milliseconds."""
    from vllm_graft.catalog import load_catalog
    from vllm_graft.hooks import arm
    from vllm_graft.journal import JOURNAL
    from vllm_graft.plan import Environment, make_plan
    from vllm_graft.settings import Settings
    from vllm_graft.version import find_version

    settings = Settings.read(os.environ)
    start = time.perf_counter()
    catalog = load_catalog()
    declared, declared_cpu = time.perf_counter(), time.process_time()
    made = make_plan(catalog, Environment(find_version(settings.version)), settings)
    planned = time.perf_counter()
    JOURNAL.begin(made)
    arm(made, settings, JOURNAL)
    armed, armed_cpu = time.perf_counter(), time.process_time()
    if made.problems:
        raise RuntimeError(f"the plan has problems: {made.problems}")
    return {
        "armed": sum(patch.set_name == "benchmark" for patch in made.armed),
        "declare, ms": (declared - start) * 1e3,
        "plan, ms": (planned - declared) * 1e3,
        "arm, ms": (armed - planned) * 1e3,
        "plan and arm, ms": (armed - declared) * 1e3,
        "plan and arm, CPU ms": (armed_cpu - declared_cpu) * 1e3,
    }


def imports() -> dict[str, float]:
    """Import vLLM, then its engine class, and count our patches; seconds from the beginning."""
    start, start_cpu = time.perf_counter(), time.process_time()
    vllm = importlib.import_module("vllm")
    first, first_cpu = time.perf_counter(), time.process_time()
    vllm.LLM  # noqa: B018 - resolved lazily: this imports some 400 modules
    second, second_cpu = time.perf_counter(), time.process_time()
    return {
        "import vllm, wall s": first - start,
        "import vllm, CPU s": first_cpu - start_cpu,
        "from vllm import LLM, wall s": second - start,
        "from vllm import LLM, CPU s": second_cpu - start_cpu,
        **_counts(),
    }


def engine(model: str, calls: str) -> dict[str, Any]:
    """Start a tiny engine; return the tokens per second of so many calls of `generate`."""
    llm = _start(model, enforce_eager=True)
    rates, _ = _generate(llm, PROMPTS, ANSWER, int(calls))
    return {**rates, **_counts()}


def decode(model: str, began: str, calls: str, how: str) -> dict[str, Any]:
    """Start a tiny engine, "eager" or "compiled", and let it decode.

    Returns how long the start took since the monotonic clock said `began`, the tokens per second,
    the tokens, what `benchmarks.decode` counted meanwhile, what shows which vLLM this is, and the
    modules that every start of it imports here.
    """
    vllm = importlib.import_module("vllm")
    vllm.LLM  # noqa: B018 - resolved lazily
    # What comes later depends on what is in the caches.
    modules = [name for name in sys.modules if name.startswith("vllm.")]
    llm = _start(model, enforce_eager=how == "eager")
    start = {
        "start, wall s": time.monotonic() - float(began),
        "start, CPU s": _processor_seconds(),
    }
    before = _decode_counts()
    rates, answers = _generate(llm, DECODE_PROMPTS, DECODE_ANSWER, int(calls))
    return {
        **start,
        **rates,
        "answers": answers,
        "counts": [after - count for after, count in zip(_decode_counts(), before, strict=True)],
        "steps": DECODE_ANSWER * (WARM_UP + int(calls)),
        "vllm": vllm.__file__,
        "modules": modules,
        **_counts(),
    }


def _start(model: str, enforce_eager: bool) -> Any:
    vllm: Any = importlib.import_module("vllm")
    return vllm.LLM(
        model,
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=enforce_eager,
        dtype="float32",
        max_model_len=512,
        max_num_seqs=PROMPTS,
    )


def _generate(
    llm: Any, prompts: int, answer: int, calls: int
) -> tuple[dict[str, list[float]], list[list[list[int]]]]:
    """Return the tokens per second of each call after the first few, and each call's answers.

    By the clock, and by the processor time of all processes of the engine, which other programs
    disturb less.
    """
    vllm: Any = importlib.import_module("vllm")
    sampling = vllm.SamplingParams(
        max_tokens=answer, temperature=0, ignore_eos=True, detokenize=False
    )
    asked = [
        {"prompt_token_ids": [(7 * n + 3 * k) % 500 + 3 for k in range(PROMPT)]}
        for n in range(prompts)
    ]
    rates, cpu_rates, answers = [], [], []
    for _ in range(WARM_UP + calls):
        start, start_cpu = time.perf_counter(), _processor_seconds()
        outputs = llm.generate(asked, sampling, use_tqdm=False)
        wall, cpu = time.perf_counter() - start, _processor_seconds() - start_cpu
        answers.append([list(output.outputs[0].token_ids) for output in outputs])
        tokens = sum(map(len, answers[-1]))
        rates.append(tokens / wall)
        cpu_rates.append(tokens / cpu)
    return {"tokens/s": rates[WARM_UP:], "tokens per CPU s": cpu_rates[WARM_UP:]}, answers


def _processor_seconds() -> float:
    """Return the processor time of this process and of all that it started."""
    psutil: Any = importlib.import_module("psutil")  # vLLM requires it
    process = psutil.Process()
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(
        # Children that have ended are not among the processes, but their parents know.
        sum(each.user + each.system + each.children_user + each.children_system for each in times)
    )


def _decode_counts() -> list[int]:
    """Return what the changes of `benchmarks.decode` have counted so far, in all processes."""
    return list(array("q", Path(os.environ["BENCHMARK_COUNTS"]).read_bytes()))


def _counts() -> dict[str, int]:
    """Count the patches of the benchmark by state in this process."""
    from vllm_graft import status

    states = [patch.state for patch in status().patches if patch.id.startswith("benchmark/")]
    return {"declared": len(states), "applied": states.count("applied")}


def register() -> dict[str, float]:
    """Declare all models, then import vLLM's registry, which registers them; milliseconds."""
    from importlib.metadata import entry_points

    from vllm_graft.models.registry import GROUP, get_models, models_set

    installed = entry_points()  # activation reads them once, for patch sets and factories
    start = time.perf_counter()
    models = get_models(installed.select(group=GROUP))
    models_set(models)
    declared = (time.perf_counter() - start) * 1e3
    if "torch" in sys.modules:
        raise RuntimeError("declaring models has imported torch")
    importlib.import_module("vllm.model_executor.models.registry")
    ids = {model.id for model in models}
    patches = importlib.import_module("vllm_graft").status().patches
    applied = [each for each in patches if each.id in ids and each.state == "applied"]
    if len(applied) != len(models):
        raise RuntimeError(f"{len(applied)} of {len(models)} models are registered")
    registered = sum(each.ms or 0 for each in applied)
    return {
        "declare, ms": declared,
        "register, ms": registered,
        "declare and register, ms": declared + registered,
    }


def register_eagerly() -> dict[str, float]:
    """Import vLLM's registry, then register the same architectures as classes; milliseconds."""
    registry = importlib.import_module("vllm.model_executor.models.registry").ModelRegistry
    architectures = ("GptOssForCausalLM", "LlamaForCausalLM", "Eagle3LlamaForCausalLM")
    start = time.perf_counter()
    for architecture in architectures:
        registry.register_model(architecture, registry.models[architecture].load_model_cls())
    return {"declare and register, ms": (time.perf_counter() - start) * 1e3}


def weights(model: str, quantization: str) -> dict[str, float]:
    """Load a GPT-OSS and decode with it; memory in GB, and tokens in a second."""
    vllm = importlib.import_module("vllm")
    llm = vllm.LLM(
        model,
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=DECODE_PROMPTS,
        additional_config={"neuron_config": {"quantization": quantization}},
    )
    sampling = vllm.SamplingParams(max_tokens=16, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": [1, 5, 9, number]} for number in range(DECODE_PROMPTS)]
    llm.generate(prompts, sampling, use_tqdm=False)
    start = time.perf_counter()
    llm.generate(prompts, sampling, use_tqdm=False)
    seconds = time.perf_counter() - start
    return {
        "peak memory of the worker, GB": max(_peaks()) / 1e6,
        "tokens/s": DECODE_PROMPTS * 16 / seconds,
    }


def _peaks() -> list[int]:
    """Return the peak resident memory of the processes below this one, in units of 1000 bytes."""
    parents, peaks = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            lines = (folder / "status").read_text().splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            parents[int(folder.name)] = int(status["PPid"])
            peaks[int(folder.name)] = int(status.get("VmHWM", "0 kB").split()[0])
    below = {os.getpid()}
    for _ in parents:
        below |= {process for process, parent in parents.items() if parent in below}
    return [round(peaks[process] * 1.024) for process in below - {os.getpid()}]


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    "plan": plan,
    "imports": imports,
    "engine": engine,
    "decode": decode,
    "register": register,
    "register_eagerly": register_eagerly,
    "weights": weights,
}


def main(program: str, result: str, *arguments: str) -> None:
    """Run a program and write what it returns."""
    Path(result).write_text(json.dumps(PROGRAMS[program](*arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
