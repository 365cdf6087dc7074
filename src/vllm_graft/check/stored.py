"""Signatures as plain values, for a cache and a lock."""

from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Code:
    """A default or an annotation as it is written."""

    text: str

    def __repr__(self) -> str:
        return self.text


Parameters: TypeAlias = tuple[tuple[str, int, str | None, str | None], ...]
"""Parameters as plain values: name, kind, default and annotation, the return value behind them."""

_RETURN = "return"


def stored(signature: Signature) -> Parameters:
    """Return a signature as plain values."""
    found = [
        (each.name, int(each.kind), _written(each.default), _written(each.annotation))
        for each in signature.parameters.values()
    ]
    return (*found, (_RETURN, -1, None, _written(signature.return_annotation)))


def restored(parameters: Parameters) -> Signature:
    """Return the signature that was stored as plain values."""
    *found, (_, _, _, returned) = parameters
    return Signature(
        [
            Parameter(name, KINDS[kind], default=_read(default), annotation=_read(annotation))
            for name, kind, default, annotation in found
        ],
        return_annotation=_read(returned),
    )


KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)


def _written(value: Any) -> str | None:
    return None if value is Parameter.empty else repr(value)


def _read(text: str | None) -> Any:
    return Parameter.empty if text is None else Code(text)
