"""Where packages are fetched from, as pip and uv are told to: indexes, certificates, proxy."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import SourceError

_DEFAULT = re.compile(r"default:?\s+<?(\w+://[^\s<>)]+)")
"""How the help of pip, and that of uv, name the index that they use by default."""

_TRUE = ("1", "y", "yes", "t", "true", "on")


@dataclass(frozen=True)
class PipSettings:
    """What is told of the package index. An address may hold a user name and a password.

    `links` are folders and pages with archives of any distribution, as `--find-links` takes them.
    """

    indexes: tuple[str, ...]
    links: tuple[str, ...] = ()
    certificates: str | None = None
    proxy: str | None = None
    timeout: float = 30


def pip_settings() -> PipSettings:
    """Return what the environment says, else pip's configuration, else pip's own default.

    Raises `SourceError` where nothing names an index and there is neither pip nor uv to ask.
    """
    environment, uv = _environment("PIP_"), _environment("UV_")
    told = _configured() | environment
    index = (
        environment.get("index-url")
        or uv.get("default-index")
        or uv.get("index-url")
        or told.get("index-url")
    )
    indexes: tuple[str, ...] = ()
    if told.get("no-index", "").lower() not in _TRUE:
        extra = " ".join(
            (told.get("extra-index-url", ""), uv.get("index", ""), uv.get("extra-index-url", ""))
        )
        indexes = tuple(map(_address, [index or _default(), *extra.split()]))
    return PipSettings(
        indexes=tuple(dict.fromkeys(indexes)),
        links=tuple(told.get("find-links", "").split()),
        certificates=told.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or None,
        proxy=told.get("proxy"),
        timeout=_seconds(told.get("timeout") or told.get("default-timeout")),
    )


def _environment(prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(prefix) and value
    }


def _configured() -> dict[str, str]:
    """Return what pip's configuration files say to `pip download`, by pip's own account."""
    text = next(filter(None, (_printed(*pip, "config", "list") for pip in _pips())), "")
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if equals:
            found.setdefault(section, {})[name] = _unquoted(value)
    return {**found.get("global", {}), **found.get("download", {})}


def _default() -> str:
    """Return the index that pip uses by default, or uv: asked for, since it is theirs to say."""
    for command in (*_pips(), *_uvs()):
        found = _DEFAULT.search(_printed(*command, "install", "--help"))
        if found:
            return found[1]
    raise SourceError(
        "which package index to fetch vLLM from cannot be told, since there is no pip to ask. "
        "Set PIP_INDEX_URL"
    )


def _pips() -> Iterator[tuple[str, ...]]:
    yield sys.executable, "-m", "pip"
    pip = shutil.which("pip")
    if pip:
        yield (pip,)


def _uvs() -> Iterator[tuple[str, ...]]:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        yield uv, "pip"


def _printed(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _unquoted(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def _address(index: str) -> str:
    """Return the address of an index that uv may have been given with a name: `acme=https://…`."""
    return re.sub(r"^[\w.-]+=(?=\w+://)", "", index).rstrip("/") + "/"


def _seconds(text: str | None) -> float:
    try:
        return float(text or PipSettings.timeout)
    except ValueError:
        return PipSettings.timeout
