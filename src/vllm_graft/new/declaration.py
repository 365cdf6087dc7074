"""One declaration that is going to be written, and its text."""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from ..patch import EXCLUSIVE, GAP, Operation
from ..ranges import overlap
from ..validate import NAME
from .conditions import operand
from .given import literal

_WIDTH = 100
_GAPS = {
    "why": "what goes wrong without the patch",
    "how": "what the patch does about it",
    "upstream": "the upstream issue or pull request, or why there is none",
    "remove": "when the patch can be deleted",
}


@dataclass(frozen=True)
class Reasons:
    """What an old file says of why a patch exists. `hint` helps to write the rest.

    `question` is what has to be answered before the patch is complete, whatever the file says.
    """

    why: str = ""
    how: str = ""
    upstream: str = ""
    remove: str = ""
    hint: str = ""
    question: str = ""

    def text(self, field: str) -> str:
        """Return the text of a field, or a gap that says what belongs there."""
        said: str = getattr(self, field)
        if field == "remove" and self.question:
            return f"{GAP} {self.question}. {said or _GAPS[field].capitalize()}"
        if said:
            return said
        hint = f" ({self.hint})" if field == "why" and self.hint else ""
        return f"{GAP} {_GAPS[field]}{hint}"


@dataclass(frozen=True)
class Declaration:
    """One declaration. `implementation` is the source of the second argument, `name` what the
    layer would make its id of."""

    operation: Operation
    target: str
    implementation: str
    name: str
    vllm: str
    reasons: Reasons
    comments: tuple[str, ...] = ()
    required: bool = True
    when: str = ""
    name_is_made: bool = False
    """Whether `name` is one that only the copy has."""

    def excludes(self, other: "Declaration") -> bool:
        """Tell whether a set may not have both, since one would discard the other."""
        exclusive = self.operation in EXCLUSIVE and other.operation in EXCLUSIVE
        same = self.target == other.target and "|" not in self.target
        return exclusive and same and overlap(SpecifierSet(self.vllm), SpecifierSet(other.vllm))

    @property
    def target_name(self) -> str:
        """The last part of the target."""
        return self.target.split(" ")[0].rpartition(":")[2].rpartition(".")[2]

    @property
    def gaps(self) -> int:
        """How many of its texts are to be filled in."""
        return sum(self.reasons.text(field).startswith(GAP) for field in _GAPS)

    def lines(self, taken: set[str]) -> Iterator[str]:
        """Yield the lines of its source; ids that are taken are not given again."""
        for comment in self.comments:
            yield from _comment(comment)
        yield f"patches.{self.operation}("
        yield from _argument("", self.target)
        yield f"    {self.implementation},"
        yield f'    vllm="{self.vllm}",'
        for field in _GAPS:
            yield from _argument(f"{field}=", self.reasons.text(field))
        yield from self._options(taken)
        yield ")"

    def _options(self, taken: set[str]) -> Iterator[str]:
        default = self.name.strip("_").replace("_", "-").lower()
        wished = self.target_name if self.name_is_made else self._wished(default, taken)
        chosen = free_name(wished, taken)
        taken.add(chosen)
        if chosen != default:
            yield f'    id="{chosen}",'
        if not self.required:
            yield "    required=False,"
        if self.when:
            yield from _condition(self.when)

    def _wished(self, default: str, taken: set[str]) -> str:
        """Return the id that the declaration has by default, or one with the name of its class."""
        if default not in taken and NAME.fullmatch(default):
            return default
        qualname = self.target.split(" ")[0].partition(":")[2] or self.target
        return "-".join(qualname.split(".")[-2:])


def free_name(wished: str, taken: Iterable[str]) -> str:
    """Return a name that is valid in an id and not taken, as near as possible to a wished one."""
    base = re.sub(r"[^a-z0-9]+", "-", wished.lower()).strip("-") or "patch"
    name, number = base, 2
    while name in set(taken):
        name, number = f"{base}-{number}", number + 1
    return name


def _argument(prefix: str, text: str) -> Iterator[str]:
    """Yield an argument, on several lines where one would be too long."""
    whole = f"    {prefix}{literal(text)},"
    if len(whole) <= _WIDTH or " " not in text:
        yield whole
        return
    width = _WIDTH - len(prefix) - 12
    pieces = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    quoted = [literal(f"{piece} ") for piece in pieces[:-1]] + [literal(pieces[-1])]
    yield f"    {prefix}{quoted[0]}"
    yield from (f"    {piece}" for piece in quoted[1:-1])
    yield f"    {quoted[-1]},"


def _condition(test: str) -> Iterator[str]:
    """Yield the condition, on several lines where one would be too long."""
    whole = f"    when=lambda environment: {test},"
    if len(whole) <= _WIDTH:
        yield whole
        return
    parsed = ast.parse(test, mode="eval").body
    values = getattr(parsed, "values", ())
    parts = [operand(ast.get_source_segment(test, each) or "") for each in values]
    word = "or" if isinstance(getattr(parsed, "op", None), ast.Or) else "and"
    yield "    when=lambda environment: ("
    yield f"        {parts[0] if parts else test}"
    yield from (f"        {word} {each}" for each in parts[1:])
    yield "    ),"


def _comment(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
