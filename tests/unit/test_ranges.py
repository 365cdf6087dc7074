"""Whether two version ranges have a version in common, which decides what is a conflict; and how
they are written."""

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from vllm_graft.ranges import overlap, written, written_requirement

TABLE = [
    (">=0.27,<0.33", ">=0.32", True),
    (">=0.27,<0.33", ">=0.33", False),
    (">=0.27,<=0.33", ">=0.33", True),
    ("<0.27", ">=0.33", False),
    ("<0.30", ">0.29.9999", True),
    (">0.29", "<0.30", True),
    ("", "", True),
    ("", "==0.32.0", True),
    ("==0.32.0", "==0.32.0", True),
    ("==0.32.0", "==0.32", True),
    ("==0.32.0", "==0.32.1", False),
    ("==0.32.*", "==0.32.5", True),
    ("==0.32.*", "==0.33.*", False),
    ("==0.32.*", ">=0.32.7", True),
    ("==0.32.*", "<0.32", False),
    ("==0.32.*", "<0.32.0rc1", True),
    ("==0.32.*", ">0.32.99", True),
    ("==0.*", "==0.32.*", True),
    ("==0.32.*,!=0.32.0", "==0.32.0", False),
    ("~=0.32.1", "<0.32.1", False),
    ("~=0.32.1", ">=0.33", False),
    ("~=0.32.1", ">=0.32.99", True),
    ("~=0.32", ">=0.40,<1", True),
    ("~=0.32", ">=1", False),
    ("!=0.32.0", "==0.32.0", False),
    ("!=0.32.0", "==0.32.0.post1", True),
    ("!=0.32.*", "==0.32.*", False),
    ("!=0.32.*", "==0.33.0", True),
    (">=0.32,<0.34,!=0.33.*", ">=0.33,<0.34", False),
    # between two releases there are pre-releases
    (">=0.32.0rc1,<0.33", "<0.32.0rc2", True),
    (">=0.33.0rc1,<0.33.0", ">=0.32,<0.33.0rc1", False),
    (">=0.33.0.dev1,<0.33.0rc1", ">=0.32,<0.33.0", False),
    (">=0.33.0rc1", "<0.33", False),
    (">=0.33.0.dev0", "<=0.33.0rc1", True),
    (">0.32.0rc1", "<0.32.0rc3", True),
    (">0.33.0.dev1", "<0.33.0.dev3", True),
    # and after one, post-releases
    (">=0.32.0.post1,<0.33", "==0.32.0", False),
    (">=0.32.0.post1,<0.33", ">0.32.0,<0.32.1", True),  # 0.32.0.1
    (">0.29.0.post5", "<0.29.1", True),
    (">=0.32.0.post1,<0.32.0.post2", ">=0.32.0,<0.33", True),
    (">0.32.0.post1", "<0.32.0.post3", True),
    # nothing is between these
    (">0.32.0,<0.32.0", ">=0.32", False),
    ("===0.32.0", "==0.32.0", True),
    ("===nightly", ">=0.32", False),
]


@pytest.mark.parametrize(("a", "b", "expected"), TABLE)
def test_table_of_overlaps(a: str, b: str, expected: bool) -> None:
    """Two ranges overlap where some version, pre-releases included, is in both; both ways round."""
    assert overlap(SpecifierSet(a), SpecifierSet(b)) is expected
    assert overlap(SpecifierSet(b), SpecifierSet(a)) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ">=0.27.1,<0.34",
        ">0.9,<=0.34",
        ">=0.27,<0.34,!=0.28.*,!=0.30.1",
        ">=0.9,<0.34,!=0.9.1,!=0.10.1",
        "~=0.27.1,!=0.27.3",
        "==0.32.*",
        "==0.32.0,!=0.32.1",
        "===edited",
    ],
)
def test_a_range_is_written_from_its_lower_bound_on(text: str) -> None:
    """In whatever order it was given, and so that it is read as the same range."""
    backwards = ",".join(reversed(text.split(",")))
    assert written(SpecifierSet(backwards)) == text
    assert SpecifierSet(written(SpecifierSet(text))) == SpecifierSet(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("torch<2.12,>=2.11", "torch>=2.11,<2.12"),
        ("torch", "torch"),
        (
            'a-b[x,y] <2,>=1,!=1.5; sys_platform == "linux"',
            'a-b[x,y]>=1,<2,!=1.5; sys_platform == "linux"',
        ),
    ],
)
def test_a_requirement_is_written_with_its_range_so(given: str, expected: str) -> None:
    assert written_requirement(Requirement(given)) == expected
