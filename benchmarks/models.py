"""What models cost: registering factories, and decoding, loading and keeping MXFP4 weights.

    python benchmarks/models.py [--only PART] [--runs N] [--json FILE]

runs in an environment that has vLLM, which brings transformers and safetensors. The weights are
random, of the shapes of gpt-oss-20b's experts. Decoding is compared with transformers' own decoder,
whose results must be equal; loading with reading as many bytes and decoding as many tensors; an
engine that keeps experts packed with one that dequantizes them; registering with doing it eagerly.
The decoders take about 6 GB of memory, the engines up to 12 GB.
"""

import functools
import importlib
import operator
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from any folder

from benchmarks.command import command
from benchmarks.measure import Sample, column, interleave, paired
from benchmarks.programs import run, vllm_environ
from benchmarks.report import Check, Report
from tests.engine.checkpoints import write_large_gpt_oss

from vllm_graft.models.gpt_oss.weight_loaders import dequantized
from vllm_graft.models.mxfp4 import decode

EXPERTS = 32
GROUPS = 90  # blocks of 32 in a row: a hidden size of 2880
SHAPES = {"gate_up_proj": (EXPERTS, 5760, GROUPS), "down_proj": (EXPERTS, 2880, GROUPS)}
"""The projections of a layer's experts in gpt-oss-20b, by the shapes of their scales."""

LARGE: dict[str, Any] = {  # 2 GB in MXFP4
    "hidden_size": 1440,
    "intermediate_size": 1440,
    "num_hidden_layers": 20,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "layer_types": ["sliding_attention", "full_attention"] * 10,
}
"""What the synthetic checkpoint for engines has otherwise than the tests' tiny one."""

LAYERS = 2  # of the checkpoint: 0.85 GB
WALL = "wall, s"
CPU = "CPU, s"
RATE = "decoded, GB/s"

REGISTER = "declare and register, ms"
MEMORY = "peak memory of the worker, GB"

SPEED_UP = 2
LOADING = 1.3
REGISTERING = 5.0  # ms
PACKED = 0.35


def weights(name: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random blocks (..., 16) and scales (...) of a projection, of a checkpoint's size."""
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES[name]
    blocks = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8, generator=generator)
    scales = torch.randint(112, 126, shape, dtype=torch.uint8, generator=generator)
    return blocks, scales


def decoding(_folder: Path, runs: int) -> Report:
    """Decode the experts of gpt-oss-20b in turns with transformers, as stored and transposed."""
    report = Report(f"Decode MXFP4 to bfloat16, {torch.get_num_threads()} threads: {runs} rounds")
    for name in SHAPES:
        blocks, scales = weights(name)
        for order, (ours, theirs) in _decoders(blocks, scales).items():
            if not torch.equal(ours(), theirs()):
                raise RuntimeError(f"{name}, {order}: the decoders do not agree")
            label = f"{name}, {order}"
            here, there = f"{label}: ours", f"{label}: transformers"
            subjects = {here: _timed(ours), there: _timed(theirs)}
            samples = interleave(subjects, runs, label, warm_up=False)  # comparing has done it
            for subject, found in samples.items():
                report.add_samples(subject, found)
            ratio = paired(samples[here], samples[there], WALL, operator.truediv)
            report.add(here, "ours : transformers", ratio)
            report.checks.append(
                Check.of(f"{label}, ours : transformers", ratio, 1 / SPEED_UP, "ratio")
            )
    report.notes.append("as stored: (experts, out, in); transposed: (experts, in, out), contiguous")
    return report


def _decoders(
    blocks: torch.Tensor, scales: torch.Tensor
) -> dict[str, tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]]:
    """Return our decoder and that of transformers, for each order of the dimensions."""
    theirs = importlib.import_module("transformers.integrations.mxfp4").convert_moe_packed_tensors
    packed, (experts, rows, groups) = blocks.flatten(-2), scales.shape
    # It always transposes; a dimension of one is transposed without a copy.
    flat = blocks.view(-1, 1, groups, 16), scales.view(-1, 1, groups)
    return {
        "as stored": (
            lambda: decode(packed, scales),
            lambda: theirs(*flat).view(experts, rows, -1),
        ),
        "transposed": (
            lambda: decode(packed, scales).transpose(1, 2).contiguous(),
            lambda: theirs(blocks, scales),
        ),
    }


def _timed(function: Callable[[], torch.Tensor]) -> Callable[[], Sample]:
    """Return what times a decoder: seconds, those of all threads, and how much it writes in one."""

    def run() -> Sample:
        start, cpu = time.perf_counter(), time.process_time()
        decoded = function()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {WALL: wall, CPU: cpu, RATE: decoded.nbytes / wall / 1e9}

    return run


