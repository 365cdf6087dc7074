"""Model factories: one architecture, several implementations, chosen when vLLM asks.

The public names are resolved on first use; none of them imports torch or vllm.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import FactoryError, ModelError, UnsupportedConfigError
    from .factory import UPSTREAM, ModelFactory, because
    from .platform import family, get_platform_target
    from .registry import Model, get_models

_HOMES = {
    "ModelFactory": ".factory",
    "UPSTREAM": ".factory",
    "because": ".factory",
    "get_platform_target": ".platform",
    "family": ".platform",
    "Model": ".registry",
    "get_models": ".registry",
    "ModelError": "..errors",
    "UnsupportedConfigError": "..errors",
    "FactoryError": "..errors",
}

__all__ = [  # noqa: RUF022 - the layout of the documentation
    "ModelFactory",
    "UPSTREAM",
    "because",
    "get_platform_target",
    "family",
    "Model",
    "get_models",
    "ModelError",
    "UnsupportedConfigError",
    "FactoryError",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> "list[str]":
    return sorted(__all__)
