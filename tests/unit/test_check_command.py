"""`vllm-graft check` as it is called: its rows, its exit codes, and what it says of bad input."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from vllm_graft.cli import main

from .vllm_trees import write_tree

RELEASES = {
    "0.30.0": {"a.py": "def f(x):\n    return x\n"},
    "0.31.0": {"a.py": "def f(x):\n    return x\n"},
    "0.32.0": {"a.py": "def f(x, y):\n    return x + y\n"},
    "0.33.0": {"b.py": "def f(x):\n    return x\n"},
}
PATCHES = """
    from vllm_graft import PatchSet
    patches = PatchSet("acme")
    words = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
    patches.replace("vllm.a:f", lambda x: 7, id="f", vllm="{vllm}", **words)
    """

Check = Callable[..., Result]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("releases")
    return {name: str(write_tree(root / name, files, name)) for name, files in RELEASES.items()}


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, releases: dict[str, str]) -> Check:
    """Return a function that runs the command in a project, on releases or other sources."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(sys, "path", list(sys.path))
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text('[tool.vllm-graft]\nsets = ["acme_checked:patches"]\n')
    monkeypatch.chdir(project)

    def check(*arguments: str, vllm: str = ">=0.30,<0.34") -> Result:
        (project / "acme_checked.py").write_text(dedent(PATCHES).format(vllm=vllm))
        sys.modules.pop("acme_checked", None)
        named = [releases.get(each, each) for each in arguments]
        return CliRunner().invoke(main, ["check", *named])

    return check


def rows(result: Result) -> list[str]:
    lines = result.stdout.splitlines()
    return [" ".join(line.split()) for line in lines[1 : lines.index("")]]


def test_neighbours_of_which_the_same_is_to_be_said_have_one_row(check: Check) -> None:
    result = check("--vllm", *RELEASES)
    assert rows(result) == [
        "acme/f 0.30.0, 0.31.0 ok",
        "acme/f 0.32.0 signature called with (x=…, y=…) it fails: got an unexpected keyword "
        "argument 'y'; target (x, y); implementation <lambda>(x)",
        "acme/f 0.33.0 moved there is no module vllm.a; it is at vllm.b:f (vllm/b.py:1, 67% "
        "alike), where it would fit; compared with vLLM 0.32.0",
    ]
    assert "range-too-wide" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "1 patch, 4 vLLM: 2 ok, 1 signature, 1 moved. 3 errors, 0 warnings, 0 notes"
    )


def test_every_vllm_can_have_its_row(check: Check) -> None:
    assert rows(check("-v", *RELEASES))[:2] == ["acme/f 0.30.0 ok", "acme/f 0.31.0 ok"]


def test_out_of_range_says_where_it_would_apply(check: Check) -> None:
    assert rows(check("0.30.0", "0.33.0", vllm=">=0.34,<0.35")) == [
        "acme/f 0.30.0 out-of-range would apply",
        "acme/f 0.33.0 out-of-range",
    ]


@pytest.mark.parametrize(
    ("arguments", "vllm", "code"),
    [
        (["0.30.0"], ">=0.30,<0.34", 0),
        (["0.32.0"], ">=0.30,<0.34", 1),
        (["0.32.0"], ">=0.30,<0.32", 0),
        (["0.30.0"], ">=0.30", 0),
        (["0.30.0", "--strict"], ">=0.30", 1),
        (["0.30.0", "--strict"], ">=0.31,<0.32", 0),
    ],
)
def test_exit_codes(check: Check, arguments: list[str], vllm: str, code: int) -> None:
    assert check(*arguments, vllm=vllm).exit_code == code


