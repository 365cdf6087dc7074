"""What counts as a change of a definition, and how alike two definitions are."""

import ast
import textwrap

import pytest

from vllm_graft.check.fingerprint import fingerprint, similarity

SOURCE = '''
@decorate(1)
def f(self, a: int = 1, *rest, b="x") -> int:
    """Say what it does."""
    total = a + len(rest)  # the sum
    if total > 3:
        return f"{total!r:>{a}} and {b}"
    def inner(x):
        """Inside."""
        return x
    return [inner(each) for each in (1, 2,)]
'''


def node(source: str) -> ast.AST:
    return ast.parse(textwrap.dedent(source)).body[0]


def of(source: str) -> str:
    return fingerprint(node(source))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  # the sum", ""),
        ('    """Say what it does."""\n', ""),
        ("Say what it does.", "Say it otherwise."),
        ('        """Inside."""\n', ""),
        ('"x"', "'x'"),
        ("(1, 2,)", "(1, 2)"),
        ("a + len(rest)", "(a\n        + len(rest))"),
        ('f"{total!r:>{a}} and {b}"', 'f"{total!r:>{a}} " f"and {b}"'),
        ('f"{total!r:>{a}} and {b}"', 'f"{total!r:>{a}} " "and " f"{b}"'),
        ("def f(", "def renamed("),
        ("a: int = 1", "a: float = 2"),
    ],
    ids=range(11),
)
def test_it_stays_the_same_for(before: str, after: str) -> None:
    assert before in SOURCE
    assert of(SOURCE.replace(before, after)) == of(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("total > 3", "total >= 3"),
        ("decorate(1)", "decorate(2)"),
        ("a + len(rest)", "a - len(rest)"),
        ("total!r", "total!s"),
        ("and {b}", "or {b}"),
        ("def inner(x)", "def inner(x, y)"),
        ("(1, 2,)", "(1, 2, 3)"),
        ("def f(", "async def f("),
    ],
)
def test_it_changes_for(before: str, after: str) -> None:
    assert before in SOURCE
    assert of(SOURCE.replace(before, after)) != of(SOURCE)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SOURCE, "6eca9c160bd1abe7"),
        ("class A(B, metaclass=M):\n    x: int = 1\n    def f(self): pass\n", "95e45dc80ac27536"),
        ("LIMIT: int = 1 + 2\n", "1180595e7a14ee5c"),
        ("def f(): 'Only a docstring'\n", "1cca915aff186234"),
        ("def f():\n    match x:\n        case [1, *_]: pass\n", "77d8f8d91f05d947"),
    ],
)
def test_every_python_gives_the_same(source: str, expected: str) -> None:
    assert of(source) == expected


def test_a_class_has_its_bases_and_members_in_it() -> None:
    base = of("class A(B):\n    def f(self): pass\n")
    assert of("class A(C):\n    def f(self): pass\n") != base
    assert of("class A(B):\n    def f(self): return 1\n") != base
    assert of("class A(B):\n    'Doc'\n    def f(self): pass  # c\n") == base


def test_the_value_of_an_assignment_is_what_counts() -> None:
    assert of("x = 1 + 1") == of("y: int = 1+1")
    assert of("x = 1") != of("x = 2")


def test_similarity_is_one_for_the_same_and_little_for_another() -> None:
    same = node(SOURCE.replace("# the sum", "# else"))
    edited = node(SOURCE.replace("total > 3", "total > self.limit"))
    other = node("def f(x):\n    with open(x) as file:\n        yield from file\n")
    assert similarity(node(SOURCE), same) == 1.0
    assert 0.8 < similarity(node(SOURCE), edited) < 1.0
    assert similarity(node(SOURCE), other) < 0.3
