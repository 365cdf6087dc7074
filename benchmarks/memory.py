"""The memory of a process and of those that it starts, looked at while they run."""

import os
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from benchmarks.measure import Sample

AT_ONCE = "all processes at once, MB"
LARGEST = "the largest process, MB"
_PAUSE = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


def peak(
    command: list[str], environ: Mapping[str, str], folder: Path, *, fine: Collection[int] = (0,)
) -> Sample:
    """Run a command in a folder and return the most memory that it had, with its children.

    What processes share is counted for each of them. Raises LookupError where the system does not
    tell, RuntimeError where the command fails.
    """
    if not (_PROC / "self" / "task" / str(os.getpid()) / "children").exists():
        raise LookupError("the children of a process can only be told on Linux")
    at_once = largest = 0.0
    process = subprocess.Popen(command, env=environ, cwd=folder, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        pids = list(_family(process.pid))
        at_once = max(at_once, sum(map(_resident, pids)))
        largest = max(largest, *map(_highest, pids))
        time.sleep(_PAUSE)
    if process.returncode not in fine:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return {AT_ONCE: at_once / 1e6, LARGEST: largest / 1e6}


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in _listed(_PROC / str(pid) / "task"):
        for child in _read(thread / "children").split():
            yield from _family(int(child))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it has ended
        return []


def _resident(pid: int) -> int:
    fields = _read(_PROC / str(pid) / "statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _highest(pid: int) -> int:
    """Return the most that a process ever had; the kernel keeps it, so no sample misses it."""
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
