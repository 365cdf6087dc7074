"""Answering ahead what patches ask of several trees, on all cores."""

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..patch import Patch
from ..target import Target
from . import COLLECTING
from .example import Example, LockedExample
from .examples import Examples
from .source import Source
from .verdicts import placed

if TYPE_CHECKING:
    from concurrent.futures import Future


_Shown: TypeAlias = str | LockedExample | None
"""What shows how a target is defined: a vLLM by its name, or a lock."""


def prepare(
    patches: Sequence[Patch], sources: Sequence[Source], examples: Mapping[str, Examples]
) -> None:
    """Have the answers of all trees in the cache, as far as several processes make it quicker.

    A process answers for one tree at a time and writes what it found, so that a tree is in memory
    only meanwhile. What fails there fails again, and is told, where the answer is used.
    """
    targets = sorted({str(target) for patch in patches for target in targets_of(patch)})
    cold = [each for each in sources if not _is_known(each, targets)]
    workers = min(len(cold), cores())
    if workers < 2:
        return
    # Imported here, since a check that the cache answers needs none of it.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads can hang
    with ProcessPoolExecutor(workers, spawn, gc.set_threshold, COLLECTING) as pool:
        _wait([(each, pool.submit(_answer, each.text, targets)) for each in cold])
        if all(_is_known(each, targets) for each in sources):
            lost = [(each, list(_lost(patches, each, examples))) for each in cold]
            _wait([(each, pool.submit(_search, each.text, asked)) for each, asked in lost if asked])


def cores() -> int:
    """Return how many cores this process may use, which can be less than the machine has."""
    there = os.cpu_count() or 1
    return min(there, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else there


def _wait(asked: "list[tuple[Source, Future[None]]]") -> None:
    for source, answer in asked:
        if answer.exception() is None:
            source.resolver.reload()


def _lost(
    patches: Iterable[Patch], source: Source, examples: Mapping[str, Examples]
) -> Iterator[tuple[str, _Shown]]:
    """Yield the targets that a tree lacks, and what shows how each is defined."""
    for patch in patches:
        target, found = placed(patch, source.resolver, source.version)
        if found.state == "missing" and patch.operation != "add":
            example = examples[patch.id](target)
            yield str(target), example.text if isinstance(example, Example) else example


def targets_of(patch: Patch) -> Iterator[Target]:
    """Yield what the verdict of a patch asks for."""
    for target in [each.target for each in patch.candidates] or [patch.target]:
        yield target
        if patch.operation == "add":
            yield Target(target.module, target.parent)


def _is_known(source: Source, targets: Iterable[str]) -> bool:
    return all(source.resolver.knows(Target.parse(each)) for each in targets)


def _answer(text: str, targets: Sequence[str]) -> None:
    resolver = Source.open(text).resolver
    for target in targets:
        resolver.resolve(Target.parse(target))
    resolver.save()
    resolver.release()  # else its memory waits for the garbage collector


def _search(text: str, lost: Sequence[tuple[str, _Shown]]) -> None:
    named = {shown for _, shown in lost if isinstance(shown, str)}
    sources = {name: Source.open(name) for name in {text, *named}}
    resolver = sources[text].resolver
    for target, shown in lost:
        parsed = Target.parse(target)
        if isinstance(shown, str):
            known = sources[shown].resolver
            moves = resolver.moves(parsed, Example(known, known.resolve(parsed)))
        else:
            moves = resolver.moves(parsed, shown)
        for move in moves[:1]:
            resolver.resolve(move.target)
    resolver.save()
    for source in sources.values():
        source.resolver.release()
