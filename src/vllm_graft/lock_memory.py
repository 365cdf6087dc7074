"""What comparing patches with their locks gave before, for as long as no file has changed.

Files are told apart by their contents. Their times and sizes would do for a check that is run again
after a change; but images have files of equal times, and what is let run is not looked at again.
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .check.cache import code_stamp, default_folder
from .check.output import write_whole
from .locked import Unlike

_LOG = logging.getLogger("vllm.graft.check")


@dataclass(frozen=True)
class Remembered:
    """An answer of before."""

    answer: Unlike | None


class LockMemory:
    """Answers by key, each with a state that it counts for, kept in the user's cache folder.

    One that cannot be read or written is empty. Every process of a run has the same answers, so
    that the last one to write may win.
    """

    def __init__(self, name: str) -> None:
        self._entries: dict[str, Any] = {}
        self._digests: dict[str, str] = {}
        self._changed = False
        self._file: Path | None = None
        try:
            self._file = default_folder() / f"locked-{_digest(name.encode())}.json"
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RuntimeError):  # RuntimeError: nobody has a home here
            return
        if isinstance(found, dict) and found.get("code") == code_stamp():
            self._entries = found["entries"]

    def recall(self, key: str, state: str) -> Remembered | None:
        """Return what was remembered under a key, while nothing that it rests on has changed."""
        entry = self._entries.get(key)
        if entry is None or entry["state"] != state:
            return None
        known = all(self._stamp(path) == stamp for path, stamp in entry["files"].items())
        answer = entry["answer"]
        return Remembered(answer and Unlike(*answer)) if known else None

    def remember(self, key: str, state: str, answer: Unlike | None, files: Iterable[Path]) -> None:
        """Remember an answer for as long as files, there or not, are as they are now."""
        stamps = {str(file): self._stamp(str(file)) for file in files}
        self._entries[key] = {"state": state, "answer": answer, "files": stamps}
        self._changed = True

    def save(self) -> None:
        """Write the answers, so that the next process has them."""
        if not self._changed or self._file is None:
            return
        text = json.dumps({"code": code_stamp(), "entries": self._entries}, separators=(",", ":"))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, text)
        except OSError as error:
            _LOG.debug("no memory of locks: %s", error)

    def _stamp(self, path: str) -> str:
        if path not in self._digests:
            try:
                self._digests[path] = _digest(Path(path).read_bytes())
            except OSError:
                self._digests[path] = ""
        return self._digests[path]


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()
