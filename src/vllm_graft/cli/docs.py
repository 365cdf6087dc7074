"""`vllm-graft docs`: the catalogue of patches, written, printed, or compared with a file."""

import sys
from difflib import unified_diff
from pathlib import Path

import click

from ..check.output import write_whole
from ..check.project import find_project
from .render import WrongInput
from .sources import source_options, surveyed, told


@click.command()
@source_options
@click.option(
    "--output",
    "-o",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write. Without it the document is printed.",
)
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; fail where FILE is out of date."
)
def docs(
    sources: tuple[str, ...],
    named: tuple[str, ...],
    select: str | None,
    file: Path | None,
    only_check: bool,
) -> None:
    """Write the catalogue of patches: what each is for, and its state by vLLM, as Markdown.

    SOURCE is as for `vllm-graft check`. With --check, exit 1 where the file would change.
    """
    if only_check and file is None:
        raise click.UsageError("--check is for a file: name it with --output.")
    text = _document((*named, *sources), select)
    if file is None:
        click.echo(text, nl=False)
    elif only_check:
        _compare(file, text)
    else:
        _write(file, text)


def _document(texts: tuple[str, ...], select: str | None) -> str:
    from ..check.at_hand import Nothing
    from ..check.catalogue import catalogue  # brings jinja2, which other commands need not have

    with told():
        project = find_project()
        survey = surveyed(project, texts, select, kept=Nothing())
    for broken in survey.broken:
        click.echo(f"Error: {broken.error}", err=True)
    if survey.broken:  # a catalogue without its patches would say that there are none
        sys.exit(1)
    return catalogue(survey, project.root)


def _compare(file: Path, text: str) -> None:
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(f"{file} cannot be read: {error}") from error
    if before == text:
        return
    lines = before.splitlines(keepends=True), text.splitlines(keepends=True)
    click.echo("".join(unified_diff(*lines, str(file), "what vllm-graft docs writes")), nl=False)
    click.echo(f"{file} is out of date. Write it with: vllm-graft docs --output {file}", err=True)
    sys.exit(1)


def _write(file: Path, text: str) -> None:
    try:
        write_whole(file, text)
    except OSError as error:
        raise WrongInput(f"{file} cannot be written: {error}") from error
