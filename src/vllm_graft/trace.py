"""Trace lines: JSON lines in one file a process, or readable ones on stderr."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Protocol

from .patch import Patch
from .process import PROCESS
from .version import VllmVersion

Line = dict[str, Any]


def trace_line(
    event: str,
    vllm: VllmVersion | None,
    patch: Patch | None,
    *,
    module: str | None = None,
    ms: float | None = None,
    detail: str | None = None,
) -> Line:
    """Return what a line says of an event in this process; what has no value is left out."""
    line = {
        "ts": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "process": PROCESS.name,
        "roles": sorted(PROCESS.roles),
        "event": event,
        "patch": patch.id if patch else None,
        "module": module or (patch.target.module if patch else None),
        "target": str(patch.target) if patch else None,
        "vllm": vllm.text if vllm else None,
        "version_source": vllm.source if vllm else None,
        "ms": None if ms is None else round(ms, 3),
        "detail": detail,
    }
    return {key: value for key, value in line.items() if value is not None}


class Sink(Protocol):
    """Where trace lines go. `write` raises OSError where that fails."""

    def write(self, line: Line) -> None:
        """Write one line."""


class FileSink:
    """One file a process: `<folder>/<host>-<pid>.jsonl`.

    A line is one `write` to a file opened with O_APPEND, so that it is whole whatever else
    writes there. After a fork the child opens its own file.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._pid = -1
        self._fd = -1

    def write(self, line: Line) -> None:
        """Append the line; raise OSError where the disk does not take all of it."""
        data = (json.dumps(line, default=str) + "\n").encode()
        if os.write(self._descriptor(), data) != len(data):
            raise OSError("the disk took only a part of a trace line")

    def _descriptor(self) -> int:
        if self._pid != os.getpid():
            if self._fd >= 0:  # the parent's, inherited by fork
                os.close(self._fd)
                self._fd = -1
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            flags |= os.O_NOFOLLOW | os.O_NONBLOCK  # no link, and no pipe that nobody reads
            path = self._folder / f"{socket.gethostname()}-{os.getpid()}.jsonl"
            self._fd = os.open(path, flags, 0o600)
            self._pid = os.getpid()
        return self._fd


class StderrSink:
    """Lines among vLLM's own, in the shape of its log."""

    def write(self, line: Line) -> None:
        """Write the line to the descriptor: vLLM up to 0.30 puts its own prefix on `sys.stderr`."""
        prefix = f"({line['process']} pid={line['pid']})"
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(line["ts"]))
        os.write(2, f"{prefix} TRACE {when} [vllm-graft] {message(line)}\n".encode())


def message(line: Line) -> str:
    """Render what a trace line says, without when and where."""
    words = [f"{line['event']:<8}"]
    words += [str(line["patch"]), "at"] if "patch" in line else []
    words += [str(line[key]) for key in ("target", "module") if key in line][:1]
    if "ms" in line:
        words.append(f"{line['ms']:.3f} ms")
    if "detail" in line:
        words.append(str(line["detail"]))
    return " ".join(words)


def open_sink(where: str | None) -> Sink | None:
    """Return the sink for the value of `VLLM_GRAFT_TRACE`: `stderr`, a folder, or nothing."""
    if not where:
        return None
    return StderrSink() if where == "stderr" else FileSink(where)
