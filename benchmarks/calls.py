"""The cost of a call: a function by itself, through a closure, through `wrap`, through wrapt."""

import sys
import timeit
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import wrapt
from benchmarks.measure import Sample

from vllm_graft.apply import apply
from vllm_graft.declare import PatchSet

FUNCTION = "the function itself"
BY_HAND = "its implementation, called by hand"
FORWARD = "one call that passes any arguments on"
CLOSURE = "closure, written by hand"
WRAP = "vllm-graft wrap"
WRAPT = "wrapt.FunctionWrapper"

LOOPS = 10_000

_SHAPES = {
    "f(a, b), ns": "f(1, 2)",
    "f(a, b=b), ns": "f(1, b=2)",
    "object.f(a, b), ns": "o.f(1, 2)",
}
_BY_HAND_SHAPES = dict(zip(_SHAPES, ("i(f, 1, 2)", "i(f, 1, b=2)", "i(m, o, 1, 2)"), strict=True))


def implementation(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the original: what every variant but the first and the third does."""
    return original(*args, **kwargs)


def _wrapt_implementation(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return forward


def _closure(original: Callable[..., Any]) -> Callable[..., Any]:
    def closure(*args: Any, **kwargs: Any) -> Any:
        return implementation(original, *args, **kwargs)

    return closure


def _wrapt(original: Callable[..., Any]) -> Any:
    return wrapt.FunctionWrapper(original, _wrapt_implementation)


def _module(change: Callable[[Callable[..., Any]], Any] | None = None) -> ModuleType:
    """Make a module with a function and a class, the function and the method both changed."""
    module = ModuleType("benchmark_subject")
    exec(
        "def f(a, b): return a\nclass C:\n    def f(self, a, b): return a\n",
        vars(module),
    )
    sys.modules[module.__name__] = module
    if change is not None:
        module.C.f = change(module.C.f)
        module.__dict__["f"] = change(module.f)
    return module


def _grafted() -> ModuleType:
    """Make such a module and apply two `wrap` patches to it, as a hook does."""
    module = _module()
    patches = PatchSet("benchmark")
    for target in ("f", "C.f"):
        patches.wrap(
            f"{module.__name__}:{target}",
            implementation,
            id=target.replace(".", "-").lower(),
            vllm=">=0",
            why="To be measured.",
            how="Call the original.",
            upstream="None.",
            remove="Never.",
        )
    for patch in patches.patches:
        apply(patch, module)
    return module


def _modules() -> dict[str, ModuleType]:
    return {
        FUNCTION: _module(),
        FORWARD: _module(_forward),
        BY_HAND: _module(),
        CLOSURE: _module(_closure),
        WRAP: _grafted(),
        WRAPT: _module(_wrapt),
    }


def _namespace(module: ModuleType) -> dict[str, Any]:
    return {"f": module.f, "o": module.C(), "m": module.C.f, "i": implementation}


def subjects() -> dict[str, Callable[[], Sample]]:
    """Return what times one call of each variant, in nanoseconds, for each shape of call."""
    return {name: _timed(name, module) for name, module in _modules().items()}


def _timed(name: str, module: ModuleType) -> Callable[[], Sample]:
    shapes = _BY_HAND_SHAPES if name == BY_HAND else _SHAPES
    timers = {
        shape: timeit.Timer(statement, globals=_namespace(module))
        for shape, statement in shapes.items()
    }
    return lambda: {shape: timer.timeit(LOOPS) / LOOPS * 1e9 for shape, timer in timers.items()}


def frames() -> dict[str, int]:
    """Count the Python functions that one call of each variant enters."""
    statement, by_hand = next(iter(_SHAPES.values())), next(iter(_BY_HAND_SHAPES.values()))
    return {
        name: _entered(by_hand if name == BY_HAND else statement, _namespace(module))
        for name, module in _modules().items()
    }


def _entered(statement: str, namespace: dict[str, Any]) -> int:
    code = compile(statement, "<call>", "eval")
    entered = 0

    def profiler(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code is not code

    sys.setprofile(profiler)
    try:
        eval(code, namespace)
    finally:
        sys.setprofile(None)
    return entered
