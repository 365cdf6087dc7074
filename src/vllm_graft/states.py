"""What `vllm_graft.status()` answers."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["armed", "applied", "skipped", "failed"]


@dataclass(frozen=True)
class PatchStatus:
    """The state of one patch in this process; `reason` says why it is skipped or failed.

    `ms` is how long applying it took, in milliseconds. `notes` are what was remarkable about
    applying it: names in other modules that were rebound, what still holds the original, a target
    that was not vLLM's own.
    """

    id: str
    state: State
    target: str
    required: bool
    reason: str = ""
    ms: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """What `status()` answers: the layer in this process.

    `activated_by` is `pth`, `start`, `sitecustomize` or `plugin` (late), or None where the layer
    is off or vLLM has not been imported.
    """

    activated_by: str | None
    process: str
    roles: tuple[str, ...]
    vllm: str | None
    version_source: str | None
    patches: tuple[PatchStatus, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many patches are in each state."""
        found = Counter(patch.state for patch in self.patches)
        return {state: found[state] for state in ("applied", "skipped", "failed", "armed")}

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain values, for JSON."""
        return asdict(self)
