"""The command line `vllm-graft`.

Exit codes: 0 fine, 1 something falls short, 2 wrong usage, or output that cannot be written.
"""

import atexit
import errno
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click

from ..check import COLLECTING

COMMANDS = {
    "list": "list_patches",
    "status": "status",
    "check": "check",
    "lock": "lock",
    "docs": "docs",
    "doctor": "doctor",
    "trace": "trace",
    "run": "run",
    "demo": "demo",
    "new": "new",
}
"""The commands: each in the module of its name, and what it is called there."""

READING = frozenset({"check", "lock", "docs"})
"""Those that do nothing but read sources, and write what they found."""

_UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class Commands(click.Group):
    """Imports a command when it is asked for: all of them take longer than a check does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in READING:
            gc.set_threshold(*COLLECTING)
        module = import_module(f".{cmd_name}", __name__)
        command: click.Command = getattr(module, COMMANDS[cmd_name])
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vllm-graft")
def main() -> None:
    """Declared, versioned, traced patches for vLLM."""


def script() -> None:
    """Run `vllm-graft` as a program: a command that reads ends without taking objects down."""
    if sys.stdout is None:  # closed by the shell: what is printed is for nobody
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # until the process ends
    try:
        main(prog_name="vllm-graft")
    except SystemExit as ended:
        if sys.argv[1:2] and sys.argv[1] in READING and isinstance(ended.code, int):
            _end(ended.code)
        raise
    except OSError as error:
        if error.errno not in _UNWRITTEN:
            raise
        _end(_unwritten(error))


def _end(code: int) -> None:
    """End the process: to take down what was read and imported takes a tenth of a check."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        code = _unwritten(error)
    os._exit(code)


def _unwritten(error: OSError) -> int:
    with suppress(OSError):
        print(f"vllm-graft: the output cannot be written: {error}", file=sys.stderr, flush=True)
    return 2
