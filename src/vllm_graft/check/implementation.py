"""How the implementation of a patch can be called, without importing a lazy one."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SourceError
from ..patch import Patch
from ..signatures import flavour, signature
from ..target import Target, spec_of
from .tree import FolderTree, Place

if TYPE_CHECKING:
    from .entities import Entity
    from .lookup import Lookup


@dataclass(frozen=True)
class Implementation:
    """What is known of the function or class that a patch gives.

    `note` says why something is not known.
    """

    signature: Signature | None = None
    flavour: str | None = None
    is_class: bool = False
    name: str = ""
    note: str = ""


def implementation(patch: Patch) -> Implementation:
    """Return what is known of an implementation: from the object, or from its source."""
    if patch.lazy is not None:
        return _from_source(Target.parse(patch.lazy))
    given = patch.implementation
    if isinstance(given, (staticmethod, classmethod)):
        given = given.__func__
    if not callable(given):
        return Implementation()
    return Implementation(signature(given), flavour(given), inspect.isclass(given), _name(given))


def _name(given: Callable[..., Any]) -> str:
    name: str = getattr(given, "__qualname__", repr(given))
    return name


def _from_source(reference: Target) -> Implementation:
    from . import describe, parameters
    from .outline import Unsplit

    unread = Implementation(note=f"how {reference} is called is not known: it has no source here")
    spec = spec_of(reference.module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return unread
    try:
        found = _defined(reference, Path(spec.origin), spec.submodule_search_locations is not None)
    except (SourceError, SyntaxError, Unsplit):
        return unread
    if found is None:
        return Implementation(note=f"{reference} is not defined in {spec.origin}")
    lookup, entity = found
    return Implementation(
        parameters.signature(lookup, entity),
        describe.flavour(entity.node),
        entity.kind == "class",
        str(reference),
    )


def _defined(reference: Target, file: Path, is_package: bool) -> "tuple[Lookup, Entity] | None":
    """Follow a reference in one file; what it imports from elsewhere is not followed."""
    from .entities import Entity
    from .lookup import Lookup

    lookup = Lookup(FolderTree(file.parent))
    place = Place(reference.module, file.name, "package" if is_package else "module")
    lookup.outline(place).parse()
    found: Any = Entity("module", place, "")
    for part in reference.qualname.split("."):
        if not isinstance(found, Entity) or found.kind not in ("module", "class"):
            return None
        found = lookup.member(found, part)
    return (lookup, found) if isinstance(found, Entity) and found.home is not None else None
