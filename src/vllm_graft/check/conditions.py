"""Which branch of a condition a run takes, as far as the condition itself tells.

vLLM is taken to run on Linux, on the interpreter that checks, with its optional dependencies, and
on one platform, CUDA unless said otherwise.
"""

import ast
import operator
import sys
from collections.abc import Callable
from typing import Any

NEVER, UNLIKELY, LIKELY, ALWAYS = range(4)
"""How likely it is that a branch is taken."""

_FAMILIES = {
    "cuda": ("is_cuda", "is_cuda_alike", "is_cudagraph"),
    "rocm": ("is_rocm", "is_cuda_alike"),
    "cpu": ("is_cpu",),
    "xpu": ("is_xpu",),
    "tpu": ("is_tpu",),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_KNOWN: dict[str, Any] = {
    "sys.version_info": tuple(sys.version_info[:3]),
    "sys.platform": "linux",
    "os.name": "posix",
    "__name__": "",
}


def likelihood(test: ast.expr, platform: str) -> int:
    """Return how likely it is that a condition holds."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ALWAYS - likelihood(test.operand, platform)
    if isinstance(test, ast.BoolOp):
        each = [likelihood(value, platform) for value in test.values]
        return min(each) if isinstance(test.op, ast.And) else max(each)
    if isinstance(test, ast.Constant):
        return ALWAYS if test.value else NEVER
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0])
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        return _asked(test.func, platform)
    return NEVER if _dotted(test).rpartition(".")[2] == "TYPE_CHECKING" else LIKELY


def _compared(left: ast.expr, comparison: ast.cmpop, right: ast.expr) -> int:
    if isinstance(right, ast.Constant) and right.value is None:
        return UNLIKELY if isinstance(comparison, (ast.Is, ast.Eq)) else LIKELY
    known, compare = _KNOWN.get(_dotted(left)), _COMPARISONS.get(type(comparison))
    if known is None or compare is None:
        return LIKELY
    try:
        return ALWAYS if compare(known, ast.literal_eval(right)) else NEVER
    except (ValueError, TypeError):
        return LIKELY


def _asked(function: ast.Attribute, platform: str) -> int:
    """Tell of `current_platform.is_rocm()` and `sys.platform.startswith(…)`, else LIKELY."""
    subject = _dotted(function.value)
    if subject.rpartition(".")[2] == "current_platform" and function.attr.startswith("is_"):
        return LIKELY if function.attr in _FAMILIES.get(platform, ()) else UNLIKELY
    return LIKELY


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
