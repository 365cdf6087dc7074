"""How a declaration writes the places of its target, and the versions that it is for."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from packaging.version import Version

from ..check.source import Source
from ..check.tree import PACKAGE
from .choosing import named
from .conditions import joined
from .imported import Choice
from .old_file import Assignment
from .places import Place
from .ranges import covering


class Targets:
    """The places of one patch: those that were found, and those that the file knows besides."""

    def __init__(
        self,
        assignment: Assignment,
        modules: Collection[str],
        places: Sequence[Place],
        sources: Sequence[Source],
    ) -> None:
        self._assignment = assignment
        self._modules = modules
        self._places = sorted(places, key=_version, reverse=True)
        self._sources = sources

    @property
    def written(self) -> str:
        """The target as it is declared, with versions where they tell its places apart."""
        found = {each: self._targets(each) for each in self._assignment.choices}
        if len(found) > 1 and all(len(each) < 2 for each in found.values()):
            texts = [f"{self._target(each)} {each.vllm}".strip() for each in found]
            every = {text.split(" ")[0] for text in texts}
            return every.pop() if len(every) == 1 else " | ".join(dict.fromkeys(texts))
        return self._by_version()

    def _by_version(self) -> str:
        versions: dict[str, list[Version]] = {}
        for each in self._places:
            versions.setdefault(str(each.target), []).append(_version(each))
        if len(versions) == 1:
            return next(iter(versions))
        return " | ".join(f"{target} {covering(found)}" for target, found in versions.items())

    @cached_property
    def vllm(self) -> str:
        """The versions that were checked, as far as the file's condition does not say more."""
        asked = self._assignment.vllm
        covered = covering(map(_version, self._places))
        if not asked or not self._is_found:
            return asked or covered
        if asked.startswith("==") and "," not in asked:
            return asked
        return joined(asked, *_missing_bounds(asked, map(_version, self._places)))

    @property
    def question(self) -> str:
        """What to ask of places in vLLM that none that was checked has; empty without any."""
        left = [
            each
            for each in self._assignment.choices
            if not self._targets(each) and each.path.partition(".")[0] == PACKAGE
        ]
        if not self._is_found or len(self._assignment.choices) == 1:
            left = []
        names = [f"{self._target(each)} {each.vllm}".strip() for each in left]
        if not names:
            return ""
        return (
            f"for which versions is {' and '.join(names)}, which none that was checked has? Put "
            "them into vllm=, or take the place out"
        )

    @property
    def _is_found(self) -> bool:
        return any(each.choice is not None for each in self._places)

    def _targets(self, choice: Choice) -> list[str]:
        found = (str(each.target) for each in self._places if each.choice == choice)
        return list(dict.fromkeys(found))

    def _target(self, choice: Choice) -> str:
        found = self._targets(choice)
        return found[0] if found else str(named(choice.path, self._modules, self._sources))


def how_chosen(assignment: Assignment) -> Iterator[str]:
    """Yield how the file chooses among several places, as a comment."""
    if len(assignment.choices) < 2:
        return
    bases = dict.fromkeys(f"{each.base} {each.vllm}".strip() for each in assignment.choices)
    if len(bases) == len(assignment.choices):
        yield f"The file takes the first of these that there is: {' | '.join(bases)}."
        return
    paths = dict.fromkeys(f"{each.path} {each.vllm}".strip() for each in assignment.choices)
    yield f"The file takes the first of these that it can assign: {' | '.join(paths)}."


def _missing_bounds(asked: str, checked: "Iterator[Version] | map[Version]") -> Iterator[str]:
    """Yield the bounds that a condition leaves open, as they were checked."""
    versions = sorted(checked)
    signs = re.findall(r"[<>]", asked)
    if ">" not in signs and "~=" not in asked:
        yield f">={versions[0].major}.{versions[0].minor}"
    if "<" not in signs and "~=" not in asked:
        yield f"<{versions[-1].major}.{versions[-1].minor + 1}"


def _version(place: Place) -> Version:
    version = place.source.version.version
    assert version is not None
    return version