def test_sources_can_be_named_in_every_way(check: Check, releases: dict[str, str]) -> None:
    result = check("0.30.0", "--vllm", "0.31.0", "0.32.0", "--vllm", "0.33.0", "--json")
    named = [each["version"] for each in json.loads(result.stdout)["sources"]]
    assert sorted(named) == list(RELEASES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-folder"], "'no-such-folder' does not exist"),
        (["--select", "other/*", "0.30.0"], "no patches to check: none has an id like 'other/*'"),
        (["--select", "?", "0.30.0"], "the selection has the entry '?', which is no glob"),
        (["."], "is no vLLM: it has no vllm/__init__.py"),
        (["acme_checked.py"], "is neither a wheel nor an sdist"),
        (["--vllm", ""], "'' is an empty source: is it a variable that is not set?"),
        (["0.30.0", " "], "' ' is an empty source"),
        (["--json", "--github", "0.30.0"], "--json, --github and --gitlab exclude each other"),
    ],
)
def test_bad_input_is_told_in_a_line(check: Check, arguments: list[str], message: str) -> None:
    result = check(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_set_that_cannot_be_loaded_fails_and_hides_no_other(check: Check) -> None:
    Path("pyproject.toml").write_text(
        '[tool.vllm-graft]\nsets = ["acme_checked:patches", "acme_gone:patches"]\n'
    )
    result = check("0.30.0")
    assert rows(result)[0] == "acme/f 0.30.0 ok"
    assert "'acme_gone'" in result.stdout
    assert result.exit_code == 1


def test_where_no_set_can_be_loaded_there_are_no_states(check: Check) -> None:
    Path("pyproject.toml").write_text('[tool.vllm-graft]\nsets = ["acme_gone:patches"]\n')
    result = check("0.30.0")
    assert result.exit_code == 1
    summary = "0 patches, 1 vLLM. 1 error, 0 warnings, 0 notes"
    assert result.stdout.splitlines()[-1] == summary


TABLE = '[tool.vllm-graft]\nsets = ["acme_checked:patches"]\n'


def findings(result: Result) -> list[tuple[str, str, bool]]:
    found = json.loads(result.stdout)["findings"]
    return [(each["level"], each["rule"], each["source"] is None) for each in found]


def test_an_edited_patch_is_told_once_for_all_vllms(check: Check, releases: dict[str, str]) -> None:
    """Also for one that is not in the lock, where nothing of the target has changed."""
    check("0.30.0", vllm=">=0.30,<0.32")
    locked = CliRunner().invoke(main, ["lock", releases["0.30.0"]])
    assert locked.exit_code == 0, locked.output
    file = Path("graft.lock")
    file.write_text(re.sub('source = ".*"', 'source = "50"', file.read_text()))
    result = check("0.30.0", "0.31.0", vllm=">=0.30,<0.32")
    assert result.exit_code == 1
    assert result.stdout.count("the patch's own source differs (drift)") == 1
    result = check("--json", "0.30.0", "0.31.0", vllm=">=0.30,<0.32")
    assert findings(result) == [("note", "unlocked", False), ("error", "drift", True)]
    (patch,) = json.loads(result.stdout)["patches"]
    assert [each["drift"] for each in patch["cells"]] == [
        None,
        "vLLM 0.31.0 is not in the lock; compared with 0.30.0: as it was",
    ]


def test_a_patch_that_is_not_in_the_lock_is_told_once(check: Check) -> None:
    Path("graft.lock").write_text("format = 1\n")
    result = check("--json", "0.30.0", "0.31.0", vllm=">=0.30,<0.32")
    assert findings(result) == [("warning", "unlocked", True)]
    assert findings(check("--json", "0.30.0", vllm=">=0.33,<0.34")) == [
        ("note", "range-too-narrow", True)
    ]


def test_a_lock_that_the_table_names_is_missed_where_it_is_not(
    check: Check, releases: dict[str, str]
) -> None:
    """Even where there is one of the default name, which another table may be about."""
    Path("pyproject.toml").write_text(f'{TABLE}lock = "locks/own.lock"\n')
    Path("locks").mkdir()
    Path("graft.lock").write_text("format = 99\n")
    result = check("--json", "0.30.0", "0.31.0", vllm=">=0.30,<0.32")
    assert result.exit_code == 0
    assert findings(result) == [("warning", "unlocked", True)]
    named = Path("locks/own.lock").resolve()
    told, _, command = json.loads(result.stdout)["findings"][0]["message"].partition(": ")
    assert told == (f"the lock {named}, which pyproject.toml names, does not exist. Write it with")
    assert check("--strict", "0.30.0", vllm=">=0.30,<0.32").exit_code == 1
    done = CliRunner().invoke(main, [*command.split()[1:], releases["0.30.0"]])
    assert (command, done.exit_code) == ("vllm-graft lock", 0)
    assert named.is_file()
    assert check("--strict", "0.30.0", vllm=">=0.30,<0.32").exit_code == 0


def test_a_lock_of_the_default_name_is_not_missed(check: Check) -> None:
    assert findings(check("--json", "0.30.0", vllm=">=0.30,<0.32")) == []


def test_paths_in_the_table_begin_at_the_project(
    check: Check, releases: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    relative = os.path.relpath(releases["0.30.0"])
    table = f'[tool.vllm-graft]\nsets = ["acme_checked:patches"]\nvllm = [{relative!r}]\n'
    Path("pyproject.toml").write_text(table)
    below = Path("below")
    below.mkdir()
    monkeypatch.chdir(below)
    assert rows(check()) == ["acme/f 0.30.0 ok"]


def test_a_page_does_not_print_the_diffs_that_it_has(check: Check) -> None:
    result = check("--html", "page.html", *RELEASES)
    assert "@@" not in result.stdout
    assert "@@" in Path("page.html").read_text()
    assert "@@" in check("--diff", *RELEASES).stdout


def test_a_diff_goes_from_the_older_to_the_newer(check: Check) -> None:
    """Also where the newer one is what the patch fits."""
    shown = check("--diff", "0.31.0", "0.32.0", vllm=">=0.30,<0.34").stdout.splitlines()
    assert "-def f(x):" in shown
    assert "+def f(x, y):" in shown


def test_where_a_target_has_gone_the_patch_may_not_fit(check: Check, tmp_path: Path) -> None:
    files = {"b.py": "def f(x, z):\n    return x\n"}
    moved = str(write_tree(tmp_path / "moved", files, "0.33.1"))
    assert "alike), where it would not fit: called with" in check("0.31.0", moved).stdout


@pytest.fixture
def moved(tmp_path: Path) -> list[str]:
    """Releases where the target has moved, each time to another line."""
    lines = {"0.33.1": "", "0.33.2": "\n\n", "0.33.3": "\n\n\n"}
    moved = "def f(x):\n    return x + x\n"
    return [
        str(write_tree(tmp_path / name, {"b.py": above + moved}, name))
        for name, above in lines.items()
    ]


def test_what_differs_in_line_numbers_is_said_once(check: Check, moved: list[str]) -> None:
    """With the lines of the newest of them."""
    result = check("0.31.0", *moved)
    assert rows(result) == [
        "acme/f 0.31.0 ok",
        "acme/f 0.33.1 … 0.33.3 (3) moved there is no module vllm.a; it is at vllm.b:f "
        "(vllm/b.py:4, 67% alike), where it would fit; compared with vLLM 0.31.0",
    ]
    assert "1 patch, 4 vLLM: 3 moved, 1 ok. 2 errors, 0 warnings, 0 notes" in result.stdout


def test_a_diff_of_several_versions_is_printed_once(check: Check, moved: list[str]) -> None:
    shown = check("--diff", "0.31.0", *moved).stdout
    assert "acme/f on 0.33.1 … 0.33.3 (3)" in shown
    assert shown.count("\n@@ ") == 1


def test_findings_name_the_versions_that_they_are_about(check: Check) -> None:
    shown = check("--verbose", *RELEASES, vllm=">=0.30").stdout
    assert re.search(r"^error +acme/f +0\.33\.0 +there is no module vllm\.a", shown, re.MULTILINE)
