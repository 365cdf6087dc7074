"""Statements found without parsing them: the same that a syntax tree has."""

import ast
from textwrap import dedent

import pytest

from vllm_graft.check.outline import Outline, Unsplit

MODULE = '''
"""Docstring
def not_a_function():
    pass
"""
import os
from a import (
    b,
    c,
)
# def not_this(): pass

TABLE = {
    "x": "# no comment",
}
TEXT = """
class NotAClass:
    """ + 'a\\
b'

@decorator(
    1,
)
@other
def decorated(a,
              b=")"):
    """Inside
no indentation here
    """
    return 1

async def coroutine():
    pass

if TABLE:
    FIRST = 1
elif TEXT:
    FIRST = 2
else:
    FIRST = 3

try:
    import fast
except ImportError:
    fast = None
finally:
    pass


class Plain(Base,
            metaclass=M):  # comment
    # comment at the top

    attribute: int = 1

    @property
    def value(self): return {1: 2}

    if TABLE:
        def conditional(self): pass
    else:
        pass

    class Inner:
        x = 1

class OneLine: pass
class WithBody(Base): value = 1; other = 2
for i in (): pass
'''


def test_the_blocks_are_the_statements_of_the_syntax_tree() -> None:
    split, parsed = Outline(MODULE), Outline(MODULE)
    parsed.parse()
    assert [(each.line, each.name, each.is_class) for each in split.blocks] == [
        (each.line, each.name, each.is_class) for each in parsed.blocks
    ]


def test_each_block_parses_as_it_does_in_the_module() -> None:
    outline = Outline(MODULE)
    alone = [
        ast.dump(node, include_attributes=True) for b in outline.blocks for node in outline.nodes(b)
    ]
    whole = [ast.dump(node, include_attributes=True) for node in ast.parse(MODULE).body]
    assert alone == whole


def test_the_members_of_a_class_are_blocks_too() -> None:
    outline = Outline(MODULE)
    for block in (each for each in outline.blocks if each.is_class):
        node = next(each for each in ast.parse(MODULE).body if each.lineno == block.line)
        assert isinstance(node, ast.ClassDef)
        members = [each for member in outline.members(block) for each in outline.nodes(member)]
        assert [ast.dump(each, include_attributes=True) for each in members] == [
            ast.dump(each, include_attributes=True) for each in node.body
        ]


def test_a_class_can_be_asked_for_its_bases_alone() -> None:
    outline = Outline(MODULE)
    block = next(each for each in outline.blocks if each.name == "Plain")
    header = outline.header(block)
    assert [ast.unparse(base) for base in header.bases] == ["Base"]
    assert len(header.body) == 1


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ("x = (1, [2], {})\n", False),
        ("x = 1  # :)\n", False),
        ("x = '('\n", False),
        ("x = (1,\n", True),
        ("def f(: pass  # :)\n}\n", True),
    ],
)
def test_brackets_tell_what_is_broken_those_in_texts_left_out(text: str, is_broken: bool) -> None:
    assert Outline(text).looks_broken is is_broken


@pytest.mark.parametrize("text", ["a = 1\nb = 2\n", "\na = 1\n\nb = 2", "#!/x\na = 1\nb = 2\n"])
def test_a_text_may_begin_with_a_statement(text: str) -> None:
    parsed = [(node.lineno, ast.unparse(node)) for node in ast.parse(text).body]
    blocks = Outline(text).blocks
    assert [(each.line, text[each.start : each.end].strip()) for each in blocks] == parsed


def test_blocks_that_may_bind_a_name() -> None:
    outline = Outline(MODULE)

    def lines(name: str) -> list[int]:
        return [block.line for block in outline.mentioning(name, outline.blocks)]

    assert lines("FIRST") == [35]
    assert lines("fast") == [42]
    assert lines("value") == []  # in classes only
    assert lines("FIRS") == []


@pytest.mark.parametrize(
    "source",
    [
        "x = dict(\na=1,\nb=2)\ndef f(): pass\n",
        "x = [\n1,\n2]\ndef f(): pass\n",
        "def f(): pass\nx = (a\nand b)\n",
        "x = 1 + \\\n2\ndef f(): pass\n",
    ],
    ids=["call", "list", "parentheses", "backslash"],
)
def test_code_that_nobody_formatted_is_parsed_as_a_whole(source: str) -> None:
    outline = Outline(source)
    with pytest.raises(Unsplit):
        [outline.nodes(block) for block in outline.blocks]
    outline.parse()
    assert len(outline.blocks) == 2
    assert [block.name for block in outline.mentioning("f", outline.blocks)] == ["f"]


def test_tabs_and_nested_classes() -> None:
    outline = Outline("class A:\n\tclass B:\n\t\tdef f(self): pass\n\t\tx = 1\n")
    (a,) = outline.blocks
    (b,) = outline.members(a)
    assert [each.name for each in outline.members(b)] == ["f", None]


def test_an_empty_module_has_no_blocks() -> None:
    assert Outline("").blocks == []
    assert Outline(dedent("# a comment\n")).blocks == []
