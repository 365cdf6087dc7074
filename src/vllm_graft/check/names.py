"""Which modules of a tree define a name: the one question that every module must be read for."""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .output import write_whole
from .tree import Tree

_DEFINITIONS = tuple(
    map(re.compile, (rb"def (\w+)", rb"class (\w+)", rb"\n(\w+)(?:: [^=\n]+)? = "))
)
"""Each begins with a constant, since Python then skips to where it stands."""

_FORMAT = "names of modules, 1"
"""Changes with what is written, and with the definitions."""


class Names:
    """A line for each module: `PATH <tab> STAMP <tab> NUL NAME NUL NAME … NUL`."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    def modules(self, name: str) -> list[str]:
        """Return the modules whose text looks as if it defined a name, in order."""
        return sorted(map(_module, self._paths(b"\0%b\0" % name.encode())))

    def _paths(self, word: bytes) -> Iterator[str]:
        lines = self._lines
        at = lines.find(word)
        while at >= 0:
            start = lines.rfind(b"\n", 0, at) + 1
            yield lines[start : lines.index(b"\t", start)].decode()
            at = lines.find(word, lines.index(b"\n", at))


def names_of(tree: Tree, file: Path | None = None, stamp: str | None = None) -> Names:
    """Return the names of a tree. Kept in a file they spare the next run from reading it all.

    Of a tree that can change only the files that did are read again; `stamp` changes with any, for
    who knows it already. A file that cannot be read or written is none.
    """
    stamp = tree.fingerprint().replace("\n", " ") if stamp is None else stamp
    state = f"{_FORMAT}\t{tree.key}\n{stamp}\n".encode()
    before = _read(file)
    if before.startswith(state):
        return Names(before[len(state) :])
    head = state[: state.index(b"\n") + 1]
    lines = b"".join(_lines(tree, _known(before) if before.startswith(head) else {}))
    if file is not None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, zlib.compress(state + lines, 1))
    return Names(lines)


def _lines(tree: Tree, known: dict[bytes, bytes]) -> Iterator[bytes]:
    for path in tree.files():
        if not path.isprintable():  # no module that anybody can import
            continue
        head = f"{path}\t{'' if tree.fixed else tree.stamp(path)}\t".encode()
        if head not in known:
            try:
                data = tree.read(path)
            except OSError:  # a folder of such a name, a link to nothing
                continue
            found = {name for pattern in _DEFINITIONS for name in pattern.findall(data)}
            known[head] = b"\0%b\0" % b"\0".join(found)
        yield b"%b%b\n" % (head, known[head])


def _known(before: bytes) -> dict[bytes, bytes]:
    """Return the names of before by path and stamp."""
    heads = (line.rpartition(b"\t") for line in before.splitlines()[2:])
    return {head + tab: names for head, tab, names in heads}


def _read(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return zlib.decompress(file.read_bytes())
    except (OSError, zlib.error):
        return b""


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
