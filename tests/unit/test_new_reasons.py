"""What a comment of an old file is about: the patch that it stands at, the file, or nothing."""

from pathlib import Path
from textwrap import dedent

import pytest

from vllm_graft.new import header

from .old_files import Workshop

URL = "https://github.com/vllm-project/vllm/pull/99"

AREA = "def area(width, height=2):\n    return 1\n\n\ncore.area = area\n"
STEP = "def step(self, count=1):\n    return 2\n\n\ncore.Engine.step = step\n"
PICK = "def pick(items):\n    return 3\n\n\ncore.Engine.pick = pick\n"
OTHERS = f"\n\n{STEP}\n\n{PICK}"

FOR_ONE_PATCH = {
    "above the function": f"# Why: It is slow.\n{AREA}",
    "above its decorators": f"# Why: It is slow.\n@functools.cache\n@functools.cache\n{AREA}",
    "between its decorators": f"@functools.cache\n# Why: It is slow.\n@functools.cache\n{AREA}",
    "above the assignment": AREA.replace("core.area", "# Why: It is slow.\ncore.area"),
    "behind the assignment": AREA.replace("= area", "= area  # type: ignore  # Why: It is slow."),
    "above the assignment to a longer name": "# Why: It is slow.\ncore.area: object = print",
    "above a value": "# Why: It is slow.\nAREA = max(1, 2)\n\ncore.area = AREA",
    "above the class": "# Why: It is slow.\nclass Mine:\n    pass\n\n\ncore.area = Mine",
    "above the original": f"# Why: It is slow.\noriginal = core.area\n\n\n{AREA}",
    "above a function that is handed over": (
        "# Why: It is slow.\ndef mine(width):\n    return 1\n\n\ncore.area = functools.cache(mine)"
    ),
    "above the second function of the name": (
        "def same(self):\n    return 1\n\n\ncore.Engine.kept = same\n\n\n"
        "# Why: It is slow.\ndef same(width):\n    return 1\n\n\ncore.area = same"
    ),
    "above a function of another scope": (
        "# Why: It is slow.\ndef mine(width):\n    return 1\n\n\n"
        "def apply():\n    # Why: It is another.\n    def mine(self):\n        return 1\n\n"
        "    core.Engine.kept = staticmethod(mine)\n\n\napply()\n"
        "core.area = functools.cache(mine)"
    ),
    "above a condition": "# Why: It is slow.\nif hasattr(core, 'area'):\n    core.area = print",
    "above the function that patches": (
        "# Why: It is slow.\ndef apply():\n    core.area = print\n\n\napply()"
    ),
    "in a function that patches": (
        "def apply():\n    # Why: It is slow.\n    def mine():\n        return 1\n\n"
        "    core.area = mine\n\n\napply()"
    ),
    "in its docstring": AREA.replace("return 1", '"""Why: It is slow."""'),
    "in the docstring of a class": (
        'class Mine:\n    """Ours.\n\n    Why: It is\n        slow.\n    """\n\n\ncore.area = Mine'
    ),
    "in the docstring of the function that patches": (
        'def apply():\n    """Why: It is slow."""\n    core.area = print\n\n\napply()'
    ),
    "before a comment that is about nothing": (
        f"# Why: It is slow.\n{AREA}\n# Why: It is about nothing.\n\n"
    ),
}


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Workshop(tmp_path)


def _texts(workshop: Workshop, text: str, field: str = "why") -> dict[str, str]:
    """Return a text of each patch of an old file; empty where it is a gap."""
    file = workshop.old(f"import functools\n\nimport vllm.core as core\n\n\n{text}")
    done = workshop.translated(file).declarations
    return {each.target_name: getattr(each.reasons, field) for each in done}


