"""Why a text is not Python, without the name that the parser gives to it."""

import ast

import pytest

from vllm_graft.check.syntax_error import told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "invalid syntax (line 1)"),
        ("\nif True:\n", "expected an indented block after 'if' statement on line 2 (line 2)"),
    ],
)
def test_the_line_is_told_once_and_no_file(text: str, words: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    assert told(caught.value) == words


@pytest.mark.parametrize(
    "error", [SyntaxError("null bytes"), ValueError("null bytes")], ids=["newer", "older"]
)
def test_where_there_is_no_line_none_is_told(error: SyntaxError | ValueError) -> None:
    """As newer and older Pythons raise it for a text with null bytes."""
    assert told(error) == "null bytes"
