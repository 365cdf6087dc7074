"""Patches that belong together: if one of them is not in effect, none of them counts as applied.

Within a process the plan and the hooks see to that. What fails in one process is told to the
others through a file in a folder of the run, whose name they inherit.
"""

import atexit
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .patch import Patch
from .process import PROCESS

VARIABLE = "VLLM_GRAFT_RUN"
"""Names the folder in which the processes of one run tell each other of groups that failed."""


class Groups:
    """The groups that failed in this run, in whichever process of this machine."""

    def __init__(self) -> None:
        self._failed: dict[str, str] = {}
        self._chosen: set[str] = set()

    def share(self) -> None:
        """Let this process and those that it starts know of each other's failures."""
        if VARIABLE in os.environ:
            return
        folder = Path(tempfile.gettempdir()) / f"vllm-graft-{uuid.uuid4().hex}"
        os.environ[VARIABLE] = str(folder)
        self._chosen.add(str(folder))
        atexit.register(_remove, folder, os.getpid())

    def fail(self, patch: Patch, reason: str, how: str = "failed") -> None:
        """Count the group of a patch as failed from now on, in every process of the run."""
        if patch.group is None or self.failure(patch) is not None:
            return
        place = f"{PROCESS.name}, pid {os.getpid()}"
        self._failed[patch.group] = f"{patch.id!r} {how} ({place}): {reason}"
        _write(patch.group, self._failed[patch.group])

    def failure(self, patch: Patch) -> str | None:
        """Return why the group of a patch failed; None where it has not, or there is no group."""
        if patch.group is None:
            return None
        if patch.group not in self._failed:
            reason = _read(patch.group)
            if reason is None:
                return None
            self._failed[patch.group] = reason
        return self._failed[patch.group]

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Count no group as failed in a block, and forget at its end what failed there.

        A process that is started in the block is told of the block's failures alone.
        """
        failed, self._failed = self._failed, {}
        before = os.environ.pop(VARIABLE, None)
        try:
            yield
        finally:
            self._failed = failed
            folder = os.environ.pop(VARIABLE, None)
            if folder in self._chosen:  # and not somebody else's
                shutil.rmtree(folder, ignore_errors=True)
            if before is not None:
                os.environ[VARIABLE] = before


def _folder() -> Path | None:
    """Return the folder of the run where it is there and this user's."""
    name = os.environ.get(VARIABLE)
    if name is None or Path(name).stat().st_uid != os.getuid():
        return None
    return Path(name)


def _write(group: str, reason: str) -> None:
    name = os.environ.get(VARIABLE)
    if name is None:
        return
    with suppress(OSError):  # others do not learn of it; this process has said what went wrong
        Path(name).mkdir(mode=0o700, exist_ok=True)
        folder = _folder()
        if folder is not None:
            # In one step: a process may be reading, or write of the same group.
            draft = folder / f"{os.getpid()}.draft"
            draft.write_text(json.dumps(reason), encoding="utf-8")
            draft.replace(_file(folder, group))


def _read(group: str) -> str | None:
    try:
        folder = _folder()
        found = json.loads(_file(folder, group).read_text(encoding="utf-8")) if folder else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, str) else None


def _file(folder: Path, group: str) -> Path:
    return folder / f"{group.replace('/', '@')}.json"


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in forked children
        shutil.rmtree(folder, ignore_errors=True)


GROUPS = Groups()
