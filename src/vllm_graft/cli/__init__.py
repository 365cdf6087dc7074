"""The command line `vllm-graft`.

Exit codes: 0 fine, 1 something falls short, 2 wrong usage.
"""

import click

from .check import check
from .demo import demo
from .docs import docs
from .doctor import doctor
from .list import list_patches
from .lock import lock
from .run import run
from .status import status
from .trace import trace


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vllm-graft")
def main() -> None:
    """Declared, versioned, traced patches for vLLM."""


for _command in (list_patches, status, check, lock, docs, doctor, trace, run, demo):
    main.add_command(_command)
