"""`vllm-graft run -- COMMAND`: start a command with the `sitecustomize` stub on its path."""

import importlib.util
import os
from pathlib import Path

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...]) -> None:
    """Start COMMAND with the layer activated, where .pth files are not processed."""
    environ = dict(os.environ)
    paths = [str(stub_folder()), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        raise click.UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error


def stub_folder() -> Path:
    """Return the folder whose `sitecustomize` activates the layer."""
    spec = importlib.util.find_spec("vllm_graft_stub")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        return Path(folder)
    return Path(__file__).parents[3] / "sitecustomize_stub"  # a checkout on PYTHONPATH
