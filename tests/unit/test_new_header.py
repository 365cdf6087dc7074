"""Why a patch exists: what the comments of old files say of it, and what they leave open."""

from pathlib import Path

import pytest

from vllm_graft import PatchSet
from vllm_graft.new import header

from .old_files import Workshop

PATH = "vllm.core.Engine.step"

HEADERS = {
    "fields of the file": (
        """
        # Why: It is slow.
        # How: Skip half of it.
        # Related PR (if no, explain why): None, it is ours.
        # Future Plan: Remove it with 0.40.
        """,
        {
            "why": "It is slow.",
            "how": "Skip half of it.",
            "upstream": "None, it is ours.",
            "remove": "Remove it with 0.40.",
        },
    ),
    "texts on lines of their own": (
        """
        #    Why:
        #       It is slow,
        #       very slow.
        #    How\uff1a
        #       - Skip half.
        #    Related PR\uff08if no, explain why\uff09\uff1a
        #       https://example.org/pull/1
        """,
        {
            "why": "It is slow, very slow.",
            "how": "Skip half.",
            "upstream": "https://example.org/pull/1",
        },
    ),
    "a docstring": (
        '''
        """Patches of the engine.

        Why: It is slow.
        Removal plan: With 0.40.
        """
        ''',
        {"why": "It is slow.", "remove": "With 0.40."},
    ),
    "a list, by target": (
        """
        # ** File: worker/patch_engine.py **
        #   ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
        #   1. `vllm.core.area`
        #    Why:
        #       About areas.
        #   2. `vllm.core.Engine.step`
        #      `vllm.core.Engine.pick`
        #    Why:
        #       About steps.
        # ** File: worker/patch_other.py **
        #   1. `vllm.core.Engine.step`
        #    Why:
        #       About another file.
        """,
        {"why": "About steps."},
    ),
    "a list of assignments": (
        """
        # ** File: worker/patch_engine.py **
        #   1. `vllm.core.area = area`
        #    Why:
        #       About areas.
        #   2. `Engine.step = step`
        #    Why:
        #       About steps.
        """,
        {"why": "About steps."},
    ),
    "numbered steps in a text": (
        """
        # Why: It is slow.
        # How:
        #   1. skip half
        #   2. do the rest
        """,
        {"why": "It is slow.", "how": "1. skip half 2. do the rest"},
    ),
    "nothing": ("# Copyright: somebody\n", {}),
}


@pytest.mark.parametrize("case", HEADERS, ids=str)
def test_fields_are_read_from_comments(tmp_path: Path, case: str) -> None:
    from textwrap import dedent

    text, expected = HEADERS[case]
    file = tmp_path / "worker" / "patch_engine.py"
    file.parent.mkdir()
    file.write_text(dedent(text), encoding="utf-8")
    found: dict[str, str] = {}
    for entry in header.entries(file, file.read_text(encoding="utf-8")):
        if entry.is_about(file, PATH):
            found = {**entry.texts, **found}
    assert found == expected


def test_a_list_in_the_package_is_about_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "plugin" / "worker"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder.parent / "__init__.py").write_text(
        "# Why: this is about the package, and no patch.\n\n"
        "# File: worker/patch_engine.py\n# 1. `Engine.step`\n# Why: It is slow.\n"
    )
    file = folder / "patch_engine.py"
    found = [each for each in header.entries(file, "") if each.is_about(file, PATH)]
    assert [each.texts for each in found] == [{"why": "It is slow."}]
    other = folder / "patch_other.py"
    assert not any(each.is_about(other, PATH) for each in header.entries(other, ""))


def test_what_is_not_known_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment or docstring near the patch helps to fill it, and does not fill it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    workshop = Workshop(tmp_path)
    file = workshop.old('''
        # How: Say ours.

        import vllm.core as core

        def area(width, height=2):
            """Answer with a constant.

            More.
            """

        core.area = area
        # Half of them is enough.
        core.LIMIT = 3
        ''')
    area, limit = workshop.translated(file).declarations
    assert area.reasons.text("how") == "Say ours."
    assert area.reasons.text("why") == (
        "FILL IN: what goes wrong without the patch (the old file says: Answer with a constant.)"
    )
    assert limit.reasons.text("why").endswith("(the old file says: Half of them is enough.)")


def test_gaps_of_a_patch_are_the_fields_that_begin_so() -> None:
    patches = PatchSet("acme")
    patches.set(
        "vllm.core:LIMIT",
        3,
        vllm="==0.32.*",
        why="FILL IN: what goes wrong without the patch",
        how="Not FILL IN: a text.",
        upstream="None.",
        remove="FILL IN: when the patch can be deleted",
    )
    assert patches.patches[0].gaps == ("why", "remove")
