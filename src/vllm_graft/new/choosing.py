"""Which of the paths that an old file may name it names in one vLLM."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from packaging.specifiers import SpecifierSet

from ..check.source import Source
from ..check.tree import PACKAGE
from ..target import Target
from .imported import Choice, known_module
from .old_file import Assignment
from .places import Place, as_written, place, target_of


def named(path: str, modules: Collection[str], sources: Sequence[Source]) -> Target:
    """Return the target that a path names; `modules` are those that the file imports."""
    return target_of(path, known_module(path, modules), tuple(sources))


def places(
    assignment: Assignment,
    modules: Collection[str],
    sources: Sequence[Source],
    *,
    calls_original: bool,
) -> Iterator[Place]:
    """Yield the place of an assignment in each vLLM that the file does it in.

    Where it does it in none of them, the place says so as its problem.
    """
    nowhere = True
    for source in sources:
        choice = _chosen(assignment, modules, source)
        if choice is not None:
            target = named(choice.path, modules, sources)
            done = place(assignment, target, source, calls_original=calls_original)
            yield replace(done, choice=choice)
            nowhere = False
    if nowhere:
        first = assignment.choices[0]
        target = named(first.path, modules, sources)
        asked = assignment.vllm or " and ".join(each.vllm for each in assignment.choices)
        problem = f"the file does this for vLLM {asked}, which was not checked"
        operation = as_written(assignment.given)
        yield Place(sources[-1], target, target, operation, problem=problem)


def _chosen(assignment: Assignment, modules: Collection[str], source: Source) -> Choice | None:
    """Return what the file takes with one vLLM; None where it does nothing."""
    if not _is_for(source, assignment.vllm):
        return None
    found = [each for each in assignment.choices if _is_for(source, each.vllm)]
    there = (each for each in found if _is_there(each.base, modules, source))
    return next(there, found[0] if found else None)


def _is_for(source: Source, vllm: str) -> bool:
    return source.version.matches(SpecifierSet(vllm))


def _is_there(path: str, modules: Collection[str], source: Source) -> bool:
    if path.partition(".")[0] != PACKAGE:
        return True
    target = named(path, modules, [source])
    if source.tree.locate(target.module) is None:
        return False
    return not target.qualname or source.resolver.resolve(target).state != "missing"
