"""How a target is defined in a release that has it, to recognise it by where it is missing."""

from collections.abc import Iterator, Sequence

from ..patch import Patch
from ..target import Target
from .cache import Example
from .source import Source


class Examples:
    """The definitions of a patch's targets: of the newest vLLM in its range that has them."""

    def __init__(self, patch: Patch, sources: Sequence[Source]) -> None:
        in_range = [each for each in sources if each.version.matches(patch.vllm)]
        self._sources = [*reversed(in_range), *(each for each in sources if each not in in_range)]
        self._known: dict[Target, tuple[Source, Example] | None] = {}

    def __call__(self, target: Target) -> Example | None:
        """Return a definition of a target; None where no vLLM at hand has it."""
        found = self._first(target)
        return found[1] if found else None

    def source(self, target: Target) -> Source | None:
        """Return the vLLM that the definition of a target is of."""
        found = self._first(target)
        return found[0] if found else None

    def _first(self, target: Target) -> tuple[Source, Example] | None:
        if target not in self._known:
            self._known[target] = next(self._found(target), None)
        return self._known[target]

    def _found(self, target: Target) -> Iterator[tuple[Source, Example]]:
        for source in self._sources:
            resolution = source.resolver.resolve(target)
            if resolution.state == "found" and resolution.path:
                yield source, Example(source.resolver, resolution)
