"""Why a patch exists, where the comments of an old file say so.

Plugins keep lists like this one, in the file itself or in the `__init__.py` of its package:

    # ** File: worker/patch_sampler.py **
    #   1. `vllm.v1.sample.sampler.Sampler.apply_penalties`
    #    Why:
    #       …
    #    How:
    #       …
    #    Related PR (if no, explain why):
    #       …
    #    Future Plan:
    #       …
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FIELDS = {
    "why": "why",
    "reason": "why",
    "how": "how",
    "related pr": "upstream",
    "related prs": "upstream",
    "related issue": "upstream",
    "upstream": "upstream",
    "future plan": "remove",
    "future plans": "remove",
    "remove": "remove",
    "removal": "remove",
    "removal plan": "remove",
}
_FIELD = re.compile(
    rf"\W*({'|'.join(sorted(_FIELDS, key=len, reverse=True))})\b"
    r"\s*(?:\([^)]*\)|\uff08[^\uff09]*\uff09)?\s*[:\uff1a]\s*(.*)",
    re.IGNORECASE,
)
_FILE = re.compile(r"\W*file\s*[:\uff1a]\s*([\w./-]+\.py)", re.IGNORECASE)
_ENTRY = re.compile(r"\s*\d+\s*[.)]\s*(.*)")
_QUOTED = re.compile(r"`{1,2}([\w.:]+)`{1,2}")
_RULE = re.compile(r"\W*$")


@dataclass
class Entry:
    """What a list says of some targets of a file, or of all where it names none."""

    file: str = ""
    targets: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def is_about(self, file: Path, path: str) -> bool:
        """Tell whether the entry is about a target, by its dotted path, that a file patches."""
        if self.file and not file.as_posix().endswith(self.file.lstrip("./")):
            return False
        names = [each.replace(":", ".") for each in self.targets]
        return not names or any(_names(each, path) for each in names)


def entries(file: Path, text: str) -> list[Entry]:
    """Return what the comments of a file, and of the packages around it, say of patches."""
    found = list(_parsed(_prose(text)))
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        init = (folder / "__init__.py").read_text(encoding="utf-8", errors="replace")
        found += [each for each in _parsed(_prose(init)) if each.file or each.targets]
        folder = folder.parent
    return found


def nearby(text: str, line: int, node: ast.AST | None) -> str:
    """Return the comment above a line, or else the docstring of a definition, in one line."""
    lines = text.splitlines()
    above: list[str] = []
    while line > 1 and lines[line - 2].strip().startswith("#"):
        above.insert(0, lines[line - 2].strip().lstrip("# "))
        line -= 1
    said = " ".join(above)
    if not said and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        said = (ast.get_docstring(node) or "").partition("\n\n")[0]
    said = " ".join(said.split())
    return said if len(said) <= _LONGEST else said[:_LONGEST].rpartition(" ")[0] + " …"


_LONGEST = 200


def _names(name: str, path: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _prose(text: str) -> Iterator[str]:
    """Yield the lines of the comments and docstrings of a source."""
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return
    comments = {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}
    yield from (ast.get_docstring(tree) or "").splitlines()
    yield ""
    before = 0
    for number in sorted(comments):
        if number != before + 1:
            yield ""
        yield comments[number].lstrip("#")
        before = number


def _parsed(lines: Iterable[str]) -> Iterator[Entry]:
    entry, current, file = Entry(), "", ""
    for line in lines:
        in_file, numbered, said = _FILE.match(line), _ENTRY.match(line), _FIELD.match(line)
        if in_file or (numbered and _QUOTED.search(line)):
            if entry.texts:
                yield entry
            file = in_file[1] if in_file else file
            entry, current = Entry(file, _QUOTED.findall(line) if numbered else []), ""
        elif said:
            current = _FIELDS[" ".join(said[1].lower().split())]
            entry.texts.setdefault(current, "")
            _add(entry, current, said[2])
        elif not line.strip():
            current = ""
        elif current and not _RULE.match(line):
            _add(entry, current, line)
        elif entry.targets and not entry.texts:
            entry.targets += _QUOTED.findall(line)
    if entry.texts:
        yield entry


def _add(entry: Entry, name: str, text: str) -> None:
    text = " ".join(text.strip().strip("*").split()).removeprefix("- ")
    entry.texts[name] = f"{entry.texts[name]} {text}".strip()