@pytest.mark.parametrize("where", FOR_ONE_PATCH, ids=str)
def test_a_comment_at_a_patch_is_about_that_alone(workshop: Workshop, where: str) -> None:
    texts = _texts(workshop, FOR_ONE_PATCH[where] + OTHERS)
    assert texts.pop("area") == "It is slow."
    assert {"step", "pick"} <= set(texts)
    assert "It is slow." not in texts.values()


def test_a_comment_at_a_function_that_patches_is_about_all_it_does(workshop: Workshop) -> None:
    """An address in one without labels may be about one of them only, and is in the hint."""
    apply = "def apply{}():\n    core.{} = print\n    core.{} = print\n\n\napply{}()\n\n\n"
    file = workshop.old(
        f"import vllm.core as core\n\n\n# Why: It is slow.\n{apply.format(1, 'area', 'fetch', 1)}"
        f"# See {URL}\n{apply.format(2, 'user', 'used_here', 2)}{PICK}"
    )
    done = {each.target_name: each.reasons for each in workshop.translated(file).declarations}
    assert {name: (each.why, each.upstream, each.hint) for name, each in done.items()} == {
        "area": ("It is slow.", "", ""),
        "fetch": ("It is slow.", "", ""),
        "user": ("", "", f"the old file says: See {URL}"),
        "used_here": ("", "", f"the old file says: See {URL}"),
        "pick": ("", "", ""),
    }


def test_each_patch_has_its_own_texts_and_the_rest_are_gaps(workshop: Workshop) -> None:
    file = workshop.old(
        "import vllm.core as core\n\n"
        f"# Why: Requests run away.\n# Upstream: vllm#99\n{STEP}\n"
        f"# Why: The area is too large.\n{AREA}\n\n{PICK}"
    )
    done = {each.target_name: each for each in workshop.translated(file).declarations}
    assert {name: (each.reasons.why, each.reasons.upstream) for name, each in done.items()} == {
        "step": ("Requests run away.", "vllm#99"),
        "area": ("The area is too large.", ""),
        "pick": ("", ""),
    }
    assert {name: each.gaps for name, each in done.items()} == {"step": 2, "area": 3, "pick": 4}


ABOUT_NO_PATCH = {
    "between definitions": f"{AREA}\n\n# Why: It is slow.\n\n\n{STEP}",
    "in another column": f"{AREA}\n\nif core:\n    pass\n    # Why: It is slow.\n{STEP}",
    "in the body of a function": f"{STEP}{AREA}".replace(
        "    return 1", "    # Why: It is slow.\n    return 1"
    ),
    "at the end of the file": f"{AREA}\n\n{STEP}\n# Why: It is slow.\n",
    "at something else": f"{AREA}\n\n# Why: It is slow.\nOTHER = 1\n\n{STEP}",
    "at an import": f"{AREA}\n\n# Why: It is slow.\nimport vllm.other\n\n{STEP}",
    "above a helper that makes it": (
        "# Why: It is slow.\ndef made(function):\n    return function\n\n\n"
        f"core.Engine.step = made(print)\n{AREA}"
    ),
    "apart from the first, where others have theirs": (
        f"# Why: It is slow.\n\n{AREA}\n\n# Why: Of picks.\n\n{STEP}"
    ),
}


@pytest.mark.parametrize("where", ABOUT_NO_PATCH, ids=str)
def test_a_comment_elsewhere_is_about_no_patch(workshop: Workshop, where: str) -> None:
    texts = _texts(workshop, ABOUT_NO_PATCH[where])
    assert set(texts) == {"area", "step"}
    assert not any(texts.values())


HEADERS = {
    "above the imports": "# Why: It is slow.\nimport vllm.core as core\n\n\n",
    "between imports": "import functools\n# Why: It is slow.\nimport vllm.core as core\n\n\n",
    "below the imports": "import vllm.core as core\n\n# Why: It is slow.\n\n\n",
    "above imports for type checkers": (
        "import vllm.core as core\nfrom typing import TYPE_CHECKING\n\n# Why: It is slow.\n"
        "if TYPE_CHECKING:\n    import torch\n\n\n"
    ),
    "the docstring": '"""Why: It is slow."""\n\nimport vllm.core as core\n\n\n',
}


