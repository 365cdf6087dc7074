"""How declarations and comments put what an old file says."""

import ast
from collections.abc import Iterator, Sequence

from ..target import is_lazy
from .imported import Choice
from .late_imports import imported_modules
from .old_file import Assignment, OldFile


def not_certain(last: Sequence[str]) -> Iterator[str]:
    if len(last) > 1:
        yield (
            f"Not certain: none of {', '.join(last)} imports the others, so it is done with the "
            "first of them, whose import it may be in the middle of."
        )


def line_of_import(file: OldFile, path: str) -> int:
    """Return the line in which a file imports a path, 1 where it does not say so itself."""
    for node in ast.walk(file.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and path in imported_modules(node):
            return node.lineno
    return 1


def literal(assignment: Assignment) -> str:
    text = assignment.given.text
    looks_lazy = text[:1] in "\"'" and is_lazy(text[1:-1])
    return f"Value({text})" if looks_lazy else text


def code(assignment: Assignment, taken: Choice | None) -> str:
    """Return an assignment, with the path that it names where this choice is taken."""
    own = assignment.own or assignment.choices
    path = next((each.path for each in own if _is_taken(each, taken)), own[0].path)
    first, *more = assignment.given.text.splitlines()
    return f"{path} = {first}{' …' if more else ''}"


def _is_taken(choice: Choice, taken: Choice | None) -> bool:
    if taken is None:
        return False
    return choice.path == taken.path or bool(choice.vllm and choice.vllm == taken.vllm)


def sentence(text: str) -> str:
    is_name = text.lower().startswith("vllm") or not text[:1].isalpha()
    return f"{text if is_name else text[0].upper() + text[1:]}."
