"""Which assignments of an old file are one patch, and where that patch belongs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from packaging.specifiers import SpecifierSet

from ..check.source import Source
from ..ranges import overlap
from ..target import Target
from .choosing import named, places
from .old_file import Assignment, OldFile, Remark
from .places import Place
from .reach import others

_SHOWN = 3


@dataclass(frozen=True)
class Merged:
    """One patch: the assignment that it is, others that come to the same, and its places."""

    assignment: Assignment
    places: tuple[Place, ...]
    also: tuple[Assignment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> Place:
        """Its place in the newest vLLM that takes it."""
        return max(self.places, key=_rank)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """All the assignments that it stands for."""
        return (self.assignment, *self.also)


def _rank(place: Place) -> tuple[bool, object]:
    return not place.problem, place.source.version.version


def placed(file: OldFile, sources: Sequence[Source]) -> tuple[list[Merged], list[Remark]]:
    """Return each assignment with its places, and remarks on what has none."""
    found: list[Merged] = []
    remarks: list[Remark] = []
    modules = file.imported.modules
    whole = {
        id(each.statement)
        for each in file.assignments
        if not all(named(one.path, modules, sources).qualname for one in each.choices)
    }
    for assignment in file.assignments:
        if id(assignment.statement) in whole:
            reason = "it puts something in the place of a module"
            remarks.append(remark(file, assignment, reason, stays=True))
            continue
        reads = any(
            f"{saved.path}.".startswith(f"{assignment.path}.") for saved in file.saved.values()
        )
        everywhere = places(assignment, modules, sources, calls_original=reads)
        found.append(Merged(assignment, tuple(everywhere)))
    return found, remarks


def merged(
    file: OldFile, found: Iterable[Merged]
) -> tuple[list[Merged], list[Merged], list[Remark]]:
    """Return the patches, what others of the same target supersede, and remarks on both."""
    kept: list[Merged] = []
    superseded: list[Merged] = []
    remarks: list[Remark] = []
    for same in _by_target(_at_definitions(list(found))):
        last = same[-1]
        read_at = max(a.read_at for m in same for a in m.assignments)
        if read_at:
            reason = f"line {read_at} reads what it has assigned"
            remarks += [remark(file, a, reason, stays=True) for m in same for a in m.assignments]
            continue
        if any(_condition(each) != _condition(last) for each in same):
            reason = "its target is assigned several times, under conditions"
            remarks += [remark(file, a, reason, stays=True) for m in same for a in m.assignments]
            continue
        for each in same[:-1]:
            if each.assignment.given == last.assignment.given:
                last = replace(last, also=(*last.also, *each.assignments))
            else:
                superseded.append(each)
                reason = f"line {last.assignment.line} assigns the same target again"
                remarks.append(remark(file, each.assignment, reason))
        kept.append(last)
    return kept, superseded, remarks


def remark(file: OldFile, assignment: Assignment, reason: str, *, stays: bool = False) -> Remark:
    """Return the remark that an assignment is not translated."""
    code = file.text.splitlines()[assignment.line - 1].strip()
    paths = tuple(dict.fromkeys(each.path for each in assignment.choices))
    return Remark(assignment.line, code, reason, stays, paths, assignment.applier)


def _condition(each: Merged) -> tuple[str, str]:
    return each.assignment.when, each.assignment.vllm


def _by_target(found: Iterable[Merged]) -> list[list[Merged]]:
    """Return the patches of each target; those for other versions are by themselves."""
    groups: dict[Target, list[Merged]] = {}
    for each in found:
        groups.setdefault(each.newest.target, []).append(each)
    return [part for group in groups.values() for part in _by_versions(group)]


def _by_versions(group: list[Merged]) -> list[list[Merged]]:
    ranges = list(dict.fromkeys(each.assignment.vllm for each in group))
    specifiers = list(map(SpecifierSet, ranges))
    if any(overlap(one, other) for one, other in combinations(specifiers, 2)):
        return [group]
    return [[each for each in group if each.assignment.vllm == vllm] for vllm in ranges]


def _at_definitions(found: list[Merged]) -> list[Merged]:
    """Patch names that are re-exports where they are defined, if that reaches the same modules."""
    done: list[Merged] = []
    for each in found:
        definition = each.newest.definition
        if definition is None or each.newest.target == definition:
            done.append(each)
            continue
        given = each.assignment.given
        twins = [
            other
            for other in found
            if other.assignment.given == given
            and definition in (other.newest.target, other.newest.definition)
        ]
        done.append(_at_definition(each, definition, twins))
    return done


def _at_definition(each: Merged, definition: Target, twins: list[Merged]) -> Merged:
    named = each.newest.named
    if any(twin.newest.target == definition for twin in twins):
        note = (
            f"{named.module} has {named.qualname} from {definition.module}: armed before that is "
            "imported, one patch there is enough"
        )
        return _moved(each, note)
    patched = {twin.newest.named.module for twin in twins}
    more = others(each.newest.source.tree, definition, patched)
    if not more:
        users = ", ".join(sorted(patched))
        return _moved(each, f"the file names {named}; {definition} is used by {users} alone")
    shown = ", ".join(more[:_SHOWN]) + (", …" if len(more) > _SHOWN else "")
    note = (
        f"{named} is a re-export of {definition}. A patch there would reach more: {len(more)} "
        f"modules mention the name besides ({shown})"
    )
    return replace(each, notes=(*each.notes, note))


def _moved(each: Merged, note: str) -> Merged:
    places = [
        replace(found, target=found.definition) if found.definition is not None else found
        for found in each.places
    ]
    return replace(each, places=tuple(places), notes=(*each.notes, note))
