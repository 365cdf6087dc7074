"""Patches by vLLMs: what the verdicts say of a patch as a whole, and how they are worked out."""

import os
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import Patch, PatchSet
from vllm_graft.catalog import BrokenSet
from vllm_graft.check import plain
from vllm_graft.check.examples import Examples
from vllm_graft.check.prepare import prepare
from vllm_graft.check.source import Source, open_sources
from vllm_graft.check.survey import Row, Survey, survey
from vllm_graft.cli.list import fields
from vllm_graft.errors import BrokenSetError, DeclarationError, SourceError

from .vllm_trees import write_tree

RELEASES = {
    "0.30.0": {"a.py": "def f(x):\n    return x\n"},
    "0.31.0": {"a.py": "def f(x):\n    return x  # the same\nFIXED = True\n"},
    "0.32.0": {"a.py": "def f(x, y):\n    return x + y\nFIXED = True\n"},
    "0.33.0": {"b.py": "def f(x):\n    return x\n"},
}
TODAY = date(2026, 11, 30)


def take_x(x: Any) -> Any: ...


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("releases")
    return [str(write_tree(root / name, files, name)) for name, files in RELEASES.items()]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # processes take longer than these trees


def declared(**options: Any) -> Patch:
    patches = PatchSet("acme")
    words = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
    target = options.pop("target", "vllm.a:f")
    patches.replace(target, take_x, **{"vllm": ">=0.30,<0.32", **words, **options})
    return patches.patches[0]


@pytest.fixture
def row(folders: list[str]) -> Callable[..., Row]:
    def row(today: date = TODAY, **options: Any) -> Row:
        return survey([declared(**options)], open_sources(folders), today=today).rows[0]

    return row


def told(row: Row) -> list[tuple[str, str, str | None]]:
    return [
        (each.level, each.rule, each.source and Path(each.source).name) for each in row.findings
    ]


def test_a_range_that_is_true_says_nothing(row: Callable[..., Row]) -> None:
    found = row()
    assert [cell.state for cell in found.cells] == ["ok", "ok", "out-of-range", "out-of-range"]
    assert found.applies == "0.30.0, 0.31.0"
    assert told(found) == []


@pytest.mark.parametrize(
    ("options", "findings"),
    [
        (
            {"vllm": ">=0.30,<0.34"},
            [
                ("error", "signature", "0.32.0"),
                ("error", "moved", "0.33.0"),
                ("error", "range-too-wide", None),
            ],
        ),
        ({"vllm": ">=0.31,<0.32"}, [("note", "range-too-narrow", None)]),
        ({"vllm": ">=0.30,!=0.32.0,!=0.33.0"}, [("warning", "range-unbounded", None)]),
        ({"fixed_by": "0.31.0"}, [("error", "fixed", "0.31.0")]),
        ({"fixed_by": "0.32.0"}, []),
        ({"fixed_by": lambda source: "the same" in source}, [("error", "fixed", "0.31.0")]),
        ({"fixed_by": lambda module: "FIXED" in module}, [("error", "fixed", "0.31.0")]),
        ({"fixed_by": lambda source: "FIXED" in source}, []),
        ({"review": "2026-11-30"}, [("warning", "review", None)]),
        ({"review": "2026-12-01"}, []),
        ({"why": "FILL IN: why"}, [("error", "gap", None)]),
        ({"target": "torch:f"}, [("note", "unknown", "0.30.0"), ("note", "unknown", "0.31.0")]),
    ],
)
def test_a_patch_has_findings(
    row: Callable[..., Row], options: dict[str, Any], findings: list[tuple[str, str, str | None]]
) -> None:
    assert told(row(**options)) == findings


def test_findings_say_what_to_do(row: Callable[..., Row]) -> None:
    wide = {each.rule: each.message for each in row(vllm=">=0.30,<0.34").findings}
    assert wide["range-too-wide"] == (
        ">=0.30,<0.34 includes 0.32.0, 0.33.0, where it cannot land; of those checked it would "
        "apply to 0.30.0, 0.31.0"
    )
    assert "it is at vllm.b:f (vllm/b.py:1, 67% alike)" in wide["moved"]
    gaps = row(why="FILL IN: why", remove="FILL IN: when").findings[0].message
    assert gaps == "yet to be written: why=, remove="
    fixed = row(fixed_by="0.31").findings[0].message
    assert fixed == (
        "remove it, or end its range >=0.30,<0.32 below 0.31.0: vLLM has the fix since 0.31"
    )


