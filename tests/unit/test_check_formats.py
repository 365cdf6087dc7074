"""Findings as GitHub and GitLab read them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_graft import PatchSet
from vllm_graft.catalog import BrokenSet
from vllm_graft.check.findings import Finding, Level
from vllm_graft.check.formats import github, gitlab, repository
from vllm_graft.check.source import Source
from vllm_graft.check.survey import Row, Survey
from vllm_graft.check.tree import FolderTree
from vllm_graft.errors import BrokenSetError
from vllm_graft.patch import Location, Patch

from .vllm_trees import write_tree

BROKEN = BrokenSet("other", "other 1.0", BrokenSetError("cannot be loaded:\nno module"))


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Source, ...]:
    versions = ("0.31.0", "0.32.0")
    folders = [write_tree(tmp_path / "trees" / each, {}, each) for each in versions]
    return tuple(
        Source(name, FolderTree(folder)) for name, folder in zip(versions, folders, strict=True)
    )


def patch(file: Path, line: int = 12) -> Patch:
    patches = PatchSet("acme")
    patches.set(
        "vllm.a:LIMIT", 1, id="limit", vllm="<0.33", why="w", how="h", upstream="u", remove="r"
    )
    return replace(patches.patches[0], location=Location(str(file), line))


def found(
    sources: tuple[Source, ...], patch: Patch, *findings: tuple[Level, str, str, str | None]
) -> Survey:
    made = tuple(
        Finding(level, rule, patch, message, source) for level, rule, message, source in findings
    )
    return Survey(sources, (Row(patch, (), made),))


@pytest.mark.parametrize(
    ("level", "command", "severity"),
    [("error", "error", "major"), ("warning", "warning", "minor"), ("note", "notice", "info")],
)
def test_a_finding_is_shown_where_the_patch_is_declared(
    tmp_path: Path, sources: tuple[Source, ...], level: Level, command: str, severity: str
) -> None:
    made = found(sources, patch(tmp_path / "src/acme/p.py"), (level, "missing", "gone", "0.32.0"))
    assert github(made, tmp_path) == (
        f"::{command} file=src/acme/p.py,line=12,title=acme/limit on vLLM 0.32.0%3A missing::gone\n"
    )
    (issue,) = json.loads(gitlab(made, tmp_path))
    assert len(issue.pop("fingerprint")) == 64
    assert issue == {
        "description": "acme/limit on vLLM 0.32.0: gone",
        "check_name": "vllm-graft/missing",
        "severity": severity,
        "location": {"path": "src/acme/p.py", "lines": {"begin": 12}},
    }


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("100 %", "100 %25"),
        ("one\ntwo\r\n", "one%0Atwo%0D%0A"),
        ("%0A::error::", "%250A::error::"),
        ("a, b: c", "a, b: c"),
    ],
)
def test_messages_are_escaped_for_github(tmp_path: Path, message: str, written: str) -> None:
    text = github(found((), patch(tmp_path / "p.py"), ("error", "r", message, None)), tmp_path)
    assert text == f"::error file=p.py,line=12,title=acme/limit%3A r::{written}\n"


@pytest.mark.parametrize("where", ["vllm/a.py:{}", "it sets it on instances (line {})"])
def test_github_is_told_once_of_what_differs_in_lines(
    tmp_path: Path, sources: tuple[Source, ...], where: str
) -> None:
    """Those of the newest vLLM are named."""
    each: list[tuple[Level, str, str, str | None]] = [
        ("error", "missing", where.format(3), "0.31.0"),
        ("error", "missing", where.format(12), "0.32.0"),
    ]
    (line,) = github(found(sources, patch(tmp_path / "p.py"), *each), tmp_path).splitlines()
    assert "acme/limit on vLLM 0.31.0%2C 0.32.0%3A missing" in line
    assert line.endswith(f"::{where.format(12)}")


def test_properties_are_escaped_for_github(tmp_path: Path) -> None:
    made = found((), patch(tmp_path / "a,b:c%\n.py"), ("error", "r", "m", None))
    assert github(made, tmp_path).startswith("::error file=a%2Cb%3Ac%25%0A.py,line=12,")


def test_what_is_the_same_on_several_vllms_is_one_annotation_and_two_issues(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    made = found(
        sources,
        patch(tmp_path / "p.py"),
        ("error", "missing", "gone", "0.31.0"),
        ("error", "missing", "gone", "0.32.0"),
        ("error", "kind", "it is a class", "0.32.0"),
    )
    titles = [line.partition("title=")[2] for line in github(made, tmp_path).splitlines()]
    assert titles == [
        "acme/limit on vLLM 0.31.0%2C 0.32.0%3A missing::gone",
        "acme/limit on vLLM 0.32.0%3A kind::it is a class",
    ]
    assert len({each["fingerprint"] for each in json.loads(gitlab(made, tmp_path))}) == 3


def fingerprints(made: Survey, root: Path) -> list[str]:
    return [each["fingerprint"] for each in json.loads(gitlab(made, root))]


def test_a_fingerprint_stays_when_lines_and_words_change(tmp_path: Path) -> None:
    before = found((), patch(tmp_path / "p.py", 12), ("error", "gap", "why is empty", None))
    after = found((), patch(tmp_path / "p.py", 20), ("note", "gap", "why has a gap", None))
    assert fingerprints(before, tmp_path) == fingerprints(after, tmp_path)


def test_findings_of_one_rule_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    gaps: list[tuple[Level, str, str, None]] = [
        ("error", "gap", f"{field} is not filled in", None) for field in ("why", "how")
    ]
    made = found((), patch(tmp_path / "p.py"), *gaps)
    assert len(set(fingerprints(made, tmp_path))) == 2


def test_what_is_declared_elsewhere_has_no_file_of_the_repository(tmp_path: Path) -> None:
    made = found((), patch(tmp_path / "site/p.py"), ("error", "missing", "gone", None))
    root = tmp_path / "repository"
    assert github(made, root) == "::error title=acme/limit%3A missing::gone\n"
    (issue,) = json.loads(gitlab(made, root))
    assert issue["location"] == {"path": "pyproject.toml", "lines": {"begin": 1}}


def test_a_set_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    made = Survey((), (), (BROKEN,))
    told = "::error title=patch set other::cannot be loaded:%0Ano module\n"
    assert github(made, tmp_path) == told
    (issue,) = json.loads(gitlab(made, tmp_path))
    assert (issue["check_name"], issue["severity"]) == ("vllm-graft/broken-set", "critical")


def test_without_findings_github_has_nothing_and_gitlab_an_empty_report(tmp_path: Path) -> None:
    made = found((), patch(tmp_path / "p.py"))
    assert (github(made, tmp_path), json.loads(gitlab(made, tmp_path))) == ("", [])


@pytest.mark.parametrize(
    ("marker", "start", "root"),
    [(".git/HEAD", "a/b", "."), ("a/.git", "a/b", "a"), ("nothing", "a/b", "a/b")],
)
def test_the_repository_is_where_git_has_its_folder(
    tmp_path: Path, marker: str, start: str, root: str
) -> None:
    (tmp_path / start).mkdir(parents=True)
    (tmp_path / marker).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / marker).touch()
    assert repository(tmp_path / start) == (tmp_path / root).resolve()
