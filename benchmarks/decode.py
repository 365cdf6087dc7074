"""Five small changes on vLLM's decode path, twice: as patches, and as edits of its source.

Each counts the calls of a function that runs once in every step of decoding. What the five have
counted, in whatever process, is in a file of integers that the processes share, so that whoever
has started them can see that they were in effect.
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks import subjects

CHANGED = {
    "vllm.v1.core.sched.scheduler:Scheduler.schedule": "EngineCore",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.execute_model": "VllmWorker-0",
    "vllm.model_executor.models.llama:LlamaForCausalLM.compute_logits": "VllmWorker-0",
    "vllm.v1.sample.sampler:Sampler.forward": "VllmWorker-0",
    "vllm.v1.engine.output_processor:OutputProcessor.process_outputs": "MainProcess",
}
"""The functions that are changed, and the process in which each runs."""

PLACES = {target: place for place, target in enumerate(CHANGED)}
"""Where the calls of each are counted; the calls of all other patches are counted behind them."""

_COUNTER = """
import mmap
import os

with open(os.environ["BENCHMARK_COUNTS"], "r+b") as file:
    COUNTS = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
"""

_COUNTING = """
from benchmark_counter import COUNTS

PLACES = {places!r}


def counting(place):
    def count(original, *args, **kwargs):
        COUNTS[place] += 1
        return original(*args, **kwargs)

    return count
"""

_IMPORT = "from benchmark_counter import COUNTS as BENCHMARK_COUNTS"
_COUNT = "BENCHMARK_COUNTS[{place}] += 1"


def write_counts(path: Path) -> Path:
    """Write a file of counts, all zero, for the variable BENCHMARK_COUNTS; return its path."""
    path.write_bytes(bytes(8 * (len(PLACES) + 1)))
    return path


def write_patched(site: Path, others: Iterable[str]) -> Path:
    """Write the changes as patches, and with them patches of the functions that are not changed."""
    source = subjects.patch_set(
        [*CHANGED, *others],
        implementation=f"counting(PLACES.get(target, {len(PLACES)}))",
        definitions=_COUNTING.format(places=PLACES),
    )
    subjects.write_patches(site, source)
    (site / "benchmark_counter.py").write_text(_COUNTER)
    return site


def write_edited(site: Path, vllm: Path) -> Path:
    """Write a vLLM with the changes in its source: links to the installed one but for the edits.

    Raises LookupError where a function to be changed is not there, or more than once.
    """
    edited: dict[Path, str] = {}
    for target, place in PLACES.items():
        module, _, qualname = target.partition(":")
        path = vllm.joinpath(*module.split(".")[1:]).with_suffix(".py")
        source = edited.get(path) or path.read_text(encoding="utf-8")
        edited[path] = edit(source, qualname, _IMPORT, _COUNT.format(place=place))
    site.mkdir(parents=True)
    (site / "benchmark_counter.py").write_text(_COUNTER)
    _link(vllm, site / vllm.name, edited)
    return site


def edit(source: str, qualname: str, header: str, statement: str) -> str:
    """Put a line in front of a class, and a statement at the beginning of a method of it.

    Raises LookupError where there is not exactly one such method.
    """
    class_name, _, method = qualname.partition(".")
    found = [
        (outer, inner)
        for outer in ast.parse(source).body
        if isinstance(outer, ast.ClassDef) and outer.name == class_name
        for inner in outer.body
        if isinstance(inner, ast.FunctionDef) and inner.name == method
    ]
    if len(found) != 1:
        raise LookupError(f"vLLM's source has {len(found)} functions {qualname!r}, not one")
    (outer, inner), lines = found[0], source.splitlines(keepends=True)
    body = inner.body[1 if ast.get_docstring(inner) is not None else 0]
    indentation = " " * body.col_offset
    lines.insert(_first_line(body), f"{indentation}{statement}\n")
    lines.insert(_first_line(outer), f"{header}\n\n\n")
    return "".join(lines)


def _first_line(node: ast.stmt) -> int:
    """Return the index of the line in which a statement begins, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def _link(original: Path, copy: Path, edited: Mapping[Path, str]) -> None:
    """Make a folder of links to what another one holds, with the edited files in their places."""
    copy.mkdir()
    for entry in original.iterdir():
        if entry in edited:
            (copy / entry.name).write_text(edited[entry], encoding="utf-8")
        elif any(entry in path.parents for path in edited):
            _link(entry, copy / entry.name, edited)
        elif entry.name != "__pycache__":  # bytecode of edited files must not go to the original
            (copy / entry.name).symlink_to(entry)
