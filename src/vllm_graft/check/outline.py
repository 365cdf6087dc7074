"""The statements of a module or class as spans of its text, found without parsing it.

To parse one method of 40 lines takes a hundredth of the time that its module of 4,000 lines does.
So a text is split at the lines that begin a statement, and only what may bind a name that is looked
for is parsed. Where that does not come out as Python, the whole module is parsed, and its syntax
tree gives the spans.
"""

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

_LITERALS = re.compile(
    r"""\#[^\n]*
    |(\"{3})[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}
    |('{3})[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
    |"[^"\\\n]*(?:\\.[^"\\\n]*)*"
    |'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL | re.VERBOSE,
)
_BRACKETS = ("()", "[]", "{}")
_MARKS = re.compile(rf"{_LITERALS.pattern}|[()\[\]{{}}:]", _LITERALS.flags)
_CONTINUED = re.compile(r"(?:else|elif|except|finally)\b")
_DEFINED = re.compile(r"(?:async[ \t]+)?(def|class)[ \t]+(\w+)")


class Unsplit(Exception):
    """A block is not Python by itself: the whole module must be parsed."""

    def __init__(self, outline: "Outline") -> None:
        super().__init__()
        self.outline = outline


class Block(NamedTuple):
    """One statement with its decorators: its span in the text, and its first line from 1 on.

    `head` is where the keyword of a function or class is, which defines `name`.
    """

    start: int
    end: int
    line: int
    indent: str = ""
    head: int = -1
    name: str | None = None
    is_class: bool = False


class Outline:
    """A module's text in blocks, each parsed when it is asked for.

    Where a block is not Python, any method raises `Unsplit`; after `parse` none does.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._nodes: dict[Block, list[ast.stmt]] = {}
        self._members: dict[Block, list[Block]] = {}
        self._whole: ast.Module | None = None

    @cached_property
    def blocks(self) -> list[Block]:
        """The statements of the module."""
        if self._whole is not None:
            return [self._exact(node) for node in self._whole.body]
        return list(self._split(0, len(self.text), "", 1))

    def parse(self) -> None:
        """Take the blocks from the syntax tree of the whole; raise SyntaxError without one."""
        if self._whole is None:
            self._whole = ast.parse(self.text)
            self._nodes.clear()
            self._members.clear()
            vars(self).pop("blocks", None)

    def mentioning(self, name: str, blocks: Sequence[Block]) -> list[Block]:
        """Return the blocks that may bind a name: those that define it, or have it in them."""
        if not blocks:
            return []
        found: dict[Block, None] = {}
        for offset in self._words(name, blocks[0].start, blocks[-1].end):
            block = blocks[bisect_right(blocks, offset, key=attrgetter("start")) - 1]
            if offset < block.end and block.name in (None, name):
                found[block] = None
        return list(found)

    def nodes(self, block: Block) -> list[ast.stmt]:
        """Return the syntax tree of a block, with the line numbers of the module."""
        if block not in self._nodes:
            if self._is_continued(block.start):
                raise Unsplit(self)
            text = self.text[block.start : block.end]
            self._nodes[block] = self._statements(text, block.line, block.indent)
        return self._nodes[block]

    def members(self, block: Block) -> list[Block]:
        """Return the statements in the body of a class."""
        if block not in self._members:
            self._members[block] = list(self._inside(block))
        return self._members[block]

    def header(self, block: Block) -> ast.ClassDef:
        """Return the syntax tree of a class, the body left out where that saves work."""
        body = None if self._whole is not None else self._body(block)
        if body is None:
            nodes = self.nodes(block)
        else:
            start, indent = body
            head = self.text[block.start : start]
            nodes = self._statements(f"{head}{indent}pass\n", block.line, block.indent)
        if not isinstance(nodes[0], ast.ClassDef):
            raise Unsplit(self)
        return nodes[0]

    def line(self, offset: int) -> int:
        """Return the number of the line at an offset."""
        return bisect_right(self._lines, offset)

    @cached_property
    def has_stars(self) -> bool:
        """Whether there may be imports by `*`."""
        return "import *" in self.text or "import (*" in self.text

    @cached_property
    def looks_broken(self) -> bool:
        """Whether brackets do not match: a cut or unmerged file, found without parsing it."""
        count = self.text.count
        if all(count(pair[0]) == count(pair[1]) for pair in _BRACKETS):
            return False  # literals are seldom out of balance, and take long to leave out
        count = _LITERALS.sub("", self.text).count
        return any(count(pair[0]) != count(pair[1]) for pair in _BRACKETS)

    def source(self, node: ast.AST) -> str:
        """Return the lines that a statement is on."""
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        end = self._lines[last] if last < len(self._lines) else len(self.text)
        return self.text[self._lines[first - 1] : end]

    @cached_property
    def _lines(self) -> list[int]:
        lengths = map(len, self.text.split("\n"))
        return list(accumulate(map((1).__add__, lengths), initial=0))[:-1]

    @cached_property
    def _long(self) -> list[tuple[int, int]]:
        """The spans of the literals that go over several lines."""
        if (docstrings := _docstrings(self.text)) is not None:
            return docstrings
        found = _LITERALS.finditer(self.text)
        if "\\\n" not in self.text:  # else a string in simple quotes may be long too
            return [match.span() for match in found if match.lastindex]
        return [match.span() for match in found if "\n" in match[0]]

    def _words(self, name: str, start: int, end: int) -> Iterator[int]:
        """Yield where a name stands by itself; an expression with `\\b` takes ten times as long."""
        offset = self.text.find(name, start, end)
        while offset >= 0:
            after = offset + len(name)
            if not (
                _is_of_name(self.text[offset - 1 : offset])
                or _is_of_name(self.text[after : after + 1])
            ):
                yield offset
            offset = self.text.find(name, after, end)

    def _is_continued(self, offset: int) -> bool:
        """Tell whether the line before a block ends so that it must go on, as in `f(` or `a,`."""
        before = self.text[max(0, offset - 1000) : offset].rstrip()
        line = before[before.rfind("\n") + 1 :].lstrip()
        return line[-1:] in _GOES_ON and not line.startswith("#")

    def _statements(self, text: str, line: int, indent: str) -> list[ast.stmt]:
        """Parse statements as if they stood at a line; empty lines cost next to nothing."""
        try:
            if not indent:
                return ast.parse("\n" * (line - 1) + text).body or _refuse(self)
            above = ast.parse("\n" * (line - 2) + f"if 1:\n{indent}{text}").body
        except SyntaxError:
            raise Unsplit(self) from None
        if len(above) != 1 or not isinstance(above[0], ast.If):
            raise Unsplit(self)
        return above[0].body

    def _inside(self, block: Block) -> Iterator[Block]:
        body = None if self._whole is not None else self._body(block)
        if body is not None:
            first = block.line + self.text.count("\n", block.start, body[0])
            yield from self._split(body[0], block.end, body[1], first)
            return
        node = self.nodes(block)[0]
        if not isinstance(node, ast.ClassDef):
            raise Unsplit(self)
        for each in node.body:
            yield self._exact(each)

    def _split(self, start: int, end: int, indent: str, line: int) -> Iterator[Block]:
        starts = self._starts(start, end, indent)
        counted = start
        heads: list[int] = []
        for offset, following in zip(starts, [*starts[1:], end], strict=False):
            heads.append(offset)
            decorates = self.text[offset] == "@"
            if not decorates or following == end:
                line += self.text.count("\n", counted, heads[0])
                counted = heads[0]
                yield self._block(heads[0], offset, following, indent, line)
                heads = []

    def _starts(self, start: int, end: int, indent: str) -> list[int]:
        """Return the offsets of the lines that begin a statement, `else` and the like left out."""
        lines = _lines_at(indent)
        offsets = [each.end() for each in lines.finditer(self.text, max(0, start - 1), end)]
        if start == 0 and lines.match(f"\n{self.text[:1]}"):
            offsets.insert(0, 0)
        found = []
        for offset in offsets:
            index = bisect_left(self._long, (offset,)) - 1
            if index >= 0 and offset < self._long[index][1]:
                continue
            if not _CONTINUED.match(self.text, offset):
                found.append(offset)
        return found

    def _block(self, start: int, head: int, end: int, indent: str, line: int) -> Block:
        defined = _DEFINED.match(self.text, head)
        if defined is None:
            return Block(start, end, line, indent)
        return Block(start, end, line, indent, head, defined[2], defined[1] == "class")

    def _body(self, block: Block) -> tuple[int, str] | None:
        """Return where the body of a class begins, and its indentation; None on the same line."""
        depth = 0
        for match in _MARKS.finditer(self.text, block.head, block.end):
            mark = match[0]
            if mark in "([{":
                depth += 1
            elif mark in ")]}":
                depth -= 1
            elif mark == ":" and depth == 0:
                first = _FIRST_LINE.match(self.text, match.end(), block.end)
                return (first.start(1), first[1]) if first else None
        return None

    def _exact(self, node: ast.stmt) -> Block:
        """Return the block of a parsed statement."""
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        start = self._lines[first - 1]
        if first == node.lineno:
            start += len(self._line_text(first).encode()[: node.col_offset].decode())
        after = node.end_lineno or node.lineno
        end = self._lines[after] if after < len(self._lines) else len(self.text)
        name = getattr(node, "name", None)
        block = Block(start, end, first, "", start, name, isinstance(node, ast.ClassDef))
        self._nodes[block] = [node]
        return block

    def _line_text(self, line: int) -> str:
        end = self._lines[line] if line < len(self._lines) else len(self.text)
        return self.text[self._lines[line - 1] : end]


def _docstrings(text: str) -> list[tuple[int, int]] | None:
    """Return the spans of the literals in three quotes, where that is easy to tell.

    It is where each begins on a line without any other quote or comment before it.
    """
    if "'''" in text or "\\\n" in text:
        return None
    found = []
    start = text.find('"""')
    while start >= 0:
        before = text[text.rfind("\n", 0, start) + 1 : start]
        end = text.find('"""', start + 3)
        if end < 0 or text[end - 1] == "\\" or not _OTHER_MARKS.isdisjoint(before):
            return None
        found.append((start, end + 3))
        start = text.find('"""', end + 3)
    return found


_OTHER_MARKS = frozenset("#'\"")
_GOES_ON = tuple("([{,\\=+/%&|<>")
_FIRST_LINE = re.compile(r"[ \t]*(?:\#[^\n]*)?\n(?:[ \t]*(?:\#[^\n]*)?\n)*([ \t]+)(?=[^\s#])")


def _refuse(outline: Outline) -> list[ast.stmt]:
    raise Unsplit(outline)


@lru_cache(maxsize=16)
def _lines_at(indent: str) -> re.Pattern[str]:
    return re.compile(rf"\n{indent}(?=[^\s#)\]}}])")  # a constant first: found faster than by `^`


def _is_of_name(character: str) -> bool:
    return character.isalnum() or character == "_"
