"""Trace files, read together as one time line."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from ..trace import Line, message


class TraceFolder:
    """The trace files of a folder; each `read` returns what has been written since the last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}

    def read(self) -> list[Line]:
        """Return the new lines of all processes, by time. Lines that are no JSON are left out."""
        found: list[Line] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            found.extend(self._new_lines(path))
        return sorted(found, key=lambda line: line["ts"])

    def _new_lines(self, path: Path) -> Iterator[Line]:
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            data = file.read()
        whole, newline, _rest = data.rpartition(b"\n")
        self._offsets[path] = self._offsets.get(path, 0) + len(whole) + len(newline)
        for text in whole.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("ts"), float) and "event" in line:
                yield line


def timed(line: Line) -> str:
    """Render one line of the time line: when, in which process, what."""
    when = time.strftime("%H:%M:%S", time.localtime(line["ts"]))
    process = f"{line.get('process', '?')} ({line.get('pid', '?')})"
    return f"{when}.{int(line['ts'] % 1 * 1000):03d}  {process:<24} {message(line)}"
