"""`vllm-graft lock`: write down what every patch was reviewed against."""

import difflib
import sys
from dataclasses import replace
from pathlib import Path

import click

from ..builtin import BUILTIN
from ..catalog import Catalog
from ..check import lock_file
from ..check.lock import Lock
from ..check.own_source import own_source
from ..check.project import Project, find_project
from ..check.renewal import Renewal, renewal
from ..check.survey import survey
from ..errors import ProjectError
from ..patch import Patch
from .render import console, json_option, print_json
from .sources import opened, source_options, told


@click.command()
@source_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The lock to renew. By default that of the project.",
)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail if it would change.")
@click.option(
    "--anew",
    is_flag=True,
    help="Give up what the lock says now: a damaged one, or versions that are not named.",
)
@json_option
def lock(
    sources: tuple[str, ...],
    named: tuple[str, ...],
    select: str | None,
    output: Path | None,
    only_check: bool,
    anew: bool,
    as_json: bool,
) -> None:
    """Write graft.lock: what each patch meets in each vLLM of its range, to be reviewed.

    SOURCE is as for `vllm-graft check`. Versions that are not named keep their entries, except with
    --anew. Nothing is written where a patch does not fit a vLLM of its range. Patches that ship
    with vllm-graft have their own lock; outside of a project with a table [tool.vllm-graft] only
    --select locks them.
    """
    if anew and only_check:
        raise click.UsageError("--check and --anew exclude each other.")
    with told():
        project = find_project()
        file = output or project.lock
        before, damage = _read(file, anew=anew)
        made = _renewed(project, Lock() if anew else before, (*named, *sources), select)
        made = replace(made, before=before)
    is_current = _text(file) == lock_file.dumps(made.after)
    if not (only_check or made.refused or is_current):
        with told():
            lock_file.write(made.after, file)
    if as_json:
        print_json(_as_dict(made, file, is_current=is_current, damage=damage))
    else:
        _print(made, file, is_current=is_current, only_check=only_check, damage=damage)
    sys.exit(1 if made.refused or (only_check and not is_current) else 0)


def _read(file: Path, *, anew: bool) -> tuple[Lock, str]:
    """Return the lock that there is, and what was wrong with one that is written anew."""
    if not file.exists():
        return Lock(), ""
    try:
        return lock_file.read(file), ""
    except lock_file.UnreadableLock as error:
        if not anew:
            raise
        return Lock(), error.problem


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _renewed(project: Project, before: Lock, texts: tuple[str, ...], select: str | None) -> Renewal:
    catalog = project.catalog()
    for broken in catalog.broken:
        raise broken.error
    patches = _chosen(project, catalog, select)
    sets = {patch.set_name for patch in patches}
    declared = [patch for patch in catalog.patches if patch.set_name in sets]
    checked = survey(patches, opened(project, texts))
    verdicts = [cell.verdict for row in checked.rows for cell in row.cells]
    return renewal(before, declared, verdicts, own_source)


def _chosen(project: Project, catalog: Catalog, select: str | None) -> tuple[Patch, ...]:
    patches = project.patches(catalog, select)
    if select is None and not project.has_table:
        patches = tuple(each for each in patches if each.set_name not in BUILTIN)
    if not patches:
        raise ProjectError(
            "there are no patches to lock: no set is installed besides those that ship with "
            "vllm-graft, and no `sets` of [tool.vllm-graft] names one"
        )
    return patches


def _as_dict(made: Renewal, file: Path, *, is_current: bool, damage: str) -> dict[str, object]:
    return {
        "lock": str(file),
        "damage": damage or None,
        "current": is_current,
        "changed": list(made.changed),
        "dropped": list(made.dropped),
        "refused": [
            {
                "patch": each.patch.id,
                "vllm": each.version.text,
                "state": each.fit,
                "reason": each.explained,
            }
            for each in made.refused
        ],
    }


def _print(made: Renewal, file: Path, *, is_current: bool, only_check: bool, damage: str) -> None:
    out = console()
    for each in made.refused:
        version = each.version.version
        out.print(f"{each.patch.id} on vLLM {version}: {each.fit}: {each.explained}", style="red")
    if made.refused:
        out.print(
            f"Nothing was written to {file}: all patches must fit what they are locked for. Mend "
            "these, or narrow their ranges; vllm-graft check tells more."
        )
    elif is_current:
        out.print(f"{file} is up to date: {len(made.after.patches)} locked.")
    elif only_check:
        out.print("".join(_diff(made, file)).rstrip("\n"))
        out.print(f"{file} is out of date. Review the difference, and run vllm-graft lock.")
    else:
        out.print(
            f"{file}: {len(made.after.patches)} locked, {len(made.changed)} of them new or "
            f"changed; {len(made.dropped)} dropped."
        )
        if damage:
            out.print(f"What was there is given up: {damage}.", style="yellow")


def _diff(made: Renewal, file: Path) -> "list[str]":
    before, after = _text(file), lock_file.dumps(made.after)
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return list(difflib.unified_diff(*lines, f"a/{file.name}", f"b/{file.name}"))
