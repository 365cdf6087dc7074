"""What counts as a change of a patch itself."""

import enum
import functools
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from vllm_graft import Patch, Value
from vllm_graft.check.own_source import UNREAD, own_source
from vllm_graft.models.registry import GROUP, get_models, models_set

from .conftest import Write

Declare = Callable[..., Patch]

MODULE = '''
from vllm_graft import PatchSet

patches = PatchSet("acme")
LIMIT = 3
WORDS = dict.fromkeys(("why", "how", "upstream", "remove"), "words")


@patches.wrap("vllm.a:f", vllm=">=0.30,<0.33", **WORDS)
@decorated
def limit(original, x=LIMIT):
    """Say what it does."""
    return original(min(x, 4))  # at most four
'''
HEAD = """
def decorated(function):
    return function
"""


@pytest.fixture
def of(write: Write) -> Callable[[str], str]:
    """Return the fingerprint of the one patch that a text declares."""

    def of(text: str) -> str:
        write("own_patches.py", HEAD + text)
        sys.modules.pop("own_patches", None)
        from own_patches import patches  # type: ignore[import-not-found]

        return own_source(patches.patches[0])

    return of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  # at most four", ""),
        ('    """Say what it does."""\n', ""),
        ("original(min(x, 4))", "original(\n        min(x, 4,)\n    )"),
        ("<0.33", "<0.34"),
        ('"words"', '"other words"'),
        ("LIMIT = 3", "# The most.\nLIMIT = 3"),
    ],
    ids=["comment", "docstring", "format", "range", "words", "elsewhere"],
)
def test_it_stays_the_same_for(of: Callable[[str], str], before: str, after: str) -> None:
    assert before in MODULE
    assert of(MODULE) == of(MODULE.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("min(x, 4)", "min(x, 5)"),
        ("x=LIMIT", "x=None"),
        ("@decorated\n", ""),
        ("def limit", "async def limit"),
        ("patches.wrap", "patches.replace"),
    ],
    ids=["body", "parameters", "decorator", "kind", "operation"],
)
def test_it_changes_with(of: Callable[[str], str], before: str, after: str) -> None:
    assert before in MODULE
    assert of(MODULE) != of(MODULE.replace(before, after))


def test_every_python_gives_the_same(of: Callable[[str], str]) -> None:
    """The value was found by 3.11; this test runs under all that are supported."""
    assert of(MODULE) == "a0f13dd1991780e9"


LAZY = "def f(x):\n    return x + 1\n"


def lazily(declare: Declare, reference: str, operation: str = "replace") -> str:
    target = "vllm.a" if operation == "run" else "vllm.a:f"
    return own_source(declare(operation, target, reference))


def test_a_lazy_implementation_is_read_and_not_imported(declare: Declare, write: Write) -> None:
    write("own_heavy.py", f"raise SystemExit\n{LAZY}")
    first = lazily(declare, "own_heavy:f")
    write("own_heavy.py", f"import torch\n\n{LAZY}  # the sum\n")
    assert lazily(declare, "own_heavy:f") == first != UNREAD
    write("own_heavy.py", LAZY.replace("1", "2"))
    assert lazily(declare, "own_heavy:f") not in (first, UNREAD)
    assert "own_heavy" not in sys.modules


@pytest.mark.parametrize(
    "handing_on",
    [
        "from .kv import f",
        "from own_package.kv import f",
        "from .kv import g as f",
        "from .twice import f",
    ],
)
def test_it_is_followed_to_where_it_is_defined(
    declare: Declare, write: Write, handing_on: str
) -> None:
    write("own_package/__init__.py", "")
    write("own_package/kv.py", LAZY + LAZY.replace("f(", "g("))
    write("own_package/twice.py", "from own_package.kv import f\n")
    write("own_package/handing.py", f"{handing_on}\n")
    write("own_alone.py", LAZY)
    assert lazily(declare, "own_package.handing:f") == lazily(declare, "own_alone:f") != UNREAD


def test_a_module_to_be_run_counts_whole(declare: Declare, write: Write) -> None:
    found = []
    for text in ("import vllm\nvllm.x = 1\n", "import vllm  # late\nvllm.x = 1\n", "x = 1\n"):
        write("own_run.py", text)
        found.append(lazily(declare, "own_run", "run"))
    assert found[0] == found[1] != found[2]
    assert UNREAD not in found


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


def one(x: Any) -> Any:
    return x


def two(x: Any) -> Any:
    return [x]


