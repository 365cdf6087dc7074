"""Running the programs of `inside.py`: the vLLM, the environment, and what they measured."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import time_process

from vllm_graft.version import package_folder

INSIDE = Path(__file__).with_name("inside.py")


def installed_vllm() -> Path:
    """Return the folder of the installed package; raise LookupError where there is none."""
    folder = package_folder()
    if folder is None:
        raise LookupError("there is no vLLM in this environment")
    return folder


def vllm_environ(site: Path, graft: str) -> dict[str, str]:
    """Return an environment in which a folder's packages are installed, without other settings.

    vLLM's caches are beside the folder.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM")}
    return {
        **inherited,
        "PYTHONPATH": str(site),
        "VLLM_CACHE_ROOT": str(site.parent / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_GRAFT": graft,
    }


def run(folder: Path, program: str, *arguments: str, environ: dict[str, str]) -> Any:
    """Run a program of `inside.py` and return its result."""
    result, log = folder / "result.json", folder / f"{program}.log"
    command = [sys.executable, str(INSIDE), program, str(result), *arguments]
    time_process(command, environ, log)
    return json.loads(result.read_text())
