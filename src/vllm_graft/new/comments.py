"""The comments and docstrings of an old file, and what each stands at."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile

from .rest import first_line
from .syntax import DEFINITIONS, blocks

_PRAGMA = re.compile(
    r"\W*(noqa|type\s*:\s*ignore|(ruff|isort|fmt|mypy|pyright|pylint|flake8|yapf|pragma)\s*:)", re.I
)
_LABEL = re.compile(r"\W*[A-Z][\w ]*(\([^)]*\))?\s*[:\uff1a]")
_RULE = re.compile(r"\s*[-=~]{3,}\s*")
_LEGAL = re.compile(r"\b(SPDX-|Copyright|Licensed under)", re.I)


@dataclass(frozen=True)
class Passage:
    """Comments with nothing but blank lines between them, or a docstring.

    `at` is the first line of the statement that they stand at, 0 where they stand at none. Those
    in the header come before all but imports; `is_after_imports` tells that some come before them.
    Of the docstring of a definition only what has labels is there: `is_labelled`.
    """

    lines: tuple[str, ...]
    at: int = 0
    is_header: bool = False
    is_after_imports: bool = False
    is_labelled: bool = False


@dataclass(frozen=True)
class _Block:
    """Comments in lines that follow each other. `code` tells that they end a line of code."""

    first: int
    column: int
    lines: tuple[str, ...]
    code: bool = False

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def passages(text: str) -> list[Passage]:
    """Return the comments of a source and its docstrings; none where it is not Python."""
    try:
        tree = ast.parse(text)
        found = list(_blocks(text))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []
    docstring = (ast.get_docstring(tree) or "").splitlines()
    whole = Passage(tuple(docstring), is_header=True)
    return [whole, *_joined(text, tree, found), *_of_definitions(tree)]


def _of_definitions(tree: ast.Module) -> Iterator[Passage]:
    """Yield what the docstrings of functions and classes say under labels."""
    for node in ast.walk(tree):
        docstring = ast.get_docstring(node) if isinstance(node, DEFINITIONS) else None
        if docstring and isinstance(node, DEFINITIONS):
            paragraphs = re.split(r"\n\s*\n", docstring)
            lines = tuple(line for each in paragraphs for line in ("", *_labelled(each)))
            yield Passage(lines, first_line(node), is_labelled=True)


def _labelled(paragraph: str) -> list[str]:
    """Return the lines of a paragraph of a docstring from its first label on.

    What is indented belongs to the line before it, so that an argument `reason: …` below `Args:`
    is no label; nor is one of a list with a rule below its title.
    """
    lines = re.sub(r"\n[ \t]+", " ", paragraph).splitlines()
    if any(map(_RULE.fullmatch, lines)):
        return []
    return list(dropwhile(lambda line: not _LABEL.match(line), lines))


def _joined(text: str, tree: ast.Module, found: list[_Block]) -> Iterator[Passage]:
    """Yield passages: blocks that stand at a statement, and others with what is near them."""
    source = text.split("\n")
    statements = _statements(tree)
    near: list[_Block] = []
    for block in found:
        below = (block.first, -1) if block.code else (block.last + 1, block.column)
        at = statements.get(below, 0)
        if near and (at or "".join(source[near[-1].last : block.first - 1]).strip()):
            yield _apart(near, tree)
            near = []
        if at:
            yield Passage(() if any(map(_LEGAL.search, block.lines)) else block.lines, at)
        else:
            near.append(block)
    if near:
        yield _apart(near, tree)


def _apart(near: list[_Block], tree: ast.Module) -> Passage:
    """Return the passage of comments that stand at no statement."""
    end = next((first_line(each) for each in tree.body if not _is_preamble(each)), None)
    imports = [each.lineno for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    return Passage(
        tuple(line for block in near for line in ("", *block.lines)),
        is_header=end is None or near[-1].last < end,
        is_after_imports=bool(imports) and near[0].first > min(imports),
    )


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        (line, column), code = token.start, token.line[: token.start[1]].strip()
        said = tuple(_said(token.string, ends_code=bool(code)))
        follows = block and not code and not block.code
        if follows and block and (block.last + 1, block.column) == (line, column):
            block = _Block(block.first, column, (*block.lines, *said))
            continue
        if block:
            yield block
        block = _Block(line, column, said, bool(code))
    if block:
        yield block


def _said(comment: str, *, ends_code: bool) -> Iterator[str]:
    """Yield the text of a comment, without what it tells to tools."""
    parts = re.split(r"\s#\s", comment) if ends_code else [comment]
    yield " ".join(each.lstrip("#") for each in parts if not _PRAGMA.match(each))


def _statements(tree: ast.Module) -> "dict[tuple[int, int], int]":
    """Return where comments stand at a statement, each with the statement's first line.

    That is in its column above it, or at the end of it, for which the column is -1.
    """
    found: dict[tuple[int, int], int] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or _is_preamble(node):
            continue
        first = first_line(node)
        found.update(((line, node.col_offset), first) for line in range(first, node.lineno + 1))
        if not blocks(node):
            found.setdefault((node.end_lineno or 0, -1), first)
    return found


def _is_preamble(statement: ast.stmt) -> bool:
    """Tell whether a statement only imports, or only says something."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    inner = [] if isinstance(statement, DEFINITIONS) else blocks(statement)
    if inner:
        return all(_is_preamble(each) for block in inner for each in block)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass))