class Callable1:
    def __init__(self, x: int) -> None:
        self.x = x

    def __call__(self, given: Any) -> Any:
        return self.x


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 2),
        (1, True),
        (1, "1"),
        ("a", b"a"),
        (Value("a:b"), Value("a:c")),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (Mode.FAST, Mode.SLOW),
        (one, two),
        ([one], [two]),
        (functools.partial(one, 1), functools.partial(one, 2)),
        (functools.lru_cache(one), functools.lru_cache(two)),
        (Callable1(1), Callable1(2)),
        (Callable1, Mode),
        (int, float),
        (lambda: 1, lambda: 2),
        (len, min),
    ],
    ids=range(18),
)
def test_values_are_told_apart(declare: Declare, first: Any, second: Any) -> None:
    def of(value: Any) -> str:
        return own_source(declare("set", "vllm.a:X", value))

    assert of(first) == of(first)
    assert UNREAD not in (of(first), of(second))
    # Two lambdas on one line have one text.
    assert (of(first) == of(second)) is (getattr(first, "__name__", "") == "<lambda>")


def test_a_list_in_itself_ends(declare: Declare) -> None:
    value: list[Any] = [1]
    value.append(value)
    assert own_source(declare("set", "vllm.a:X", value)) != UNREAD


def test_what_has_no_source_is_unread(declare: Declare) -> None:
    assert lazily(declare, "own_nowhere:f") == UNREAD
    assert lazily(declare, "json:absent") == UNREAD
    assert own_source(declare("replace", "vllm.a:f", eval("lambda x: x"))) == UNREAD


def test_a_model_counts_with_its_factory_and_not_with_its_release(write: Write) -> None:
    def of(text: str) -> str:
        write("own_factory.py", text)
        entry = metadata.EntryPoint("AcmeForCausalLM", "own_factory:Acme", GROUP)
        patches = models_set(get_models([entry])).patches
        return own_source(next(each for each in patches if each.id == "models/acme"))

    first = of("class Acme:\n    size = 1\n")
    assert first == of("class Acme:\n    size = 1  # one\n") != UNREAD
    assert first != of("class Acme:\n    size = 2\n")
    assert "own_factory" not in sys.modules


USES = """
from vllm_graft import PatchSet

patches = PatchSet("acme")
WORDS = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
ABOUT = {"vllm": ">=0.30,<0.33", **WORDS}
LIMIT = 3
DEFAULT = 5
OTHER = 7
try:
    SIZE = LIMIT + 1
except ValueError:
    SIZE = 9


class Base:
    most = 10


class Kept(Base):
    pass


def helper(x):
    return deeper(x)


def deeper(x, most: "Kept" = 11):
    return x + SIZE


def make(given, keep):
    def made(original, x=DEFAULT):
        OTHER = keep(x)
        return [helper(each) for each in (given, OTHER, Kept)]

    return made


def keep(x):
    return x - 12


patches.wrap("vllm.a:f", make(13, keep), **ABOUT)


@patches.wrap("vllm.a:g", **ABOUT)
def another(original):
    return 14
"""


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("LIMIT = 3", "LIMIT = 4", True),
        ("SIZE = 9", "SIZE = 8", True),
        ("except ValueError", "except TypeError", True),
        ("DEFAULT = 5", "DEFAULT = 6", True),
        ("most = 10", "most = 0", True),
        ("deeper(x)\n", "deeper(x, 1)\n", True),
        ("x + SIZE", "x - SIZE", True),
        ("x - 12", "x - 13", True),
        ("make(13", "make(14", True),
        ("OTHER = 7", "OTHER = 8", False),
        ("return 14", "return 15", False),
        ("<0.33", "<0.34", False),
        ("def keep(x)", '"""Text."""\n\n\ndef keep(x)', False),
        ("return x + SIZE", "return x + SIZE  # more", False),
    ],
)
def test_what_it_uses_in_its_file_counts(
    of: Callable[[str], str], before: str, after: str, counts: bool
) -> None:
    assert before in USES
    assert (of(USES) != of(USES.replace(before, after))) is counts


@pytest.mark.parametrize(("before", "after"), [("LIMIT = 3", "LIMIT = 4"), ("+ LIMIT", "- LIMIT")])
def test_what_a_lazy_one_uses_counts(
    declare: Declare, write: Write, before: str, after: str
) -> None:
    text = "LIMIT = 3\ndef helper(x):\n    return x + LIMIT\ndef f(x):\n    return helper(x)\n"
    write("own_uses.py", text)
    first = lazily(declare, "own_uses:f")
    write("own_uses.py", text.replace(before, after))
    assert lazily(declare, "own_uses:f") not in (first, UNREAD)
