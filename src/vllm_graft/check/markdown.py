"""Text that comes from elsewhere, as Markdown that shows just this text."""

import re

_LINK = re.compile(r"(https?://[^\s<>\"'`]*[^\s<>\"'`.,;:)])")
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def inline(text: str) -> str:
    """Return text for a line that has begun: in one line, and with its http(s) addresses as links.

    It can stand in a table.
    """
    parts = _LINK.split(" ".join(text.split()))
    return "".join(_link(each) if index % 2 else _escaped(each) for index, each in enumerate(parts))


def code(text: str) -> str:
    """Return text as a span of code, outside of tables: in these a `|` would end the cell."""
    text = " ".join(text.split())
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _link(address: str) -> str:
    return f"<{address.replace('|', '%7C')}>"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
