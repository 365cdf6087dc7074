"""The order in which the patches of a plan are applied."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from .errors import ConflictError
from .patch import EXCLUSIVE, Patch
from .target import Target


def in_order(patches: Iterable[Patch]) -> list[Patch]:
    """Sort patches so that what discards an original comes first, then by `order` and `after`.

    `after` holds within one module, whose patches are applied together. Raises `ConflictError`
    for a circle, and for an `after` that names a patch of another module.
    """
    ranked = sorted(patches, key=lambda patch: (patch.operation not in EXCLUSIVE, patch.order))
    if not any(patch.after for patch in ranked):
        return ranked
    ordered = _topological(ranked)
    _check_nothing_is_discarded(ordered)
    return ordered


def _topological(ranked: Sequence[Patch]) -> list[Patch]:
    """Hold back each patch until those in its `after` are placed; keep the rank otherwise."""
    rank = {patch.id: index for index, patch in enumerate(ranked)}
    sorter = TopologicalSorter({patch.id: _predecessors(patch, ranked, rank) for patch in ranked})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        raise ConflictError(
            f"{ranked[rank[circle[0]]].location}: {' after '.join(circle)} is a circle. "
            "Take one of these `after` out."
        ) from None
    ordered: list[Patch] = []
    ready: list[int] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, rank[name])
        ordered.append(ranked[heappop(ready)])
        sorter.done(ordered[-1].id)
    return ordered


def _check_nothing_is_discarded(ordered: Iterable[Patch]) -> None:
    placed: dict[Target, Patch] = {}
    for patch in ordered:
        earlier = placed.setdefault(patch.target, patch)
        if earlier is not patch and patch.operation in EXCLUSIVE:
            raise ConflictError(
                f"{patch.location}: patch {patch.id!r} ({patch.operation}) is declared to come "
                f"after {earlier.id!r} on {patch.target}, and would discard it. Take the `after` "
                "out: what replaces a target comes first by itself."
            )


def _predecessors(patch: Patch, ranked: Sequence[Patch], rank: Mapping[str, int]) -> list[str]:
    """Return the ids in a patch's `after` that take part; the others leave nothing to wait for."""
    present = [name for name in patch.after if name in rank]
    for name in present:
        module = ranked[rank[name]].target.module
        if module != patch.target.module:
            raise ConflictError(
                f"{patch.location}: patch {patch.id!r} is declared to come after {name!r}, but "
                f"their modules differ ({patch.target.module}, {module}) and each is patched when "
                "vLLM imports it. Use `after` between patches of one module."
            )
    return present
