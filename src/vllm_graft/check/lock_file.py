"""The file `graft.lock`: TOML that is read in reviews, and is the same whoever writes it.

    format = 1

    [patches."acme/bounded-requests"]
    source = "6d2c1b0a9f8e7d5c"

    [[patches."acme/bounded-requests".targets]]
    vllm = ["0.31.0", "0.32.0"]
    target = "vllm.v1.core.sched.scheduler:Scheduler.add_request"
    path = "vllm/v1/core/sched/scheduler.py"
    signature = "(self, request: Request) -> None"
    body = "0a1b2c3d4e5f6071"

Neighbouring versions with the same target share an entry. `where` is left out where it is the
target itself, and `nature` where there is a definition to go by.
"""

import json
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ..errors import SourceError
from .lock import NATURES, Lock, LockedPatch, LockedTarget
from .lock_remedy import conflict, remedy
from .output import write_whole

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = 1

_HEAD = """\
# What each patch was last reviewed against, by vLLM version: where its target is, how it is called,
# and a fingerprint of its body. `vllm-graft lock` writes this file: review it, do not edit it.
"""
_WIDTH = 100


class UnreadableLock(SourceError):
    """A lock that is damaged, or has a newer format. `problem` is the message without the remedy.

    `restore` is what to do with the file itself.
    """

    def __init__(self, problem: str, restore: str = "Restore it", way_out: str = "") -> None:
        super().__init__(f"{problem}. {way_out}" if way_out else problem)
        self.problem = problem
        self.restore = restore


def read(file: Path) -> Lock:
    """Read a lock; raise `SourceError` where it is none, or has a newer format.

    That is `UnreadableLock` for what a new lock can take the place of.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        written = f"Write it with: vllm-graft lock --output {shlex.quote(str(file))}"
        raise SourceError(
            f"the lock {file} cannot be read: it does not exist. {written}"
        ) from error
    except OSError as error:
        raise SourceError(f"the lock {file} cannot be read: {error}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"the lock {file} cannot be read: {error}"
        raise _with_remedy(UnreadableLock(problem), data.decode(errors="replace"), file) from error
    return loads(text, str(file))


def write(lock: Lock, file: Path) -> None:
    """Write a lock; raise `SourceError` where that fails, and the file is as it was."""
    try:
        write_whole(file, dumps(lock))
    except OSError as error:
        raise SourceError(f"the lock {file} cannot be written: {error}") from error


def dumps(lock: Lock) -> str:
    """Return the text of a lock."""
    lines = [_HEAD + f"format = {FORMAT}"]
    for name in sorted(lock.patches):
        lines += _written(name, lock.patches[name])
    return "\n".join(lines) + "\n"


def loads(text: str, name: str = "graft.lock") -> Lock:
    """Return the lock that a text is; `name` is what errors call it."""
    try:
        return _parsed(text, name)
    except UnreadableLock as error:
        raise _with_remedy(error, text, name) from error


def _with_remedy(error: UnreadableLock, text: str, name: str | Path) -> UnreadableLock:
    way_out = remedy(text, str(name), error.restore)
    return UnreadableLock(error.problem, error.restore, way_out)


def _parsed(text: str, name: str) -> Lock:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(text, name, error) from error
    number = table.get("format")
    if type(number) is not int or number < 1:
        raise _wrong(name, "format", number, f"the number of its format, at most {FORMAT}")
    if number > FORMAT:
        raise UnreadableLock(
            f"the lock {name} was written by a newer vllm-graft: it has format {number}, and this "
            f"one reads {FORMAT}",
            "Install a newer vllm-graft",
        )
    _Table(table, name, "").refuse_others("format", "patches")
    patches = _Table(table, name, "").table("patches")
    return Lock({each: _read_patch(patches, each) for each in sorted(patches.values)})


def _no_toml(text: str, name: str, error: ValueError) -> UnreadableLock:
    line = conflict(text)
    if line is None:
        return UnreadableLock(f"the lock {name} is not TOML: {error}")
    return UnreadableLock(
        f"the lock {name} has the conflict markers of a merge, the first in line {line}",
        f"Take one side with 'git checkout --ours {shlex.quote(name)}', and lock the versions of "
        "the other",
    )


def _written(name: str, locked: LockedPatch) -> Iterator[str]:
    key = f"patches.{_quoted(name)}"
    yield f"\n[{key}]\nsource = {_quoted(locked.source)}"
    for versions, target in _grouped(locked.targets):
        yield f"\n[[{key}.targets]]"
        yield _list("vllm", versions)
        for each in fields(target):
            value = getattr(target, each.name)
            if value != _default(each.name, target):
                yield f"{each.name} = {_quoted(value)}"


def _default(name: str, target: LockedTarget) -> Any:
    """Return what a field is where it is not written."""
    if name == "where":
        return target.target if target.nature == "known" else ""
    return _DEFAULTS.get(name)


_DEFAULTS: dict[str, Any] = {
    each.name: each.default for each in fields(LockedTarget) if each.name != "target"
}


def _grouped(
    targets: Mapping[Version, LockedTarget],
) -> Iterator[tuple[list[Version], LockedTarget]]:
    group: list[Version] = []
    for version in sorted(targets):
        if group and targets[version] != targets[group[0]]:
            yield group, targets[group[0]]
            group = []
        group.append(version)
    if group:
        yield group, targets[group[0]]


def _list(key: str, versions: list[Version]) -> str:
    text = f"{key} = [{', '.join(_quoted(str(each)) for each in versions)}]"
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _quoted(text: str) -> str:
    """Return a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read_patch(patches: "_Table", name: str) -> LockedPatch:
    patch = patches.table(name)
    patch.refuse_others("source", "targets")
    targets: dict[Version, LockedTarget] = {}
    for entry in patch.tables("targets"):
        target = _read_target(entry)
        for version in entry.versions("vllm"):
            if version in targets:
                raise _wrong(entry.name, entry.key("vllm"), str(version), "each version once")
            targets[version] = target
    return LockedPatch(patch.text("source"), {each: targets[each] for each in sorted(targets)})


