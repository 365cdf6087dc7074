"""The environment variables of the contract, read once into a value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from .errors import SettingError

VARIABLES = (
    "VLLM_VERSION",
    "VLLM_GRAFT",
    "VLLM_GRAFT_PATCHES",
    "VLLM_GRAFT_TRACE",
    "VLLM_GRAFT_STRICT",
    "VLLM_GRAFT_LOCK",
    "VLLM_GRAFT_PLATFORM_TARGET",
    "VLLM_GRAFT_RUN",
)

LAYER_SET = "vllm-graft"
"""The set through which the layer does its own work inside vLLM. Naming other sets in
`VLLM_GRAFT_PATCHES` does not deselect it; only excluding it by name does."""

_GLOB = re.compile(r"-?(\*|[\w.*?\[\]!-]+/[\w.*?\[\]!-]+)")


@dataclass(frozen=True)
class Selection:
    """Which patches `VLLM_GRAFT_PATCHES` selects: globs over ids, `-` in front excludes.

    Without a glob that includes, everything is included; an exclusion always wins.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, name: str = "VLLM_GRAFT_PATCHES") -> "Selection":
        """Read the comma list; raise `SettingError` for an entry that is no glob over ids."""
        globs = [entry.strip() for entry in text.split(",") if entry.strip()]
        for glob in globs:
            if not _GLOB.fullmatch(glob):
                raise SettingError(
                    f"{name} has the entry {glob!r}, which is no glob over patch ids. "
                    "Write '<set>/<name>', for example 'acme/*,-acme/kv-*'; "
                    "'vllm-graft list' shows the ids."
                )
        return cls(
            tuple(glob for glob in globs if not glob.startswith("-")),
            tuple(glob[1:] for glob in globs if glob.startswith("-")),
        )

    def selects(self, patch_id: str) -> bool:
        """Tell whether the patch with this id takes part."""
        if patch_id.startswith(f"{LAYER_SET}/"):
            return not self._excludes(patch_id)
        return self.names(patch_id)

    def names(self, patch_id: str) -> bool:
        """Tell whether the globs name a patch, the layer's own treated like any other."""
        if self._excludes(patch_id):
            return False
        return not self.include or any(fnmatchcase(patch_id, glob) for glob in self.include)

    def _excludes(self, patch_id: str) -> bool:
        return any(fnmatchcase(patch_id, glob) for glob in self.exclude)

    def selects_set(self, name: str) -> bool:
        """Tell whether any patch of a set could take part, whatever its patches are called."""
        excluded = (glob.partition("/") for glob in self.exclude)
        if any(rest in ("", "*") and fnmatchcase(name, head) for head, _, rest in excluded):
            return False
        included = [glob.partition("/")[0] for glob in self.include]
        return not included or any(fnmatchcase(name, head) for head in included)


LockMode: TypeAlias = Literal["warn", "require"]


@dataclass(frozen=True)
class LockPolicy:
    """What `VLLM_GRAFT_LOCK` asks: to warn of what is not as it was locked, or to refuse it.

    `file` is the lock to use for all sets that do not ship with the layer; without, each set has
    its own.
    """

    mode: LockMode
    file: str | None = None

    @classmethod
    def parse(cls, text: str) -> "LockPolicy | None":
        """Read `warn` or `require`, with `:FILE` behind it or without; nothing is None."""
        mode, colon, file = text.strip().partition(":")
        if not mode and not colon:
            return None
        if mode not in ("warn", "require") or (colon and not file):
            raise SettingError(
                f"VLLM_GRAFT_LOCK is {text!r}. Set it to 'warn' or 'require', which look at the "
                "graft.lock of each patch set, or to 'require:/path/to/graft.lock'"
            )
        return cls("warn" if mode == "warn" else "require", file or None)


@dataclass(frozen=True)
class Settings:
    """What the environment asks of the layer."""

    enabled: bool = True
    selection: Selection = Selection()
    strict: bool = False
    version: str | None = None
    lock: LockPolicy | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables; an empty one counts as not set. Raises `SettingError`."""
        return cls(
            enabled=_flag(environ, "VLLM_GRAFT", "1"),
            selection=Selection.parse(environ.get("VLLM_GRAFT_PATCHES", "")),
            strict=_flag(environ, "VLLM_GRAFT_STRICT", "0"),
            version=environ.get("VLLM_VERSION", "").strip() or None,
            lock=LockPolicy.parse(environ.get("VLLM_GRAFT_LOCK", "")),
        )


def _flag(environ: Mapping[str, str], name: str, default: str) -> bool:
    value = environ.get(name) or default
    if value not in ("0", "1"):
        raise SettingError(f"{name} is {value!r}. Set it to 1 (on) or 0 (off), or leave it out.")
    return value == "1"