@pytest.mark.parametrize("probe", ["acme_nowhere:probe", lambda source: 1 / 0, lambda: True])
def test_a_probe_that_cannot_answer_is_an_error(row: Callable[..., Row], probe: Any) -> None:
    with pytest.raises(DeclarationError, match=r"fixed_by= of patch 'acme/take-x' .* 0\.30\.0"):
        row(fixed_by=probe)


def test_the_advice_for_a_fix_is_the_same_on_every_vllm(row: Callable[..., Row]) -> None:
    found = row(fixed_by="0.31", vllm=">=0.30,!=0.32.0,<0.40").findings
    said = [each.message for each in found if each.rule == "fixed"]
    assert len(said) == 2
    assert all("or end its range >=0.30,<0.40,!=0.32.0 below 0.31.0: " in each for each in said)
    everywhere = row(fixed_by="0.30").findings[0].message
    assert everywhere == "remove it: vLLM has the fix since 0.30"


def test_vllms_are_in_the_order_of_their_versions(folders: list[str]) -> None:
    named = [folders[2], folders[0], folders[3]]
    titles = [source.title for source in open_sources(named)]
    assert titles == ["0.30.0", "0.32.0", "0.33.0"]


def test_errors_alone_make_a_check_fail(folders: list[str]) -> None:
    def made(**options: Any) -> Survey:
        return survey([declared(**options)], open_sources(folders), today=TODAY)

    assert made(review="2020-01-01", vllm=">=0.30,!=0.32.0,!=0.33.0").is_fine
    assert not made(vllm=">=0.30,<0.34").is_fine


def test_plain_values_have_everything(folders: list[str]) -> None:
    values = survey([declared(vllm=">=0.30,<0.34")], open_sources(folders)).as_dict()
    assert [each["version"] for each in values["sources"]] == list(RELEASES)
    (patch,) = values["patches"]
    assert patch["id"] == "acme/take-x"
    assert [cell["state"] for cell in patch["cells"]] == ["ok", "ok", "signature", "moved"]
    assert patch["cells"][2]["signatures"] == ("(x, y)", "take_x(x: Any) -> Any")
    assert patch["cells"][3]["moves"] == ["vllm.b:f (vllm/b.py:1, 67% alike)"]
    assert (patch["cells"][0]["path"], patch["cells"][0]["line"]) == ("vllm/a.py", 1)
    assert not values["fine"]


def test_the_keys_of_plain_values_are_those_described(folders: list[str]) -> None:
    broken = BrokenSet("other", "other 1.0", BrokenSetError("cannot be loaded"))
    patch = declared(vllm=">=0.30,<0.34")
    values = survey([patch], open_sources(folders), broken=[broken]).as_dict()
    (row,) = values["patches"]
    lists = ("sources", "findings", "broken")
    parts = [values, *row["cells"], *(each for name in lists for each in values[name])]
    written = {key for part in parts for key in part} | (row.keys() - fields(patch).keys())
    described = re.findall(r"^ {4,}(\w[\w, ]*?)  ", str(plain.__doc__), re.MULTILINE)
    names = {name for each in described for name in each.split(", ")}
    assert names == written


def test_several_processes_answer_as_one_does(
    folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other processes leave their answers in the cache, and this one reads no source."""
    patches = [declared(vllm=">=0.30,<0.34")]
    alone = survey(patches, open_sources(folders), today=TODAY).as_dict()
    monkeypatch.setenv("XDG_CACHE_HOME", f"{folders[0]}-other-cache")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    sources = open_sources(folders)
    prepare(patches, sources, {each.id: Examples(each, sources) for each in patches})
    for source in sources:
        monkeypatch.setattr(source.tree, "read", pytest.fail)
    assert survey(patches, sources, today=TODAY).as_dict() == alone


def test_a_module_that_is_not_python_is_an_error(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "broken", {"a.py": "def f(:\n"})
    with pytest.raises(SourceError, match=r"vllm/a\.py .* is not Python"):
        survey([declared()], [Source.open(str(folder))])


def test_sources_that_are_named_twice_count_once(folders: list[str]) -> None:
    assert len(open_sources([folders[0], folders[1], folders[0]])) == 2
