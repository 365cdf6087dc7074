"""What an old file says of why each of its patches exists."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .declaration import Reasons
from .header import Entry, entries
from .merging import Merged
from .old_file import Assignment, OldFile
from .rest import first_line
from .syntax import DEFINITIONS, bound_names

_LONGEST = 200
_LINK = re.compile(
    r"https?://[^\s<>()\"'`]+/(?:pulls?|issues|merge_requests)/\w+"
    r"|(?<![\w/.-])(?:[\w.-]+/[\w.-]+|vllm[\w-]*)#\d+\b"
    r"|\bvllm (?:PR|pull request|issue) #\d+\b",
    re.IGNORECASE,
)


class Said:
    """What the comments of an old file, and of the packages around it, say of its patches."""

    def __init__(self, file: OldFile) -> None:
        self._file = file
        self._entries = entries(file.path, file.text)
        self._around: dict[int, list[ast.stmt]] = {}
        self._binding: dict[str, list[ast.stmt]] = {}
        self._read(file.tree, [])

    def reasons(self, patch: Merged, question: str) -> Reasons:
        """Return the reasons of a patch: what is said at it comes before what is said of more."""
        made = [each for one in patch.assignments for each in self._given(one)]
        near = self._at(
            [*(each.statement for each in patch.assignments), *made, *self._kept(patch)]
        )
        around = self._at(
            each for one in patch.assignments for each in self._around[id(one.statement)]
        )
        about = [each for each in self._entries if self._is_about(each, patch)]
        said = [
            *(each.texts for each in near),
            *(each.texts for each in about if each.is_listed),
            {"upstream": _links(near)},
            *(each.texts for each in around),
            *(each.texts for each in about if not each.is_listed),
        ]
        comments = _unlabelled(near) or _unlabelled(around)
        hints = [_hint([*comments, *filter(None, map(_docstring, made))])]
        if patch.newest.operation == "add":
            hints.append("is it a new name, or one that vLLM no longer has?")
        return Reasons(**_first(said), hint="; ".join(filter(None, hints)), question=question)

    def _read(self, node: ast.AST, around: list[ast.stmt]) -> None:
        """Take note of what is around each statement, the innermost first, and what it binds."""
        for child in ast.iter_child_nodes(node):
            inner = around
            if isinstance(child, ast.stmt):
                self._around[id(child)] = around
                inner = [child, *around]
                for name in _bound(child):
                    self._binding.setdefault(name, []).append(child)
            self._read(child, inner)

    def _at(self, statements: Iterable[ast.stmt]) -> list[Entry]:
        lines = list(dict.fromkeys(map(first_line, statements)))
        return [each for line in lines for each in self._entries if each.at == line]

    def _is_about(self, entry: Entry, patch: Merged) -> bool:
        target = str(patch.newest.target).replace(":", ".")
        return any(entry.is_about(self._file.path, path) for path in [*_paths(patch), target])

    def _kept(self, patch: Merged) -> list[ast.stmt]:
        """Return the statements that keep the original."""
        paths = {*_paths(patch), *(each.path for each in patch.assignments)}
        return [each.statement for each in self._file.saved.values() if each.path in paths]

    def _given(self, assignment: Assignment) -> Iterator[ast.stmt]:
        """Yield the statements that make what is assigned."""
        given = assignment.given
        if isinstance(given.node, DEFINITIONS):
            yield given.node
        elif given.node is not None:
            for name in _passed(given.node):
                yield from self._bound_to(name, assignment)

    def _bound_to(self, name: str, assignment: Assignment) -> list[ast.stmt]:
        """Return the last statement before an assignment that binds a name where it sees that."""
        scopes = {id(each) for each in self._around[id(assignment.statement)]}
        seen = [
            each
            for each in self._binding.get(name, ())
            if all(
                id(one) in scopes for one in self._around[id(each)] if isinstance(one, DEFINITIONS)
            )
        ]
        before = [each for each in seen if each.lineno < assignment.line]
        return before[-1:] or seen[:1]


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield what a statement binds that is none of a condition, a loop or an import."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign, *DEFINITIONS)):
        yield from bound_names([statement])


def _paths(patch: Merged) -> list[str]:
    return [each.path for one in patch.assignments for each in one.choices]


def _passed(node: ast.AST) -> Iterator[str]:
    """Yield the name that an expression is, or those that it hands to calls."""
    if isinstance(node, ast.Name):
        yield node.id
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield from (each.id for each in call.args if isinstance(each, ast.Name))


def _first(said: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the first text of each field."""
    texts: dict[str, str] = {}
    for each in said:
        texts = {**{name: text for name, text in each.items() if text}, **texts}
    return texts


def _unlabelled(entries: Iterable[Entry]) -> list[str]:
    """Return what each of some comments says that has no label."""
    said = sorted(entries, key=lambda each: each.at)
    return [" ".join(each.rest) for each in said if each.rest]


def _links(entries: Sequence[Entry]) -> str:
    """Return the issues and pull requests that comments name outside of labelled texts."""
    lines = [*_unlabelled(entries), *(each.texts.get("remove", "") for each in entries)]
    return ", ".join(dict.fromkeys(link for line in lines for link in _LINK.findall(line)))


def _docstring(statement: ast.stmt) -> str:
    text = ast.get_docstring(statement) if isinstance(statement, DEFINITIONS) else None
    return (text or "").partition("\n\n")[0]


def _hint(texts: Iterable[str]) -> str:
    said = " ".join(" / ".join(dict.fromkeys(texts)).split())
    if len(said) > _LONGEST:
        said = said[:_LONGEST].rpartition(" ")[0] + " …"
    return said and f"the old file says: {said}"
