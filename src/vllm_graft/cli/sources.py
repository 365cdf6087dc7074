"""What commands that look at sources of vLLM have in common."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock as Mutex
from typing import Any, TypeVar

import click

from ..check.at_hand import AtHand
from ..check.locks import Locks
from ..check.project import Project
from ..check.source import Source, open_sources
from ..check.survey import Survey, survey
from ..errors import GraftError
from .render import WrongInput

_F = TypeVar("_F", bound=Callable[..., Any])


def source_options(command: _F) -> _F:
    """Give a command the vLLMs to look at, as `--vllm SOURCE…`, and the patches."""
    command = click.option(
        "--select", metavar="GLOBS", help="Patches by id, as in 'acme/*,-acme/kv-*'."
    )(command)
    command = click.option(
        "--vllm",
        "named",
        multiple=True,
        metavar="SOURCE",
        help="A vLLM to check against. Any number, also one after another.",
    )(command)
    return click.argument("sources", nargs=-1, metavar="[SOURCE]...")(command)


class told:
    """Tell errors of this package as a command does: the text alone, exit code 2."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, GraftError):
            raise WrongInput(str(error)) from error


def opened(project: Project, texts: Sequence[str]) -> list[Source]:
    """Open the vLLMs that are named, or else those of the project."""
    return open_sources(texts or map(project.located, project.vllm), _Fetching())


def surveyed(
    project: Project,
    texts: Sequence[str],
    select: str | None,
    lock: Path | None = None,
    kept: AtHand | None = None,
) -> Survey:
    """Judge the patches of a project on the vLLMs that are named, or else on its own."""
    catalog = project.catalog()
    patches = project.patches(catalog, select)
    sources = opened(project, texts)
    return survey(patches, sources, Locks(project, lock), broken=catalog.broken, kept=kept)


class _Fetching:
    """Says on stderr what is being fetched, each archive once."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._mutex = Mutex()  # archives are fetched by several threads

    def __call__(self, archive: str, _: int, size: int | None) -> None:
        with self._mutex:
            if archive not in self._said:
                self._said.add(archive)
                megabytes = f", {size / 1e6:.0f} MB" if size else ""
                print(f"fetching {archive}{megabytes}", file=sys.stderr)
