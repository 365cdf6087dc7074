"""Counts who has an original and who has what took its place, by its own search."""

import json
import os
import sys
from pathlib import Path

from vllm_graft.landing import LANDINGS
from vllm_graft.process import PROCESS


def write() -> None:
    """Write for each patched target how many names have the original, and how many the patch."""
    counts = {
        landing.patch.id: [_names(landing.before), _names(landing.value)]
        for landing in LANDINGS
        if landing.patch.set_name == "aliased" and not landing.patch.target.parent
    }
    folder = Path(os.environ["EFFECTS_FOLDER"])
    (folder / f"{PROCESS.name}.json").write_text(json.dumps(counts))


def _names(value: object) -> int:
    """Return how many module-level names are bound to an object."""
    return sum(
        held is value
        for module in tuple(sys.modules.values())
        for held in tuple(getattr(module, "__dict__", {}).values())
    )
