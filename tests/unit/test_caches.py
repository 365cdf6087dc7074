"""The fingerprint in vLLM's cache keys: the same for the same patches, another for others."""

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import Patch, PatchSet, Value
from vllm_graft.builtin import builtin_sets
from vllm_graft.caches import fingerprint

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]
Python = Callable[..., str]
Write = Callable[[str, str], Path]


def f(*_args: Any) -> int:
    """Stand for an implementation."""
    return 1


def g(*_args: Any) -> int:
    """Stand for another implementation in the same file."""
    return 2


def test_no_fingerprint_without_anybodys_patches() -> None:
    """Built-in patches do not change what vLLM computes, so they leave its cache keys alone."""
    built_in = [patch for patch_set in builtin_sets() for patch in patch_set.patches]

    assert built_in
    assert fingerprint([]) is None
    assert fingerprint(built_in) is None


def test_built_in_patches_do_not_count(declare: Declare) -> None:
    """A new release of the layer does not make vLLM compile again."""
    built_in = [patch for patch_set in builtin_sets() for patch in patch_set.patches]
    mine = declare("wrap", "m:f", f)

    assert fingerprint([mine, *built_in]) == fingerprint([mine])


DIFFERENT: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("wrap", "m:f", f, {}),
    ("wrap", "m:f", f, {"id": "other"}),
    ("wrap", "m:g", f, {}),
    ("wrap", "n:f", f, {}),
    ("replace", "m:f", f, {}),
    ("wrap", "m:f", g, {}),
    ("wrap", "m:f", "acme_impl:f", {}),
    ("wrap", "m:f", f, {"vllm": ">=0.28"}),
    ("wrap", "m:f", f, {"order": 1}),
    ("set", "m:f", 1, {}),
    ("set", "m:f", 2, {}),
    ("set", "m:f", "1", {}),
    ("set", "m:f", "acme_impl:f", {}),
    ("set", "m:f", Value("acme_impl:f"), {}),
    ("set", "m:f", [1, {"a": 2}], {}),
    ("set", "m:f", f, {}),
]


def test_it_covers_all_that_decides_what_is_patched(declare: Declare) -> None:
    """Id, operation, target, range, order, implementation and value: each changes it."""
    prints = [
        fingerprint([declare(operation, target, given, **options)])
        for operation, target, given, options in DIFFERENT
    ]

    assert len(set(prints)) == len(DIFFERENT)
    assert all(isinstance(each, str) and len(each) == 64 for each in prints)


def test_what_does_not_decide_does_not_count(declare: Declare) -> None:
    """A better description, and where it is declared, do not make vLLM compile again."""
    assert fingerprint([declare("wrap", "m:f", f)]) == fingerprint(
        [declare("wrap", "m:f", f, why="another reason", remove="sooner", required=False)]
    )


def test_the_order_of_declaration_does_not_count() -> None:
    """Distributions may be found in any order."""
    patches = PatchSet("acme")
    for name in ("a", "b", "c"):
        patches.wrap(
            f"m:{name}", f, id=name, vllm=">=0.27", why="w", how="h", upstream="u", remove="r"
        )
    forwards = patches.patches

    assert fingerprint(forwards) == fingerprint(reversed(forwards))
    assert fingerprint(forwards) != fingerprint(forwards[:2])


@pytest.mark.parametrize("how", ["lazy", "function", "class", "decorated"])
def test_it_changes_with_the_source_of_the_implementation(
    make: Make, declare: Declare, how: str
) -> None:
    """An edited implementation, or what it calls in its file, gives another fingerprint."""
    source = (
        "import functools\n"
        "def decorate(f):\n"
        "    return functools.wraps(f)(lambda *args: f(*args))\n"
        "def helper():\n    return {}\n"
        "def function(original):\n    return helper()\n"
        "class Class:\n    value = helper()\n"
        "@decorate\ndef decorated(original):\n    return helper()\n"
    )

    def printed(value: int) -> str | None:
        module = make(source.format(value), "acme_impl")
        given: Any = (
            "acme_impl:function"
            if how == "lazy"
            else getattr(module, how.capitalize() if how == "class" else how)
        )
        return fingerprint([declare("replace", "m:f", given)])

    assert printed(1) == printed(1)
    assert printed(1) != printed(2)


def test_a_lazy_implementation_is_not_imported_for_it(write: Write, declare: Declare) -> None:
    """The file is read, never run."""
    write("acme_impl.py", "raise SystemExit('imported')\n")

    assert fingerprint([declare("wrap", "m:f", "acme_impl:f")]) is not None


@pytest.mark.parametrize(
    "given",
    [
        math.sqrt,
        float,
        functools.partial(f, 1),
        "no_such_module:f",
        "no_such_package.module:f",
        "math:sqrt",
        float("nan"),
        eval("lambda *_: 1"),
    ],
    ids=["C function", "C class", "partial", "no module", "no package", "C module", "nan", "eval"],
)
def test_anything_that_can_be_given_has_a_fingerprint(declare: Declare, given: Any) -> None:
    """Values without a source, and implementations that cannot be found, do not stop vLLM."""
    assert fingerprint([declare("set", "m:f", given)]) is not None


def test_it_is_equal_in_every_process(python: Python, write: Write) -> None:
    """Neither hash seeds nor addresses of objects are in it: all workers share one cache."""
    write(
        "acme_impl.py",
        """
        import functools
        def f(original):
            return original
        class Callable:
            def __call__(self, original):
                return original
        GIVEN = {
            "function": ("wrap", f),
            "lazy": ("wrap", "acme_impl:f"),
            "callable": ("wrap", Callable()),
            "subclass": ("subclass", f),
            "values": ("set", {"b": 1, "a": [1.5, None, True]}),
            "set": ("set", {"alpha", "beta", "gamma", "delta"}),
            "frozenset": ("set", frozenset({"alpha", "beta", "gamma", "delta"})),
            "nested": ("set", ("x", {"key": {"alpha", "beta", "gamma", "delta"}})),
            "instance": ("set", Callable()),
            "partial": ("set", functools.partial(f, 1)),
        }
        """,
    )
    script = """
        import json
        memory = [object() for _ in range(hash("x") % 1000)]  # moves what is made after it
        from acme_impl import GIVEN
        from vllm_graft import PatchSet
        from vllm_graft.caches import fingerprint
        reasons = dict(vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
        prints = {}
        for name, (operation, given) in GIVEN.items():
            patches = PatchSet("acme")
            getattr(patches, operation)("m:f", given, id="it", **reasons)
            prints[name] = fingerprint(patches.patches)
        print(json.dumps(prints))
        """
    one, two = (json.loads(python(script, PYTHONHASHSEED=seed)) for seed in ("1", "2"))

    assert one == two
