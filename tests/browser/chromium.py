"""The browser of this machine: Playwright's own builds are not to be had everywhere."""

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")
VARIABLE = "VLLM_GRAFT_CHROMIUM"

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str:
    """Return the path of a Chromium; raise FileNotFoundError, saying what to do, without one."""
    given = os.environ.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            raise FileNotFoundError(f"{VARIABLE}={given!r} is no file")
        return given
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise FileNotFoundError(
            f"there is no {', '.join(NAMES)}. Run `make browser`, install Debian's package "
            f"`chromium`, or name one with {VARIABLE}"
        )
    return found
