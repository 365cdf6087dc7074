"""`vllm-graft status`: the plan for the installed vLLM, without importing it."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..activation import current_plan
from ..errors import BrokenSetError, GraftError, SettingError
from ..models.explain import Explanation, explain
from ..models.registry import BUILTIN_MODELS, Model, get_models
from ..plan import Plan
from ..settings import Settings
from .render import WrongInput, console, json_option, print_json, table


@click.command()
@click.option(
    "--model",
    "config",
    type=click.Path(path_type=Path, exists=True),
    help="A model's config.json, or its folder: show which implementation it would have.",
)
@click.option(
    "--additional-config",
    metavar="JSON",
    help="With --model, what vLLM would be given under that name.",
)
@click.option("--draft", is_flag=True, help="With --model: it is the draft of another model.")
@json_option
def status(config: Path | None, additional_config: str | None, draft: bool, as_json: bool) -> None:
    """Show which patches would be armed for this vLLM, and why others would not.

    With --model, show which implementation of a model would be chosen, and why, without starting
    an engine. vLLM is imported then, for its current platform, unless VLLM_GRAFT_PLATFORM_TARGET is
    set.
    """
    if (additional_config is not None or draft) and config is None:
        raise click.UsageError("--additional-config and --draft are for --model.")
    try:
        plan = current_plan(Settings.read(os.environ))
        if config is not None:
            for problem in plan.problems:  # with which vLLM would not start
                raise problem
            given, models = _read(additional_config), _selected(plan)
            _show_model(explain(config, given, models, draft=draft), as_json)
            return
    except SettingError as error:
        raise WrongInput(str(error)) from error
    except GraftError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(as_dict(plan))
    else:
        _print(plan)
    sys.exit(1 if plan.problems else 0)


def _read(additional_config: str | None) -> Any:
    try:
        return json.loads(additional_config or "{}")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--additional-config") from error


def _selected(plan: Plan) -> dict[str, Model]:
    """Return the models whose factories a plan registers, by architecture."""
    armed = {patch.id for patch in plan.armed}
    try:
        models = get_models()
    except BrokenSetError:  # told by the plan, unless the user goes on without any factory
        models = BUILTIN_MODELS
    return {model.architecture: model for model in models if model.id in armed}


def _show_model(explanations: list[Explanation], as_json: bool) -> None:
    if as_json:
        print_json({"models": [asdict(each) for each in explanations]})
    else:
        for each in explanations:
            _print_model(each)
    sys.exit(1 if any(each.error for each in explanations) else 0)


def _print_model(explanation: Explanation) -> None:
    out = console()
    out.print(explanation.architecture, style="bold")
    for name, value in asdict(explanation).items():
        if value and name != "architecture":
            out.print(f"  {name:<15} {value}", style="red" if name == "error" else None)


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
                "notes": list(decision.notes),
                "operation": decision.patch.operation,
                "target": str(decision.patch.target),
                "vllm": decision.patch.versions,
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
