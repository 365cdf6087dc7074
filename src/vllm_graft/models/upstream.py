"""vLLM's own implementation of an architecture, read from its registry's source."""

import ast

from ..errors import FactoryError
from ..sources import parsed

REGISTRY = "vllm.model_executor.models.registry"
_MODELS = "vllm.model_executor.models"


def upstream(architecture: str) -> str:
    """Return the `"module:Class"` that vLLM has for an architecture, without importing vLLM.

    Raises `FactoryError` where it has none.
    """
    tree = parsed(REGISTRY)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == architecture:
                    found = _entry(value)
                    if found is not None:
                        return found
    raise FactoryError(f"the installed vLLM has no implementation of {architecture!r} of its own")


def _entry(node: ast.expr) -> str | None:
    """Return what one line of vLLM's tables says: `"Architecture": ("module", "Class")`."""
    if not isinstance(node, ast.Tuple) or not all(isinstance(e, ast.Constant) for e in node.elts):
        return None
    module, name = ast.literal_eval(node)
    return f"{module}:{name}" if module.startswith("vllm.") else f"{_MODELS}.{module}:{name}"
