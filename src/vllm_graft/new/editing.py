"""Changes to a source, by the positions of its syntax tree."""

import ast
from bisect import bisect_right


class Edited:
    """A source and changes to it, by the positions of syntax trees: bytes, not characters."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: dict[tuple[int, int], bytes] = {}

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, node: "ast.expr | ast.stmt") -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def between(self, start: int, end: int) -> str:
        return self._data[start:end].decode()

    def is_alone(self, start: int, end: int) -> bool:
        """Tell whether a statement begins in the first column and shares no line with another."""
        return start in self._starts and self.ends_line(end)

    def ends_line(self, end: int) -> bool:
        """Tell whether nothing but a comment comes after a position on its line."""
        after = self.between(end, self.line_end(end)).strip()
        return not after or after.startswith("#")

    def line_before(self, start: int) -> str:
        """Return what is on a line before a position."""
        return self.between(self._starts[bisect_right(self._starts, start) - 1], start)

    def line_end(self, position: int) -> int:
        """Return where the line ends that a position is in, with its newline."""
        return self._starts[bisect_right(self._starts, position - 1)]

    def change(self, start: int, end: int, text: str) -> None:
        self._changes[start, end] = text.encode()

    @property
    def text(self) -> str:
        data = self._data
        for (start, end), new in sorted(self._changes.items(), reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()
