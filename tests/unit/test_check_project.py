"""The table `[tool.vllm-graft]`: what it says, and which patches a check is about."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from vllm_graft.check.project import Project, find_project
from vllm_graft.errors import ProjectError

PATCHES = """
    from vllm_graft import PatchSet
    patches = PatchSet("acme")
    for name in ("one", "two"):
        patches.set("vllm.a:LIMIT" + name, 1, id=name, vllm=">=0.30,<0.31", why="w", how="h",
                    upstream="u", remove="r")
    """

Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes a project with a table, and finds it from a folder inside."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(table: str | None, package: str = "acme_project") -> Project:
        source = tmp_path / "src" / package
        source.mkdir(parents=True)
        (source / "__init__.py").touch()
        text = "[project]\nname='acme'\n"
        if table is not None:
            text += f"[tool.vllm-graft]\n{table}\n"
        (tmp_path / "pyproject.toml").write_text(text)
        (source / "patches.py").write_text(dedent(PATCHES))
        return find_project(source)

    return make


def ids(project: Project, select: str | None = None) -> list[str]:
    return [each.id for each in project.patches(project.catalog(), select)]


def test_without_a_table_everything_installed_counts(make: Make, tmp_path: Path) -> None:
    project = make(None)
    assert (project.root, project.has_table, project.vllm) == (tmp_path, False, ("installed",))
    assert project.lock == tmp_path / "graft.lock"
    assert "vllm-graft/env-variables" in ids(project)


def test_the_sets_of_a_table_need_not_be_installed(make: Make) -> None:
    project = make('sets = ["acme_one.patches:patches"]\nvllm = ["0.30.0", ">=0.31"]', "acme_one")
    assert ids(project) == ["acme/one", "acme/two"]
    assert project.vllm == ("0.30.0", ">=0.31")


def test_the_entry_points_of_a_project_count_before_it_is_installed(make: Make) -> None:
    entry_points = '[project.entry-points."vllm_graft.patches"]\nacme = "acme_two.patches:patches"'
    assert ids(make(f'select = "acme/*"\n{entry_points}', "acme_two")) == ["acme/one", "acme/two"]


@pytest.mark.parametrize(
    ("table", "select", "chosen"),
    [
        ('select = "acme/*"', None, ["acme/one", "acme/two"]),
        ('select = "acme/*,-acme/two"', None, ["acme/one"]),
        ('select = "acme/*"', "acme/two", ["acme/two"]),
        ("", "vllm-graft/env-*", ["vllm-graft/env-variables"]),
    ],
)
def test_globs_select(make: Make, table: str, select: str | None, chosen: list[str]) -> None:
    package = f"acme_{abs(hash((table, select)))}"
    assert ids(make(f'sets = ["{package}.patches:patches"]\n{table}', package), select) == chosen


@pytest.mark.parametrize("value", ["acme_nowhere.patches:patches", "acme_nowhere:patches"])
def test_a_set_that_cannot_be_loaded_is_broken_and_not_forgotten(make: Make, value: str) -> None:
    (broken,) = make(f"sets = [{value!r}]").catalog().broken
    assert broken.name == "acme_nowhere"
    assert f"patch set 'acme_nowhere' ({value}, " in str(broken.error)
    assert "To go on without it: take it out of pyproject.toml." in str(broken.error)
    assert "VLLM_GRAFT_PATCHES" not in str(broken.error)


def test_an_empty_selection_is_of_everything(make: Make) -> None:
    assert {"acme/one", "vllm-graft/env-variables"} <= {
        *ids(make('sets = ["acme_three.patches:patches"]\nselect = ""', "acme_three"))
    }


@pytest.mark.parametrize(
    ("table", "lock", "names_it"),
    [
        ("", "graft.lock", False),
        ('lock = ""', "graft.lock", False),
        ('lock = "graft.lock"', "graft.lock", True),
        ('lock = "locks/own.lock"', "locks/own.lock", True),
    ],
)
def test_a_lock_that_is_named_is_missed(
    make: Make, tmp_path: Path, table: str, lock: str, names_it: bool
) -> None:
    project = make(table)
    assert (project.lock, project.names_lock) == (tmp_path / lock, names_it)
    assert project.has_lock == names_it
    project.lock.parent.mkdir(exist_ok=True)
    project.lock.touch()
    assert project.has_lock


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sources = []", r"pyproject\.toml: tool\.vllm-graft has no key 'sources'. It has sets, "),
        ("sets = ['acme']", r"tool\.vllm-graft\.sets has 'acme'\. Name a PatchSet"),
        ("sets = 1", r"tool\.vllm-graft\.sets is 1\. Give a list of strings"),
        ("vllm = [0.32]", r"tool\.vllm-graft\.vllm is \[0\.32\]\. Give a list of strings"),
        ("select = ['x']", r"tool\.vllm-graft\.select is \['x'\]\. Give a string"),
        ("lock = 1", r"tool\.vllm-graft\.lock is 1\. Give a string"),
        ("lock =", r"pyproject\.toml cannot be read: "),
        ("vllm = []", r"pyproject\.toml: tool\.vllm-graft\.vllm is \[\]\. Name what to check"),
        ("vllm = ''", r"tool\.vllm-graft\.vllm is ''\. Name what to check against, as in"),
        ("vllm = ['0.32.0', ' ']", r"vllm is \['0\.32\.0', ' '\]\. Name what to check against"),
    ],
)
def test_a_table_without_a_meaning_is_refused(make: Make, table: str, message: str) -> None:
    with pytest.raises(ProjectError, match=message):
        make(table)


@pytest.mark.parametrize("table", ["", 'select = "acme/*"', "sets = []"])
def test_a_check_of_nothing_is_refused(make: Make, table: str) -> None:
    project = make(table)
    with pytest.raises(ProjectError, match="there are no patches to check: none "):
        ids(project)
