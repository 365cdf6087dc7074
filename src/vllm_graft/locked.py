"""What is said of patches that are not as they were locked."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .errors import LockError
from .version import VllmVersion

if TYPE_CHECKING:
    from .plan import Decision


REVIEW = "to see what changed: vllm-graft check --diff; once that is reviewed: vllm-graft lock"
APPROVE = "once it is reviewed: vllm-graft lock"


class Unlike(NamedTuple):
    """How a patch is not as it was locked, and what to do; nothing where the reason says that."""

    reason: str
    remedy: str = ""


def refusal(decision: "Decision", vllm: VllmVersion) -> LockError:
    """Return the error for a required patch that must not run."""
    patch = decision.patch
    remedy = f"  {decision.remedy}\n" if decision.remedy else ""
    return LockError(
        f"patch {patch.id!r} does not run, as VLLM_GRAFT_LOCK=require asks: {decision.reason}\n"
        f"  target: {patch.target} in vLLM {vllm}\n"
        f"  declared at: {patch.location}\n"
        f"{remedy}  to go on without it: VLLM_GRAFT_PATCHES=-{patch.id}"
    )


def warnings_of(decisions: "Iterable[Decision]", *, is_refused: bool) -> Iterator[str]:
    """Yield one warning for all patches of which the lock says the same.

    Where vLLM is refused, its error says what is left out.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for decision in decisions:
        for note in decision.notes:
            found.setdefault((note, "warn: in effect all the same"), []).append(decision.patch.id)
        if decision.cause == "lock" and not is_refused:
            found.setdefault((decision.reason, "require: left out"), []).append(decision.patch.id)
    for (reason, outcome), ids in found.items():
        yield f"{', '.join(map(repr, ids))}: {reason} (VLLM_GRAFT_LOCK={outcome})"
