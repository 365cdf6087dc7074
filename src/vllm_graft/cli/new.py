"""`vllm-graft new`: a package of patches, from nothing or from old patch files."""

from pathlib import Path

import click

from ..errors import NewPackageError
from .sources import told

_EXAMPLE = "acme"


@click.command()
@click.argument("names", nargs=-1, metavar="[PACKAGE]")
@click.option(
    "--from",
    "old",
    multiple=True,
    metavar="FILE...",
    help="Translate old patch files. Without PACKAGE, print the declarations.",
)
@click.option(
    "--vllm",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="With --from: a vLLM in which targets are resolved; installed by default.",
)
@click.option("--path", type=click.Path(path_type=Path), help="The folder; ./PACKAGE by default.")
def new(
    names: tuple[str, ...], old: tuple[str, ...], sources: tuple[str, ...], path: Path | None
) -> None:
    """Make a package of patches, with entry point, tests and CI.

    It has a first patch, or with --from those of old patch files, which assign to names of vLLM.
    The files are read, not executed.
    """
    packages, files = _sorted_out(names, old)
    with told():
        if files and path and not packages:
            raise NewPackageError("--path is for a package. Name it, for example 'acme-vllm'")
        if files:
            _from_files(packages, files, sources or ("installed",), path)
        elif not packages:
            raise NewPackageError("no name is given. Name the package, for example 'acme-vllm'")
        elif sources:
            raise NewPackageError("--vllm only goes with --from")
        else:
            _from_nothing(packages[0], path)


def _sorted_out(names: tuple[str, ...], old: tuple[str, ...]) -> tuple[list[str], list[Path]]:
    """Tell the name of the package from further files after `--from`, as a shell's `*.py` gives."""
    files = [each for each in names if old and each.endswith(".py")]
    packages = [each for each in names if each not in files]
    if len(packages) > 1:
        raise click.UsageError(f"one package at a time, not {', '.join(map(repr, packages))}")
    return packages, [Path(each) for each in (*old, *files)]


def _from_nothing(package: str, path: Path | None) -> None:
    from ..new.folder import write_folder
    from ..new.names import Names
    from ..new.package import package_files

    names = Names.parse(package)
    folder = path or Path(names.distribution)
    write_folder(folder, package_files(names))
    _print_next(folder, f"src/{names.package}/patches.py has a first patch")


def _from_files(
    packages: list[str], files: list[Path], texts: tuple[str, ...], path: Path | None
) -> None:
    from ..check.source import open_sources
    from ..new.folder import free_folder, write_folder
    from ..new.names import Names
    from ..new.translation import translate
    from ..new.writing import declarations, translated_files

    names = Names.parse(packages[0] if packages else _EXAMPLE)
    folder = free_folder(path or Path(names.distribution)) if packages else None
    done = translate(files, open_sources(texts), names)
    if folder is None:
        click.echo(declarations(done, names), nl=False)
    else:
        write_folder(folder, translated_files(done, names))
    for file in done.idle:
        click.echo(f"nothing to declare in {file.path}", err=True)
    for each in done.left:
        click.echo(f"not translated: {each}", err=True)
    if folder is not None:
        patches = _counted(len(done.declarations), "patch", "patches")
        gaps = sum(each.gaps for each in done.declarations)
        fields = _counted(gaps, "field", "fields")
        _print_next(folder, f"{patches} in src/{names.package}/patches.py, {fields} to fill in")


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _print_next(folder: Path, what: str) -> None:
    click.echo(
        f"Made {folder}: {what}. Next:\n\n"
        f"  cd {folder}\n"
        "  python -m pip install -e '.[test]'\n"
        "  python -m pytest\n"
        "  vllm-graft check\n"
    )
