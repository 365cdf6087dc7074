"""The command line `vllm-graft`.

Exit codes: 0 fine, 1 something falls short, 2 wrong usage.
"""

from importlib import import_module

import click

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


class Commands(click.Group):
    """Imports a command when it is asked for: all of them take longer than a check does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".{cmd_name}", __name__)
        command: click.Command = getattr(module, COMMANDS[cmd_name])
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vllm-graft")
def main() -> None:
    """Declared, versioned, traced patches for vLLM."""
