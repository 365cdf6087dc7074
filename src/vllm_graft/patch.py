"""What a declared patch is: plain values, without behaviour."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from packaging.specifiers import SpecifierSet

from .errors import ConflictError
from .ranges import overlap, written
from .target import Target, is_lazy

if TYPE_CHECKING:
    from datetime import date

    from packaging.requirements import Requirement
    from packaging.version import Version

    from .plan import Environment

Operation = Literal["replace", "wrap", "add", "set", "subclass", "run"]
Role = Literal["main", "api_server", "engine_core", "worker", "coordinator", "inspection"]
ROLES: tuple[str, ...] = get_args(Role)

GAP = "FILL IN:"
"""What the text of a field begins with that nobody has written yet."""

EXCLUSIVE = ("replace", "set", "add")
"""Operations that discard what was at the target: two of them on one target undo each other."""


@dataclass(frozen=True)
class Value:
    """A string to be `set` or `add`ed as it is, though it looks like a lazy `"module:name"`."""

    value: str


@dataclass(frozen=True)
class Location:
    """The file and line of a declaration."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Candidate:
    """One of the places that a target may have, and the vLLM versions that have it there."""

    target: Target
    vllm: SpecifierSet | None = None

    def __str__(self) -> str:
        return str(self.target) if self.vllm is None else f"{self.target} {written(self.vllm)}"


@dataclass(frozen=True)
class Patch:
    """One declared change to one target. `PatchSet` makes these; nothing else needs to.

    `candidates` are the places of the target as declared. `target` is the first of them, and in a
    plan the one that was chosen. `fixed_by` is the release that has the fix, or a function (or
    where to import it from) that tells it from the source; only checks ask it, and `review`.
    """

    id: str
    operation: Operation
    target: Target
    implementation: Any = field(repr=False)
    vllm: SpecifierSet
    why: str
    how: str
    upstream: str
    remove: str
    location: Location
    required: bool = True
    process: frozenset[str] | None = None
    when: "Callable[[Environment], bool] | None" = None
    requirements: tuple[str, ...] = ()
    order: int = 0
    after: tuple[str, ...] = ()
    together: str | None = None
    candidates: tuple[Candidate, ...] = ()
    fixed_by: "Version | Callable[..., object] | str | None" = None
    review: "date | None" = None

    @property
    def declared_target(self) -> str:
        """The target as it was declared, with all its candidates."""
        return " | ".join(map(str, self.candidates)) or str(self.target)

    @property
    def versions(self) -> str:
        """The range of vLLM versions as it is told: lower bound first."""
        return written(self.vllm)

    @property
    def requires(self) -> "tuple[Requirement, ...]":
        """The `requirements`, parsed."""
        return tuple(map(_parsed, self.requirements))

    @property
    def group(self) -> str | None:
        """The name, unique among all sets, of the patches that belong together with this one."""
        return f"{self.set_name}/{self.together}" if self.together else None

    @property
    def set_name(self) -> str:
        """The name of the set that the patch belongs to."""
        return self.id.partition("/")[0]

    @property
    def gaps(self) -> tuple[str, ...]:
        """The names of the fields that nobody has written yet, as `vllm-graft new` leaves them."""
        fields = ("why", "how", "upstream", "remove")
        return tuple(name for name in fields if getattr(self, name).startswith(GAP))

    @property
    def lazy(self) -> str | None:
        """The `"module:qualname"` to import for the implementation, where it is given so."""
        if isinstance(self.implementation, str) and (
            self.operation == "run" or is_lazy(self.implementation)
        ):
            return self.implementation
        return None


@functools.lru_cache
def _parsed(text: str) -> "Requirement":
    from packaging.requirements import Requirement  # few patches have any, and few plans ask

    return Requirement(text)


class PatchOptions(TypedDict, total=False):
    """The keywords of every operation; `vllm`, `why`, `how`, `upstream`, `remove` are required."""

    vllm: str
    why: str
    how: str
    upstream: str
    remove: str
    id: str
    required: bool
    process: str | Iterable[str] | None
    when: "Callable[[Environment], bool] | None"
    requires: str | Iterable[str]
    order: int
    after: str | Iterable[str]
    together: str | None
    fixed_by: "str | Callable[..., object] | None"
    review: "str | date | None"


def raise_if_conflicting(first: Patch, second: Patch) -> None:
    """Raise `ConflictError` where both patches claim one target in a common vLLM version.

    Where one of them has a choice of targets, only a plan can tell.
    """
    if (
        first.target == second.target
        and len(first.candidates) < 2
        and len(second.candidates) < 2
        and first.operation in EXCLUSIVE
        and second.operation in EXCLUSIVE
        and overlap(first.vllm, second.vllm)
    ):
        raise ConflictError(
            f"{second.location}: patch {second.id!r} ({second.operation}, vLLM {second.versions}) "
            f"and patch {first.id!r} ({first.operation}, vLLM {first.versions}, {first.location}) "
            f"both claim {second.target}, and the second would discard the first. "
            "Make one of them a `wrap`, make their ranges disjoint, or exclude one with "
            f"VLLM_GRAFT_PATCHES=-{second.id}."
        )