@pytest.mark.parametrize("where", HEADERS, ids=str)
def test_a_header_is_about_all_that_have_no_text_of_their_own(
    workshop: Workshop, where: str
) -> None:
    own = "# TODO: remove this when 0.40 is out\n"
    file = workshop.old(f"{HEADERS[where]}{AREA}\n\n{own}{STEP}")
    done = {each.target_name: each.reasons for each in workshop.translated(file).declarations}
    assert {name: (each.why, each.remove) for name, each in done.items()} == {
        "area": ("It is slow.", ""),
        "step": ("It is slow.", "remove this when 0.40 is out"),
    }


def test_what_stands_at_a_patch_comes_before_the_header(workshop: Workshop) -> None:
    file = workshop.old(
        "# Why: It is slow.\n# Upstream: None.\nimport vllm.core as core\n\n\n"
        f"{AREA}\n\n# Why: Steps are slow.\n# See {URL}\n{STEP}"
    )
    done = {each.target_name: each.reasons for each in workshop.translated(file).declarations}
    assert (done["area"].why, done["area"].upstream) == ("It is slow.", "None.")
    assert (done["step"].why, done["step"].upstream) == ("Steps are slow. See " + URL, "None.")


ENDS = {
    "a task": ("# Upstream: URL\n# TODO handle streams\n", {"upstream": "URL"}),
    "a task to remove it": (
        "# Upstream: URL\n# TODO remove when 0.40\n",
        {"upstream": "URL", "remove": "remove when 0.40"},
    ),
    "a task of somebody": (
        "# Why: It is slow.\n# FIXME(ann): Delete this patch once 0.40\n# is out.\n",
        {"why": "It is slow.", "remove": "Delete this patch once 0.40 is out."},
    ),
    "words of removal": (
        "# Why: It is slow.\n# Remove the workaround when 0.40 is out.\n",
        {"why": "It is slow.", "remove": "Remove the workaround when 0.40 is out."},
    ),
    "another label": ("# Why: It is slow.\n# Author: Ann\n", {"why": "It is slow."}),
    "an empty comment": ("# Why: It is slow.\n#\n# And more.\n", {"why": "It is slow."}),
    "an empty line": ("# Why: It is slow.\n\n# And more.\n", {"why": "It is slow."}),
    "not a task below a label": (
        "# Future Plan:\n#   TODO: ask upstream.\n",
        {"remove": "TODO: ask upstream."},
    ),
    "not its first words": (
        "# How:\n#   Remove it when it is empty.\n",
        {"how": "Remove it when it is empty."},
    ),
    "not the removal of something else": (
        "# How: Split the batch.\n# Remove padding when it is long.\n",
        {"how": "Split the batch. Remove padding when it is long."},
    ),
}


@pytest.mark.parametrize("case", ENDS, ids=str)
def test_a_text_ends_at(tmp_path: Path, case: str) -> None:
    text, expected = ENDS[case]
    entry, *more = header.entries(tmp_path / "old.py", text)
    assert entry.texts == expected
    assert not any(each.texts for each in more)


UNLABELLED = {
    "a comment": ("# Requests run away.\n", "Requests run away. / Ours.", ""),
    "an address": (f"# See {URL}.\n", f"See {URL}. / Ours.", URL),
    "two": (f"# See {URL} and\n# vllm#7.\n", f"See {URL} and vllm#7. / Ours.", f"{URL}, vllm#7"),
    "an issue of a repository": ("# See a/b#12\n", "See a/b#12 / Ours.", "a/b#12"),
    "one of vLLM": ("# vLLM PR #12\n", "vLLM PR #12 / Ours.", "vLLM PR #12"),
    "one of whom?": ("# Fixes #12\n", "Fixes #12 / Ours.", ""),
    "in a file": (f"# From {URL[:-8]}/blob/a.py\n", f"From {URL[:-8]}/blob/a.py / Ours.", ""),
    "in when to remove it": (f"# TODO: remove when {URL} is in\n", "Ours.", URL),
    "for tools": ("# ruff: noqa\n# type: ignore\n", "Ours.", ""),
    "a licence": (f"# Copyright: Ann, {URL}\n", "Ours.", ""),
}


