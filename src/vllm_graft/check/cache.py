"""Answers on disk, so that what has been asked of a tree once is not worked out again."""

import json
import os
import sys
import zlib
from dataclasses import fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..target import Target
from ..version import VllmVersion
from .foreign import foreign
from .output import write_whole
from .resolution import Move, Resolution
from .tree import Tree, is_of_vllm

if TYPE_CHECKING:
    from .example import AnyExample
    from .names import Names
    from .resolve import Resolver

_WHOLE = "*"
"""Stands for the whole tree among the modules that an answer rests on."""


class CachedResolver:
    """Follows targets in one tree as `Resolver` does, and remembers the answers.

    An answer counts for as long as the modules that it rests on are the same: a wheel or revision
    never changes, a folder is asked for the times and sizes of their files, for where those are
    that have no source, and for the distribution that it is of. Nothing is written before `save`.
    A cache that cannot be read or written is none.
    """

    def __init__(self, tree: Tree, folder: Path | None = None) -> None:
        self.tree = tree
        self._file = (folder or default_folder()) / f"{_checksum(tree.key)}.json"
        self.reload()

    def reload(self) -> None:
        """Read the answers on disk, which another process may have written."""
        self._entries: dict[str, Any] = _read(self._file, _head(self.tree))
        self._valid: dict[str, bool] = {}
        self._stamps: dict[str, str] = {}
        self._changed = False

    @cached_property
    def resolver(self) -> "Resolver":
        """What answers where the cache does not. It opens the tree."""
        from .resolve import Resolver  # a third of a run that the cache answers

        return Resolver(self.tree, self._names)

    @cached_property
    def version(self) -> VllmVersion:
        """The version of the tree."""
        if not self.tree.fixed:
            return self.tree.version
        if "version" not in self._entries:
            found = self.tree.version
            self._entries["version"] = [found.text, found.source]
            self._changed = True
        text, source = self._entries["version"]
        return VllmVersion(text, source)

    def resolve(self, target: Target) -> Resolution:
        """Return what a target is; raise `SourceError` where a module on the way is not Python."""
        if not is_of_vllm(target):  # packages change without a trace in the tree
            return foreign(target, self.tree)
        stored = self._stored("targets", str(target))
        if stored is not None:
            return _resolution(target, stored)
        found, modules = self.resolver.resolve_with_modules(target)
        self._store("targets", str(target), _values(found), modules)
        return found

    def knows(self, target: Target) -> bool:
        """Tell whether `resolve` would answer without reading any source."""
        return not is_of_vllm(target) or self._stored("targets", str(target)) is not None

    def release(self) -> None:
        """Let go of what was read of the tree. The answers stay."""
        self.__dict__.pop("resolver", None)
        self.tree.release()

    def moves(self, target: Target, example: "AnyExample | None" = None) -> list[Move]:
        """Return where a missing target may be now; see `moved.moves`."""
        if not is_of_vllm(target):
            return []
        key = f"{target} {example.key if example else ''}"
        stored = self._stored("moves", key)
        if stored is not None:
            return [Move(Target.parse(text), *rest) for text, *rest in stored]
        from .moved import moves

        found = moves(self.resolver, target, example)
        values = [(str(each.target), *list(vars(each).values())[1:]) for each in found]
        self._store("moves", key, values, frozenset({_WHOLE}))
        return found

    def defines(self, target: Target) -> bool:
        """Tell whether the text of a module has a definition; see `Resolver.defines`."""
        stored = self._stored("definitions", str(target))
        if stored is None:
            stored = self.resolver.defines(target)
            self._store("definitions", str(target), stored, frozenset({target.module}))
        return bool(stored)

    def save(self) -> None:
        """Write the answers, so that the next run has them."""
        if not self._changed:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(self._entries, separators=(",", ":")))
            self._changed = False
        except OSError as error:
            import logging

            logging.getLogger("vllm.graft.check").debug("no cache: %s", error)

    def _names(self) -> "Names":
        from .names import names_of

        return names_of(self.tree, self._file.with_suffix(".names"), self._stamp(_WHOLE))

    def _stored(self, table: str, key: str) -> Any:
        entry = self._entries.get(table, {}).get(key)
        if entry is None or not all(map(self._is_valid, entry["modules"])):
            return None
        return entry["value"]

    def _store(self, table: str, key: str, value: Any, modules: frozenset[str]) -> None:
        self._changed = True
        stamps = self._entries.setdefault("stamps", {})
        for module in modules:
            if not self._is_valid(module):
                self._discard(module)
            stamps[module] = self._stamp(module)
            self._valid[module] = True
        entry = {"modules": sorted(modules), "value": value}
        self._entries.setdefault(table, {})[key] = entry

    def _discard(self, module: str) -> None:
        """Drop the answers that rest on what a module was before."""
        for table in ("targets", "moves", "definitions"):
            entries = self._entries.get(table, {})
            for key in [key for key, entry in entries.items() if module in entry["modules"]]:
                del entries[key]

    def _is_valid(self, module: str) -> bool:
        if self.tree.fixed:
            return True
        if module not in self._valid:
            stored = self._entries.get("stamps", {}).get(module)
            self._valid[module] = stored == self._stamp(module)
        return self._valid[module]

    def _stamp(self, module: str) -> str:
        """Return what changes with a module, as it is when it is asked for first."""
        if module not in self._stamps:
            self._stamps[module] = self._stamped(module)
        return self._stamps[module]

    def _stamped(self, module: str) -> str:
        if self.tree.fixed:
            return ""
        if module == _WHOLE:
            return _checksum(self.tree.fingerprint())
        states = " ".join(map(self.tree.stamp, self.tree.candidates(module)))
        if states.strip():
            return states
        place = self.tree.locate(module)  # what has no source is a place all the same
        return f"{place.kind} {place.path}" if place else ""


