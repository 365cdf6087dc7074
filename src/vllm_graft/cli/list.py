"""`vllm-graft list`: every declared patch, with all its fields."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ..catalog import load_catalog
from ..patch import Patch
from .render import console, json_option, print_json

if TYPE_CHECKING:
    from rich.console import Console


@click.command("list")
@json_option
def list_patches(as_json: bool) -> None:
    """Show every declared patch of the installed sets."""
    catalog = load_catalog()
    if as_json:
        print_json(
            {
                "patches": [
                    fields(patch) | {"distribution": catalog.origins[patch.set_name]}
                    for patch in catalog.patches
                ],
                "broken": [{"set": each.name, "error": str(each.error)} for each in catalog.broken],
            }
        )
    else:
        out = console()
        for patch_set in catalog.sets:
            out.print(f"{patch_set.name}  ({catalog.origins[patch_set.name]})", style="bold")
            for patch in patch_set.patches:
                _print_patch(out, patch)
        for broken in catalog.broken:
            out.print(str(broken.error), style="red")
    sys.exit(1 if catalog.broken else 0)


def fields(patch: Patch) -> dict[str, Any]:
    """Return a patch's fields as plain values."""
    return {
        "id": patch.id,
        "operation": patch.operation,
        "target": patch.declared_target,
        "implementation": patch.lazy or _shown(patch.implementation),
        "vllm": patch.versions,
        "required": patch.required,
        "process": sorted(patch.process) if patch.process else None,
        "when": _shown(patch.when) if patch.when else None,
        "requires": list(patch.requirements),
        "order": patch.order,
        "after": list(patch.after),
        "together": patch.together,
        "why": patch.why,
        "how": patch.how,
        "upstream": patch.upstream,
        "remove": patch.remove,
        "fixed_by": _probe(patch.fixed_by),
        "review": str(patch.review) if patch.review else None,
        "declared": str(patch.location),
    }


def _probe(value: Any) -> str | None:
    return _shown(value) if callable(value) else value and str(value)


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}:{name}" if name else repr(value)


def _print_patch(out: "Console", patch: Patch) -> None:
    from rich.text import Text

    out.print()
    out.print(f"  {patch.id}", style="cyan")
    values = fields(patch)
    values["required"] = "yes" if patch.required else "no"
    values["process"] = ", ".join(values["process"] or ()) or "every process"
    for name in ("requires", "after"):
        values[name] = ", ".join(values[name])
    for name, value in values.items():
        if name != "id" and value not in ("", None):
            out.print(Text(f"    {name:<14} ", style="dim").append(str(value), style="not dim"))
