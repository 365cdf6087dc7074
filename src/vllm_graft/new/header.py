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

Others say it above the function or the assignment that it is about.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .comments import Passage, passages

_FIELDS = {
    "why": "why",
    "reason": "why",
    "how": "how",
    "related pr": "upstream",
    "related prs": "upstream",
    "related issue": "upstream",
    "upstream": "upstream",
    "upstream pr": "upstream",
    "upstream issue": "upstream",
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
_OTHER = re.compile(
    r"\W*(author|date|issue|links?|owner|pr|pull request|refs?|references?|see|see also)"
    r"\s*[:\uff1a]",
    re.IGNORECASE,
)
_TASK = re.compile(r"\W*(?:(?i:todo|fixme)|XXX|HACK)\b\s*(?:\([^)]*\))?\W*")
_REMOVAL = re.compile(
    r"\W*((?:to )?(?:remove|delete|drop|revert)\s+"
    r"(?:(?:this|the|it|me|monkey|patch|file|module|hack|workaround)\s+)*"
    r"(?:when|once|after|as soon as)\b.*)",
    re.IGNORECASE,
)
_FILE = re.compile(r"(?:\W|\d+[a-z]?\s*[.)])*file\s*[:\uff1a]\s*([\w./-]+\.py)", re.IGNORECASE)
_ENTRY = re.compile(r"\s*\d+\s*[.)]\s*(.*)")
_QUOTED = re.compile(r"`{1,2}([\w.:]+)(?:\s*=[^`]*)?`{1,2}")
_RULE = re.compile(r"\W*$")


@dataclass
class Entry:
    """What comments say of some targets of a file, of what they stand at, or of all of a header.

    `rest` is what has no label; `at` and the fields below it are those of a passage.
    """

    file: str = ""
    targets: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    at: int = 0
    is_header: bool = False
    is_after_imports: bool = False

    @property
    def is_listed(self) -> bool:
        """Whether it says itself what it is about."""
        return bool(self.file or self.targets)

    def is_about(self, file: Path, path: str) -> bool:
        """Tell whether the entry is about a target, by its dotted path, that a file patches.

        What names neither file nor target is about all only in the header of a file.
        """
        if self.file and not _ends_with(file, self.file.lstrip("./")):
            return False
        names = [each.replace(":", ".") for each in self.targets]
        if not names:
            return self.is_header or bool(self.file)
        return any(_names(each, path) for each in names)


def entries(file: Path, text: str) -> list[Entry]:
    """Return what the comments of a file, and of the packages around it, say of patches."""
    found = _own(text)
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        init = (folder / "__init__.py").read_text(encoding="utf-8", errors="replace")
        found += [each for each in _all(init) if each.is_listed]
        folder = folder.parent
    return found


def _own(text: str) -> list[Entry]:
    """Return what a file says.

    Where it says of single patches why they exist, comments above the first may be its own only.
    """
    found = list(_all(text))
    others = [each for each in found if not (each.is_header and each.is_after_imports)]
    single = (each for each in others if not (each.is_listed or each.is_header))
    return others if any(set(each.texts) - {"remove"} for each in single) else found


def _all(text: str) -> Iterator[Entry]:
    for passage in passages(text):
        yield from (each for each in _parsed(passage) if each.texts or each.rest)


def _ends_with(file: Path, listed: str) -> bool:
    return file.resolve().as_posix().endswith(f"/{listed}")


def _names(name: str, path: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _parsed(passage: Passage) -> Iterator[Entry]:
    entry, current, file = _entry(passage), "", ""
    for line in passage.lines:
        in_file, numbered, said = _FILE.match(line), _ENTRY.match(line), _FIELD.match(line)
        removal = _removal(line)
        if in_file or (numbered and _QUOTED.search(line)):
            yield entry
            file = in_file[1] if in_file else file
            entry, current = Entry(file, _QUOTED.findall(line) if numbered else []), ""
        elif said:
            current = _FIELDS[" ".join(said[1].lower().split())]
            entry.texts.setdefault(current, "")
            _add(entry, current, said[2])
        elif not line.strip():
            current = ""
        elif removal and (not current or entry.texts[current]):
            current = "remove"
            _add(entry, current, removal)
        elif current and not _ends(line, entry.texts[current]) and not _RULE.match(line):
            _add(entry, current, line)
        elif entry.targets and not entry.texts:
            entry.targets += _QUOTED.findall(line)
        elif not _RULE.match(line) and not passage.is_labelled:
            current = ""
            entry.rest.append(" ".join(line.split()))
    yield entry


def _entry(passage: Passage) -> Entry:
    return Entry(
        at=passage.at, is_header=passage.is_header, is_after_imports=passage.is_after_imports
    )


def _removal(line: str) -> str:
    """Return what a line without a label says of when to remove the patch; empty for others."""
    task = _TASK.match(line)
    said = _REMOVAL.match(line[task.end() :] if task else line)
    return said[1] if said else ""


def _ends(line: str, before: str) -> bool:
    """Tell whether a line begins something else than the text before it."""
    return bool(before and (_TASK.match(line) or _OTHER.match(line)))


def _add(entry: Entry, name: str, text: str) -> None:
    text = " ".join(text.strip().strip("*").split()).removeprefix("- ")
    entry.texts[name] = f"{entry.texts.get(name, '')} {text}".strip()