@pytest.mark.parametrize("case", UNLABELLED, ids=str)
def test_a_comment_without_labels_helps_to_fill_the_gap(workshop: Workshop, case: str) -> None:
    comment, hint, upstream = UNLABELLED[case]
    area = AREA.replace("return 1", '"""Ours."""')
    file = workshop.old(f"import vllm.core as core\n\n\n{comment}{area}{OTHERS}")
    done = {each.target_name: each for each in workshop.translated(file).declarations}
    assert done["area"].reasons.text("why").endswith(f"(the old file says: {hint})")
    assert {name: each.reasons.upstream for name, each in done.items()} == {
        "area": upstream,
        "step": "",
        "pick": "",
    }
    assert done["step"].reasons.hint == ""


DOCSTRINGS = {
    "labels": (
        "Ours.\n\nWhy: It is slow.\nRelated PR: #1",
        {"why": "It is slow.", "upstream": "#1"},
    ),
    "arguments": ("Ours.\n\nArgs:\n    reason: why it ends\n    remove: whether", {}),
    "arguments below a rule": ("Ours.\n\nParameters\n----------\nReason : str\n    Which.", {}),
    "what the function does": ("Remove it when done, see vllm#7.\n\nNote: vllm#8.", {}),
    "an argument in a field": ("Ours.\n\n:reason: why it ends\n", {}),
}


@pytest.mark.parametrize("case", DOCSTRINGS, ids=str)
def test_of_a_docstring_labels_alone_count(workshop: Workshop, case: str) -> None:
    docstring, texts = DOCSTRINGS[case]
    body = f'"""{docstring}\n"""\nreturn 1'.replace("\n", "\n    ")
    file = workshop.old(f"import vllm.core as core\n\n\n{AREA.replace('return 1', body)}")
    (declaration,) = workshop.translated(file).declarations
    said = {name: getattr(declaration.reasons, name) for name in ("why", "upstream", "remove")}
    assert {name: text for name, text in said.items() if text} == texts


NUMBERED = """
    # What is patched:
    # * Worker patches:
    # ** 1. File: worker/patch_engine.py**
    # ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    #   1. `vllm.core.Engine.step`
    #    Why:
    #       Steps are slow.
    #    Related PR (if no, explain why):
    #       No, it is ours.
    #
    # ** 2a. File: worker/patch_other.py**
    # ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    #   1. `vllm.core.Engine.step`
    #    Why:
    #       About another file.
    #    Future Plan:
    #       Remove this patch when vLLM has it.
    """


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("worker/patch_engine.py", [{"why": "Steps are slow.", "upstream": "No, it is ours."}]),
        (
            "worker/patch_other.py",
            [{"why": "About another file.", "remove": "Remove this patch when vLLM has it."}],
        ),
        ("my_worker/patch_engine.py", []),
    ],
)
def test_a_list_with_numbered_files_is_about_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: list[dict[str, str]]
) -> None:
    """Also where the file is named from its own folder."""
    package = tmp_path / "plugin"
    file = package / name
    file.parent.mkdir(parents=True)
    (package / "__init__.py").write_text(dedent(NUMBERED))
    (file.parent / "__init__.py").touch()
    monkeypatch.chdir(file.parent)
    for path in (file, Path(file.name)):
        found = header.entries(path, "")
        about = [each.texts for each in found if each.is_about(path, "vllm.core.Engine.step")]
        assert about == expected
