"""`vllm-graft check`: every patch against every vLLM that is named, without importing any."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..check.project import Project, find_project
from ..check.survey import Survey
from .render import WrongInput, console, print_json, table
from .sources import source_options, surveyed, told

if TYPE_CHECKING:
    from ..check.bisect import Bisection


@click.command()
@source_options
@click.option("--verbose", "-v", is_flag=True, help="A row for each vLLM, also where all agree.")
@click.option("--strict", is_flag=True, help="Warnings fail as errors do.")
@click.option("--diff", is_flag=True, help="Show what upstream has changed in targets.")
@click.option(
    "--lock",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The lock to compare with. By default that of the project, or of each set.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page with everything, for a browser.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.option("--github", "as_github", is_flag=True, help="Print annotations for GitHub.")
@click.option("--gitlab", "as_gitlab", is_flag=True, help="Print a Code Quality report.")
def check(
    sources: tuple[str, ...],
    named: tuple[str, ...],
    select: str | None,
    verbose: bool,
    strict: bool,
    diff: bool,
    lock: Path | None,
    page: Path | None,
    as_json: bool,
    as_github: bool,
    as_gitlab: bool,
) -> None:
    """Tell which patch still fits which vLLM, from its sources alone.

    SOURCE is `installed`, a version (0.32.0), range of versions ('>=0.31') or the last few
    (newest:3) on the package index, a wheel, an sdist, a folder, or a revision of a git clone
    (PATH@REVISION). Without one the table [tool.vllm-graft] of the project says, or else what is
    installed is meant. For a range of revisions (PATH@A..B) the first commit that breaks each patch
    is looked for.
    """
    asked = {"json": as_json, "github": as_github, "gitlab": as_gitlab}
    forms = [name for name, is_asked in asked.items() if is_asked]
    if len(forms) > 1:
        raise click.UsageError("--json, --github and --gitlab exclude each other.")
    with told():
        project = find_project()
        texts = (*named, *sources)
        made = surveyed(project, texts, select, lock)
        if diff or page is not None:
            from ..check.changes import with_changes

            made = with_changes(made)
        bisections = _bisected(project, made, texts)
    if page is not None:
        _write_page(page, made, project)
    if not forms:
        from .matrix import print_survey

        print_survey(console(), made, verbose=verbose, diffs=diff)
        _print_bisections(bisections)
    else:
        _print_as(forms[0], made, bisections)
    falls_short = not made.is_fine or (strict and any(f.level == "warning" for f in made.findings))
    sys.exit(1 if falls_short else 0)


def _bisected(project: Project, made: Survey, texts: Sequence[str]) -> "list[Bisection]":
    named = [each for each in texts or project.vllm if ".." in each and not Path(each).exists()]
    if not named:
        return []
    from ..check.bisect import bisect
    from ..check.revision import RevisionRange

    ranges = filter(None, map(RevisionRange.parse, named))
    patches = [row.patch for row in made.rows]
    return [found for each in ranges for found in bisect(patches, each)]


def _print_bisections(bisections: "list[Bisection]") -> None:
    if bisections:
        out = console()
        out.print()
        rows = ((each.patch.id, each.outcome, each.said) for each in bisections)
        out.print(table("patch", "between", "", rows=rows))


def _print_as(form: str, made: Survey, bisections: "list[Bisection]") -> None:
    if form == "json":
        values = made.as_dict()
        if bisections:
            values["bisections"] = [each.as_dict() for each in bisections]
        print_json(values, indent=None)
        return
    from ..check import formats

    if form == "github":
        click.echo(formats.github(made, formats.repository(Path.cwd())), nl=False)
    else:
        click.echo(formats.gitlab(made, formats.repository(Path.cwd())), nl=False)


def _write_page(file: Path, made: Survey, project: Project) -> None:
    from ..check.output import write_whole
    from ..check.page import page

    try:
        write_whole(file, page(made, project.root))
    except OSError as error:
        raise WrongInput(f"{file} cannot be written: {error}") from error
