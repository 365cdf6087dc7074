"""`vllm-graft status`: the plan for the installed vLLM, without importing it."""

import os
import sys

import click

from ..activation import current_plan
from ..errors import GraftError
from ..plan import Plan
from ..settings import Settings
from .render import console, json_option, print_json, table


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show which patches would be armed for this vLLM, and why others would not."""
    try:
        plan = current_plan(Settings.read(os.environ))
    except GraftError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(as_dict(plan))
    else:
        _print(plan)
    sys.exit(1 if plan.problems else 0)


def as_dict(plan: Plan) -> dict[str, object]:
    """Return a plan as plain values."""
    return {
        "enabled": Settings.read(os.environ).enabled,
        "vllm": plan.vllm.text,
        "version_source": plan.vllm.source,
        "patches": [
            {
                "id": decision.patch.id,
                "state": "armed" if decision.armed else "skipped",
                "cause": decision.cause,
                "reason": decision.reason,
                "operation": decision.patch.operation,
                "target": str(decision.patch.target),
                "vllm": str(decision.patch.vllm),
                "required": decision.patch.required,
            }
            for decision in plan.decisions
        ],
        "problems": [str(problem) for problem in plan.problems],
        "warnings": list(plan.warnings),
    }


def _print(plan: Plan) -> None:
    out = console()
    out.print(f"vLLM {plan.vllm}", style="bold")
    if os.environ.get("VLLM_GRAFT") == "0":
        out.print("The layer is off: VLLM_GRAFT=0. Without that:", style="yellow")
    out.print(
        table(
            "patch",
            "state",
            "operation",
            "target",
            "reason",
            rows=(
                (
                    decision.patch.id,
                    "armed" if decision.armed else "skipped",
                    decision.patch.operation,
                    decision.patch.target,
                    decision.reason,
                )
                for decision in plan.decisions
            ),
        )
    )
    for warning in plan.warnings:
        out.print(f"warning: {warning}", style="yellow")
    for problem in plan.problems:
        out.print(f"problem: {problem}", style="red")
