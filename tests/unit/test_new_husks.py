"""What is left of an old file's statements in its copy once what they did is declared."""

from pathlib import Path
from textwrap import dedent

import pytest

from .old_files import Workshop, shown

START = """
    import logging
    import os
    import sys
    import vllm.core as core

    def vllm_version_is(version):
        return version == "0.32.0"

    def area(width, height=2):
        if os.environ.get("ACME"):
            pass
        return "ours"
    """

EMPTY = {
    "a condition on the version": (
        """
        if vllm_version_is("0.32.0"):
            core.area = area
        elif vllm_version_is("0.31.0"):
            core.LIMIT = 3
        else:
            core.LIMIT = 4
        """,
        "",
    ),
    "the version, that nothing else needs": (
        """
        from vllm import __version__ as vv
        if vv == "0.32.0":
            core.area = area
        """,
        "",
    ),
    "one on the environment": (
        """
        if os.environ.get("ACME") != "1" and "HOME" in os.environ:
            core.area = area
        """,
        "",
    ),
    "what was tried": (
        """
        try:
            core.area = area
        except Exception as error:
            logging.warning("no: %s", error)
        """,
        "",
    ),
    "one in another": (
        """
        if not os.getenv("ACME"):
            try:
                core.area = area
            except AttributeError:
                pass
        """,
        "",
    ),
    "all of the function that applies": (
        """
        def apply():
            if vllm_version_is("0.32.0"):
                core.area = area
            try:
                core.LIMIT = 3
            except Exception:
                pass
        apply()
        """,
        """
        def apply():
            pass
        apply()
        """,
    ),
    "one of two branches": (
        """
        if vllm_version_is("0.32.0"):
            MINE = 1
        elif vllm_version_is("0.31.0"):
            core.area = area
        """,
        """
        if vllm_version_is("0.32.0"):
            MINE = 1
        """,
    ),
}

NOT_EMPTY = {
    "a variable that has to be there": (
        """
        if os.environ["HOME"]:
            core.area = area
        """,
        """
        if os.environ["HOME"]:
            pass
        """,
    ),
    "a variable that the condition sets": (
        """
        if os.environ.setdefault("ACME_HUSK", "1"):
            core.area = area
        """,
        """
        if os.environ.setdefault("ACME_HUSK", "1"):
            pass
        """,
    ),
    "a text that may be none": (
        """
        if "o" in os.environ.get("HOME"):
            core.area = area
        """,
        """
        if "o" in os.environ.get("HOME"):
            pass
        """,
    ),
    "a handler that makes a name local": (
        """
        def apply():
            try:
                core.area = area
            except AttributeError:
                area_is = None
        apply()
        """,
        """
        def apply():
            try:
                pass
            except AttributeError:
                area_is = None
        apply()
        """,
    ),
    "what asks something else": (
        """
        core.area = area
        if sys.flags.optimize:
            pass
        """,
        """
        # declared in patches.py: vllm.core:area
        if sys.flags.optimize:
            pass
        """,
    ),
}

COPIES = EMPTY | NOT_EMPTY


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VLLM_GRAFT", "0")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Workshop(tmp_path)


@pytest.mark.parametrize("case", COPIES, ids=str)
def test_what_has_become_empty_is_left_out_if_that_changes_nothing(
    workshop: Workshop, case: str
) -> None:
    """And an implementation stays as it was, whatever is empty in it."""
    text, expected = COPIES[case]
    (workshop.vllm / "vllm" / "__init__.py").write_text('__version__ = "0.32.0"\n')
    file = workshop.old(dedent(START) + dedent(text))
    done = workshop.translated(file)
    (copy,) = done.copies.values()
    head, _, rest = copy.partition('    return "ours"\n')
    assert head.endswith('    if os.environ.get("ACME"):\n        pass\n')
    assert rest.strip() == dedent(expected).strip()
    old = workshop.run_old(file)
    assert workshop.run_new(done) == old, shown(old)
