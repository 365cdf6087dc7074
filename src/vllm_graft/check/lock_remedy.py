"""What to do about a lock that cannot be read, in commands that work as they are told."""

import re
import shlex
from pathlib import Path

from packaging.version import InvalidVersion, Version

_MARKER = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: |$)", re.MULTILINE)
"""What git writes where two sides differ; `=======` alone proves nothing."""

_LIST = re.compile(r"^vllm\s*=\s*\[([^\]]*)\]", re.MULTILINE)
_STRING = re.compile(r"\"([^\"]*)\"|'([^']*)'")

_LAYER = Path(__file__).resolve().parents[1]


def conflict(text: str) -> int | None:
    """Return the line of the first conflict marker that a merge left; None where there is none."""
    found = _MARKER.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else None


def remedy(text: str, name: str, restore: str) -> str:
    """Say how to get a lock that can be read: to `restore` this one, or to write another.

    What is written anew has the versions that can still be made out, of both sides of a merge.
    """
    if _is_shipped(name):
        return f"{restore}, or install the package that it came with again"
    return f"{restore}, or write it anew: {anew(text, name)}"


def anew(text: str, name: str) -> str:
    """Return the command that writes a lock anew, whatever the file has now."""
    named = ["--vllm", *_versions(text)] if _versions(text) else []
    return " ".join(["vllm-graft lock --anew --output", shlex.quote(name), *named])


def _versions(text: str) -> list[str]:
    """Return the versions that the lines of a lock name, oldest first."""
    found = set()
    for listed in _LIST.findall(text):
        for double, single in _STRING.findall(listed):
            try:
                found.add(Version(double or single))
            except InvalidVersion:  # damaged as well
                continue
    return [str(each) for each in sorted(found)]


def _is_shipped(name: str) -> bool:
    """Tell whether a lock came with a package, so that nobody here has reviewed it."""
    file = Path(name).absolute()
    return "site-packages" in file.parts or _LAYER in file.resolve().parents
