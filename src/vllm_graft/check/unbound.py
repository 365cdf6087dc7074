"""What a lazy implementation lacks: why it cannot be had, and whether that is certain."""

import re
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..target import Target, spec_of
from .entities import Absent, Entity
from .near import near_member
from .tree import is_of_vllm

if TYPE_CHECKING:
    from .lookup import Lookup

_BINDS = re.compile(
    r"import\s*\(?\s*\*|\b(?:__getattr__|__dict__|__path__|globals|locals|vars|setattr|exec|eval)\b"
    r"|\bsys\.(?:modules|meta_path)\b"
)
"""Code with which a module may have names that its text does not have."""

_ONE_NAME = r"""globals\(\)\[\s*["']{}["']\s*\]\s*="""


class Lack(NamedTuple):
    """Why there is no such implementation, and whether no process can have it."""

    reason: str
    is_certain: bool


def lacking_module(reference: Target) -> Lack | None:
    """Tell why the module of an implementation is not there; None where nothing can be said."""
    parts = reference.module.split(".")
    if is_of_vllm(reference):
        return None  # vLLM need not be here
    if spec_of(parts[0]) is None:
        return Lack(f"its implementation {reference} is in {parts[0]}, which is not here", False)
    count = 2
    while count <= len(parts) and spec_of(".".join(parts[:count])) is not None:
        count += 1
    if count > len(parts):
        return None
    package = spec_of(".".join(parts[: count - 1]))
    return Lack(
        f"its implementation {reference} does not exist: there is no module "
        f"{'.'.join(parts[:count])}",
        package is not None and _is_plain(package),
    )


def _is_plain(package: ModuleSpec) -> bool:
    """Tell whether a package has the modules of its folder, and no others."""
    if not package.origin or not package.origin.endswith(".py"):
        return False  # one without `__init__.py` can have further folders
    text = Path(package.origin).read_text(encoding="utf-8", errors="replace")
    return _BINDS.search(text) is None


def lacking_name(reference: Target, lookup: "Lookup", module: Entity) -> Lack | None:
    """Tell why a module that has been read lacks a name; None where it binds just that."""
    assert module.home is not None
    name = reference.qualname
    text = lookup.outline(module.home).text.replace(str(reference), "")  # a declaration of it
    if re.search(_ONE_NAME.format(re.escape(name)), text):
        return None
    here, missing = module, name.split(".")
    while missing:
        answer = lookup.member(here, missing[0])
        if not isinstance(answer, Entity):
            break
        here = answer
        missing.pop(0)
    else:
        return None  # some object, of which no more is known
    is_certain = (
        isinstance(answer, Absent)
        and _BINDS.search(text) is None
        and re.search(rf"\b{re.escape(missing[0])}\b", text) is None
        and spec_of(f"{reference.module}.{missing[0]}") is None
    )
    says = "does not exist" if is_certain else "is not defined in its module, as far as can be seen"
    near = near_member(lookup, here, missing[0])
    hint = f". Did you mean {near!r}?" if near else ""
    reason = f"its implementation {reference} {says}: {here} has no {missing[0]!r}{hint}"
    return Lack(reason, is_certain)