def _read_target(entry: "_Table") -> LockedTarget:
    names = [each.name for each in fields(LockedTarget)]
    entry.refuse_others("vllm", *names)
    target = entry.text("target")
    found = {name: entry.text(name) for name in names if name in entry.values}
    nature = found.get("nature", "known")
    if nature not in NATURES:
        raise _wrong(entry.name, entry.key("nature"), nature, f"one of {', '.join(NATURES)}")
    if nature == "known":
        found.setdefault("where", target)
        for name in ("path", "body"):  # without them everything would be a change
            entry.text(name)
    return LockedTarget(**found)  # type: ignore[arg-type]  # `nature` has been looked at


class _Table:
    """A table of the file, which knows where it is in it."""

    def __init__(self, values: dict[str, Any], name: str, path: str) -> None:
        self.values = values
        self.name = name
        self._path = path

    def key(self, name: str) -> str:
        return f"{self._path}.{json.dumps(name) if '/' in name else name}".lstrip(".")

    def refuse_others(self, *known: str) -> None:
        for each in self.values:
            if each not in known:
                raise UnreadableLock(
                    f"the lock {self.name} has the key {self.key(each)!r}, which has no meaning. "
                    f"There may be {', '.join(known)}"
                )

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str):
            raise _wrong(self.name, self.key(name), value, "a string")
        return value

    def table(self, name: str) -> "_Table":
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise _wrong(self.name, self.key(name), value, "a table")
        return _Table(value, self.name, self.key(name))

    def tables(self, name: str) -> "list[_Table]":
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise _wrong(self.name, self.key(name), value, "a list of tables")
        return [
            _Table(each, self.name, self.key(f"{name}[{index}]"))
            for index, each in enumerate(value)
        ]

    def versions(self, name: str) -> list[Version]:
        value = self.values.get(name)
        try:
            if isinstance(value, list) and value:
                return [Version(each) for each in value]
        except (InvalidVersion, TypeError):
            pass
        raise _wrong(self.name, self.key(name), value, "a list of versions, one at least")


def _wrong(name: str, key: str, value: object, expected: str) -> UnreadableLock:
    given = f"is {value!r}" if value is not None else "is missing"
    return UnreadableLock(
        f"the lock {name} cannot be read: {key} {given}, and should be {expected}"
    )
