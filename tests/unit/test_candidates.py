"""Targets with several places: what is read, what is refused, and who shows which of them."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vllm_graft import DeclarationError, Environment, Patch, PatchSet, TargetNotFoundError
from vllm_graft.catalog import Catalog
from vllm_graft.plan import make_plan
from vllm_graft.settings import Settings
from vllm_graft.testing import armed
from vllm_graft.version import VllmVersion

Declare = Callable[..., Patch]
Write = Callable[[str, str], Path]
REASONS: Any = {"vllm": ">=0.27", "why": "w", "how": "h", "upstream": "u", "remove": "r"}


LIST = importlib.import_module("vllm_graft.cli.list")
STATUS = importlib.import_module("vllm_graft.cli.status")


def f(*_args: Any) -> str:
    """Stand for an implementation."""
    return "patched"


@pytest.mark.parametrize(
    ("operation", "text", "words"),
    [
        ("wrap", "a:f | ", ["not of the form"]),
        ("wrap", " | a:f", ["not of the form"]),
        ("wrap", "a:f || b:f", ["not of the form"]),
        ("wrap", "|", ["not of the form"]),
        ("wrap", "a:f, b:f", ["not of the form"]),
        ("wrap", "a:f b:f", ["not of the form"]),
        ("wrap", ">=0.27 | b:f", ["not of the form"]),
        ("wrap", "a:f 0.27 | b:f", ["not of the form"]),
        ("wrap", "a:f >=0.27 <0.30 | b:f", ["is not a version specifier"]),
        ("wrap", "a:f >=0.27, | b:f >=x", ["'>=x' is not a version specifier"]),
        ("wrap", "a:f | b", ["the target has no qualified name", "Write 'b:<name>'"]),
        ("wrap", "a >=0.30 | b:f", ["the target has no qualified name", "Write 'a:<name>'"]),
        ("run", "a | b:f", ["the target of `run` is a module", "Write 'b'"]),
        ("run", "a:f >=0.30 | b", ["the target of `run` is a module", "Write 'a'"]),
    ],
)
def test_a_mistake_in_one_place_is_refused(operation: str, text: str, words: list[str]) -> None:
    """The error names the declaration, the whole target and the remedy."""
    patches = PatchSet("acme")

    with pytest.raises(DeclarationError) as caught:
        getattr(patches, operation)(text, f, **REASONS)

    for word in (f"{__file__}:", f"{operation} of {text!r}", *words):
        assert word in str(caught.value)
    assert patches.patches == ()


@pytest.mark.parametrize(
    ("operation", "text", "expected"),
    [
        ("run", "a | b.c", ["a", "b.c"]),
        ("run", "a <0.30 | b.c", ["a <0.30", "b.c"]),
        ("wrap", "a:f>=0.27 , <0.30|b:C.f", ["a:f >=0.27,<0.30", "b:C.f"]),
        (
            "wrap",
            "a:f ~=0.30 | b:f ==0.29.* | c:f !=0.28",
            ["a:f ~=0.30", "b:f ==0.29.*", "c:f !=0.28"],
        ),
    ],
)
def test_what_is_read(declare: Declare, operation: str, text: str, expected: list[str]) -> None:
    """Blanks do not matter, and every specifier may stand at every place."""
    assert list(map(str, declare(operation, text, f).candidates)) == expected


def test_the_id_comes_from_the_first(declare: Declare) -> None:
    """A patch has one id whichever place is chosen."""
    assert declare("set", "a:MAX | b:MAXIMUM", 1, id="it").id == "acme/it"
    patches = PatchSet("acme")
    patches.set("a:MAX | b:MAXIMUM", 1, **REASONS)
    assert patches.patches[0].id == "acme/max"


CHOICE = "gone:f >=0.27,<0.30 | absent:f | subject:f"


@pytest.fixture
def catalog(write: Write) -> Catalog:
    """Return a catalog with one patch that has three places, the last of which exists."""
    write("subject.py", "def f():\n    return 'original'\n")
    patches = PatchSet("acme")
    patches.replace(CHOICE, f, **REASONS)
    return Catalog((patches,), {"acme": "acme 1.0"})


def test_list_shows_all_places(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is of declarations, and depends on no vLLM."""
    monkeypatch.setattr(LIST, "load_catalog", lambda: catalog)
    all_of_them = "gone:f >=0.27,<0.30 | absent:f | subject:f"

    found = CliRunner().invoke(LIST.list_patches, ["--json"])
    assert json.loads(found.output)["patches"][0]["target"] == all_of_them
    shown = CliRunner().invoke(LIST.list_patches)
    assert all_of_them in " ".join(shown.output.split())


def test_status_shows_the_chosen_place(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A status is of a plan, and what it chose is where the patch lands."""
    plan = make_plan(catalog, Environment(VllmVersion("0.32.0", "a test")), Settings())
    monkeypatch.setattr(STATUS, "current_plan", lambda _: plan)

    found = CliRunner().invoke(STATUS.status, ["--json"])
    assert json.loads(found.output)["patches"][0]["target"] == "subject:f"
    assert "gone:f" not in CliRunner().invoke(STATUS.status).output


def test_the_chosen_place_is_patched(catalog: Catalog) -> None:
    """The source decides, before anything is imported, and the hook is for that module."""
    with armed(*catalog.sets, vllm="0.32.0") as status:
        import subject  # type: ignore[import-not-found]  # written above

        assert subject.f() == "patched"
        assert [(each.state, each.target) for each in status().patches] == [
            ("applied", "subject:f")
        ]


def test_where_no_place_exists_all_are_named(write: Write) -> None:
    """The error when it is applied says where the target was looked for."""
    write("here.py", "def g():\n    return 1\n")
    patches = PatchSet("acme")
    patches.replace("here:f | absent:f | gone:f <0.30", f, **REASONS)

    with armed(patches, vllm="0.32.0") as status:
        with pytest.raises(TargetNotFoundError) as caught:
            __import__("here")
        assert [each.state for each in status().patches] == ["failed"]

    assert "'acme/f' cannot be applied to here:f | absent:f: here:f does not" in str(caught.value)
