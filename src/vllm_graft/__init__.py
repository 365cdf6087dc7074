"""vllm-graft: declared, versioned, traced patches for vLLM, in every process.

The public names are resolved on first use, so that importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .declare import PatchSet
    from .errors import (
        ApplyError,
        BrokenSetError,
        ConflictError,
        DeclarationError,
        GraftError,
        ImplementationError,
        InvalidVersionOverrideError,
        LockError,
        SettingError,
        SignatureError,
        TargetKindError,
        TargetNotFoundError,
        UnknownVersionError,
        VerificationError,
        VersionError,
    )
    from .patch import Patch, Value
    from .plan import Environment
    from .states import PatchStatus, Status

_HOMES = {
    "Environment": "plan",
    "Patch": "patch",
    "PatchSet": "declare",
    "PatchStatus": "states",
    "Status": "states",
    "Value": "patch",
}

__all__ = [  # noqa: RUF022 - the layout of the documentation
    "PatchSet",
    "Value",
    "Environment",
    "Patch",
    "status",
    "applied",
    "Status",
    "PatchStatus",
    "GraftError",
    "DeclarationError",
    "BrokenSetError",
    "ConflictError",
    "SettingError",
    "VersionError",
    "InvalidVersionOverrideError",
    "UnknownVersionError",
    "LockError",
    "ApplyError",
    "TargetNotFoundError",
    "TargetKindError",
    "SignatureError",
    "ImplementationError",
    "VerificationError",
]


def status() -> "Status":
    """Return the state of every patch in this process."""
    from .journal import JOURNAL

    return JOURNAL.status()


def applied(patch_id: str) -> bool:
    """Tell whether the patch with this id, `"<set>/<name>"`, is applied in this process.

    False where the layer is off; an id that no installed set has is False with one warning.
    """
    from .journal import JOURNAL

    return JOURNAL.is_applied(patch_id)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f".{_HOMES.get(name, 'errors')}", __name__)
    return getattr(module, name)


def __dir__() -> "list[str]":
    return sorted(__all__)