def default_folder() -> Path:
    """Return the folder for answers in the user's cache folder (XDG Base Directory)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "vllm-graft" / "check"


def _values(found: Resolution) -> dict[str, Any]:
    return {
        each.name: getattr(found, each.name)
        for each in fields(found)
        if each.name not in ("target", "node", "where")
        and getattr(found, each.name) != each.default
    } | {"where": found.where and str(found.where)}


def _resolution(target: Target, values: dict[str, Any]) -> Resolution:
    where = values["where"]
    parameters = values.get("parameters")
    return Resolution(
        target,
        **values
        | {
            "where": where and Target.parse(where),
            "steps": tuple(values.get("steps", ())),
            "parameters": parameters and tuple(map(tuple, parameters)),
        },
    )


def _head(tree: Tree) -> dict[str, str]:
    """Return what all answers of a tree rest on. The distribution tells for which platform it is.

    What is fixed has one for good, which takes long to find in an archive.
    """
    head = {"code": code_stamp(), "tree": tree.key}
    return head if tree.fixed else {**head, "distribution": tree.distribution}


def _read(file: Path, head: dict[str, str]) -> dict[str, Any]:
    """Return the answers in a file, as far as they are ours and of this tree."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {**head}
    if not isinstance(entries, dict) or any(entries.get(each) != head[each] for each in head):
        return {**head}
    return entries


@lru_cache(maxsize=1)
def code_stamp() -> str:
    """Return what changes with the code that gives the answers."""
    with os.scandir(Path(__file__).parent) as entries:
        states = sorted(
            (each.name, each.stat().st_size, each.stat().st_mtime_ns)
            for each in entries
            if each.name.endswith(".py")
        )
    return _checksum(repr((states, sys.version_info[:2])))


def _checksum(text: str) -> str:
    """Return what changes with a text by all odds. To import `hashlib` takes 10 ms of a check."""
    data = text.encode()
    return f"{zlib.crc32(data):08x}-{len(data):x}"
