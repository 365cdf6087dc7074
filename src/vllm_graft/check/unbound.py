"""What a lazy implementation lacks: why it cannot be had, and whether that is certain."""

import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..target import MISSING, Target, find, spec_of
from .entities import Absent, Entity
from .near import near_member
from .syntax_error import told
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


def lacking_module(reference: Target, last: Target, *, is_sure: bool) -> Lack | None:
    """Tell why the module of an implementation is not there; None where nothing can be said.

    `last` is what a reference leads to by imports. `is_sure` tells that none of them is under a
    condition, here and below.
    """
    parts = last.module.split(".")
    if is_of_vllm(last):
        return None  # vLLM need not be here
    if sys.modules.get(last.module) is not None:  # `os.path` is no file of its own
        return _lacking_loaded(reference, last, is_sure=is_sure)
    if spec_of(parts[0]) is None:
        return Lack(f"its implementation {reference} is in {parts[0]}, which is not here", False)
    count = 2
    while count <= len(parts) and spec_of(".".join(parts[:count])) is not None:
        count += 1
    if count > len(parts):
        return None
    package = spec_of(".".join(parts[: count - 1]))
    is_certain = is_sure and package is not None and _is_plain(package)
    why = f"there is no module {'.'.join(parts[:count])}"
    return _lack(reference, "is not there", why, is_certain=is_certain)


def broken_module(
    reference: Target, module: str, error: SyntaxError | ValueError | OSError, *, is_sure: bool
) -> Lack | None:
    """Tell why a module on the way to an implementation cannot be imported: it is not Python."""
    cause = error.__cause__ or error  # text that cannot be decoded
    if not isinstance(cause, (SyntaxError, ValueError)):
        return None  # who may read it when it is imported is not known
    says = "cannot be imported" if is_sure else "may not be importable"
    return Lack(
        f"its implementation {reference} {says}: {module} is not Python: {told(cause)}", is_sure
    )


def _lacking_loaded(reference: Target, last: Target, *, is_sure: bool) -> Lack | None:
    """Tell why a module of Python itself lacks a name; those of others may have any by code."""
    is_known = last.module.partition(".")[0] in sys.stdlib_module_names
    if not is_known or find(sys.modules[last.module], last.qualname) is not MISSING:
        return None
    why = f"{last.module} has no {last.qualname!r}"
    return _lack(reference, "is not there", why, is_certain=is_sure)


def _lack(reference: Target, unsure: str, why: str, *, is_certain: bool) -> Lack:
    says = "does not exist" if is_certain else f"{unsure}, as far as can be seen"
    return Lack(f"its implementation {reference} {says}: {why}", is_certain)


def _is_plain(package: ModuleSpec) -> bool:
    """Tell whether a package has the modules of its folder, and no others."""
    if not package.origin or not package.origin.endswith(".py"):
        return False  # one without `__init__.py` can have further folders
    text = Path(package.origin).read_text(encoding="utf-8", errors="replace")
    return _BINDS.search(text) is None


def lacking_name(
    reference: Target, last: Target, lookup: "Lookup", module: Entity, *, is_sure: bool
) -> Lack | None:
    """Tell why a module that has been read lacks a name; None where it binds just that."""
    assert module.home is not None
    name = last.qualname
    text = lookup.outline(module.home).text.replace(str(last), "")  # a declaration of it
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
        is_sure
        and isinstance(answer, Absent)
        and _BINDS.search(text) is None
        and re.search(rf"\b{re.escape(missing[0])}\b", text) is None
        and spec_of(f"{last.module}.{missing[0]}") is None
    )
    near = near_member(lookup, here, missing[0])
    why = f"{here} has no {missing[0]!r}" + (f". Did you mean {near!r}?" if near else "")
    return _lack(reference, "is not defined in its module", why, is_certain=is_certain)