def load(folder: Path, runs: int) -> Report:
    """Load a checkpoint of experts, in turns with reading its bytes and decoding them."""
    path = _write_checkpoint(folder / "model.safetensors")
    kept = {name: weights(name) for name in SHAPES}
    loader, base = "safetensors, through the loader", "bytes read + decoded"
    subjects = {
        loader: functools.partial(_load, path),
        base: functools.partial(_read_and_decode, path, kept),
    }
    samples = interleave(subjects, runs, "load")
    report = Report(f"Load {LAYERS} layers of experts, {path.stat().st_size:,} B: {runs} rounds")
    for subject, found in samples.items():
        report.add_samples(subject, found)
    ratio = paired(samples[loader], samples[base], WALL, operator.truediv)
    report.add(loader, f"of {base}", ratio)
    report.checks.append(Check.of(f"{loader} : {base}", ratio, LOADING, "ratio"))
    return report


def _write_checkpoint(path: Path) -> Path:
    tensors: dict[str, torch.Tensor] = {}
    for layer in range(LAYERS):
        for name in SHAPES:
            blocks, scales = weights(name, layer)
            prefix = f"model.layers.{layer}.mlp.experts.{name}"
            tensors |= {f"{prefix}_blocks": blocks, f"{prefix}_scales": scales}
    importlib.import_module("safetensors.torch").save_file(tensors, path)
    return path


def _load(path: Path) -> Sample:
    """Give what vLLM's loader reads to ours, tensor by tensor, and let go of what was decoded."""
    start = time.perf_counter()
    count = sum(1 for _ in dequantized(_tensors(path), torch.bfloat16))
    wall = time.perf_counter() - start
    if count != LAYERS * len(SHAPES):
        raise RuntimeError(f"the loader gave {count} tensors")
    return {WALL: wall}


def _tensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    with importlib.import_module("safetensors").safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  the file cannot be iterated over
            yield name, file.get_tensor(name)


def _read_and_decode(path: Path, kept: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Sample:
    """Read the file into memory, and decode as many tensors of the same sizes."""
    start = time.perf_counter()
    with path.open("rb") as file:
        data = file.read()
    read = time.perf_counter()
    del data
    begin = time.perf_counter()
    for _ in range(LAYERS):
        for blocks, scales in kept.values():
            decode(blocks.flatten(-2), scales)
    decoded = time.perf_counter()
    parts = {"read, s": read - start, "decode, s": decoded - begin}
    return {WALL: sum(parts.values()), **parts}


def registering(folder: Path, runs: int) -> Report:
    """Register all factories, in turns with registering the classes themselves."""
    environ = {graft: vllm_environ(folder / "site", graft) for graft in ("1", "0")}
    lazily, eagerly = "factories, lazily", "vLLM's classes, eagerly"
    subjects = {
        lazily: lambda: run(folder, "register", environ=environ["1"]),
        eagerly: lambda: run(folder, "register_eagerly", environ=environ["0"]),
    }
    samples = interleave(subjects, runs, "register")
    report = Report(f"Register three architectures: {runs} rounds")
    for subject, found in samples.items():
        report.add_samples(subject, found)
    ratio = paired(samples[lazily], samples[eagerly], REGISTER, operator.truediv)
    report.add(lazily, f"of {eagerly}", ratio)
    spent = column(samples[lazily], REGISTER)
    report.checks.append(Check.of(lazily, spent, REGISTERING, "ms"))
    return report


def memory(folder: Path, runs: int) -> Report:
    """Run a GPT-OSS of 2 GB with packed experts, in turns with dequantized ones."""
    model = str(write_large_gpt_oss(folder / "model", **LARGE))
    environ = vllm_environ(folder / "site", "1")
    packed, dequantized = "model_mxfp4", "model_bf16"
    subjects = {
        packed: lambda: run(folder, "weights", model, "mxfp4", environ=environ),
        dequantized: lambda: run(folder, "weights", model, "bf16", environ=environ),
    }
    samples = interleave(subjects, runs, "memory", warm_up=False)
    size = sum(file.stat().st_size for file in Path(model).glob("*.safetensors"))
    report = Report(f"A GPT-OSS of {size:,} B on the engine: {runs} rounds")
    for subject, found in samples.items():
        report.add_samples(subject, found)
    ratio = paired(samples[packed], samples[dequantized], MEMORY, operator.truediv)
    report.add(packed, f"memory of {dequantized}", ratio)
    report.checks.append(Check.of(f"memory, {packed} : {dequantized}", ratio, PACKED, "ratio"))
    return report


PARTS: dict[str, tuple[Callable[[Path, int], Report], int]] = {
    "register": (registering, 5),
    "decode": (decoding, 5),
    "load": (load, 7),
    "memory": (memory, 1),
}


if __name__ == "__main__":
    command(__doc__ or "", PARTS)
