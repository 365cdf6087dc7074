"""The lock: how it is written and read, what renewing it keeps, and the command."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from packaging.version import Version

from vllm_graft import Patch, PatchSet
from vllm_graft.check import lock_file
from vllm_graft.check.lock import Lock, LockedPatch, LockedTarget
from vllm_graft.check.own_source import own_source
from vllm_graft.check.renewal import Renewal, renewal
from vllm_graft.check.source import open_sources
from vllm_graft.check.survey import survey
from vllm_graft.cli import main
from vllm_graft.errors import SourceError
from vllm_graft.lock_guard import SHIPPED

from .conftest import Write
from .vllm_trees import write_tree

F = LockedTarget("vllm.a:f", "vllm.a:f", "vllm/a.py", "(x: int = 1) -> None", "0123456789abcdef")
G = LockedTarget("vllm.a:g", "vllm.b:g", "vllm/b.py", '(x: str = "a\\b\x7f\tü")', "fedcba98")


def lock(**patches: dict[str, LockedTarget]) -> Lock:
    return Lock(
        {
            f"acme/{name}": LockedPatch("50", {Version(each): v for each, v in targets.items()})
            for name, targets in patches.items()
        }
    )


LOCK = lock(
    b={"0.9.2": F, "0.10.0": F, "0.30.0": G, "0.31.0": F, "0.31.1": F},
    a={
        "0.32.0": LockedTarget("vllm.a:new", nature="absent"),
        "0.33.0rc1": LockedTarget("vllm.a:C.run", nature="unknown"),
        "0.33.0": LockedTarget("vllm.a:x", "torch:x", nature="outside"),
    },
)
TEXT = """
[patches."acme/b"]
source = "50"

[[patches."acme/b".targets]]
vllm = ["0.9.2", "0.10.0"]
target = "vllm.a:f"
path = "vllm/a.py"
signature = "(x: int = 1) -> None"
body = "0123456789abcdef"

[[patches."acme/b".targets]]
vllm = ["0.30.0"]
target = "vllm.a:g"
where = "vllm.b:g"
path = "vllm/b.py"
signature = "(x: str = \\"a\\\\b\\u007f\\tü\\")"
body = "fedcba98"

[[patches."acme/b".targets]]
vllm = ["0.31.0", "0.31.1"]
target = "vllm.a:f"
"""


def test_what_is_written_is_read_and_written_alike() -> None:
    text = lock_file.dumps(LOCK)
    assert lock_file.loads(text) == LOCK
    assert lock_file.dumps(lock_file.loads(text)) == text


def test_it_is_sorted_and_neighbours_that_are_alike_share_an_entry() -> None:
    text = lock_file.dumps(LOCK)
    assert TEXT in text
    assert text.index('"acme/a"') < text.index('"acme/b"')


def test_another_release_with_the_same_target_changes_one_line() -> None:
    before = lock_file.dumps(lock(a={"0.31.0": F})).splitlines()
    after = lock_file.dumps(lock(a={"0.31.0": F, "0.32.0": F})).splitlines()
    assert len(before) == len(after)
    assert [b for a, b in zip(before, after, strict=True) if a != b] == [
        'vllm = ["0.31.0", "0.32.0"]'
    ]


def test_many_versions_are_wrapped_and_read_back() -> None:
    many = lock(a={f"0.9.{n}": F for n in range(60)})
    text = lock_file.dumps(many)
    assert max(map(len, text.splitlines())) <= 100
    assert lock_file.loads(text) == many


ENTRY = 'format = 1\n[patches."acme/x"]\nsource = "50"\n[[patches."acme/x".targets]]\n'
FULL = f"{ENTRY}target = 'vllm.a:f'\npath = 'vllm/a.py'\nbody = '50'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("format = 2\n", ["written by a newer vllm-graft", "format 2", "reads 1"]),
        ("format = 2\nnew = true\n", ["written by a newer vllm-graft"]),
        ("= nothing", ["is not TOML"]),
        ("", ["format is missing"]),
        ("format = '1'\n", ["format is '1'"]),
        ("format = true\n", ["format is True"]),
        ("format = 0\n", ["format is 0"]),
        ("format = 1\nother = 1\n", ["the key 'other'", "no meaning"]),
        ("format = 1\npatches = 3\n", ["patches is 3", "a table"]),
        ('format = 1\n[patches]\n"acme/x" = 1\n', ['patches."acme/x" is 1', "a table"]),
        ('format = 1\n[patches."acme/x"]\n', ['patches."acme/x".targets is missing']),
        (FULL, ['patches."acme/x".targets[0].vllm is missing']),
        (f"{FULL}vllm = ['x']\n", ["targets[0].vllm is ['x']"]),
        (f"{FULL}vllm = [1]\n", ["targets[0].vllm is [1]"]),
        (f"{FULL}vllm = []\n", ["targets[0].vllm is []", "one at least"]),
        (f"{ENTRY}target = 'a:f'\npath = 'a.py'\n", ["targets[0].body is missing", "a string"]),
        (f"{ENTRY}target = 'a:f'\nbody = '1'\n", ["targets[0].path is missing", "a string"]),
        (f"{ENTRY}vllm = ['0.32.0']\n", ["targets[0].target is missing", "a string"]),
        (f"{ENTRY}target = 'a'\nvllm = []\nbody = 1\n", ["targets[0].body is 1", "a string"]),
        (f"{ENTRY}target = 'a'\nvllm = []\nsize = 1\n", ["targets[0].size", "no meaning"]),
        (f"{ENTRY}target = 'a'\nvllm = []\nnature = 'odd'\n", ["nature is 'odd'", "absent"]),
        (f"{FULL}vllm = ['0.32', '0.32.0']\n", ["'0.32.0'", "each version once"]),
    ],
)
def test_what_is_no_lock_is_refused_by_file_and_key(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    file = tmp_path / "graft.lock"
    file.write_text(text)
    with pytest.raises(SourceError) as caught:
        lock_file.read(file)
    for word in (str(file), *words):
        assert word in str(caught.value)


def test_a_lock_that_cannot_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "graft.lock"
    lock_file.write(LOCK, file)
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SourceError, match="no space left"):
        lock_file.write(lock(), file)
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["graft.lock"]


# What renewing keeps and changes.

RELEASES = {
    "0.30.0": {"a.py": "def f(x):\n    return x\n"},
    "0.31.0": {"a.py": "def f(x):\n    return x\n"},
    "0.32.0": {"a.py": "def f(x):\n    return x + 1\n"},
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # processes take longer than these trees
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [str(write_tree(tmp_path / name, files, name)) for name, files in RELEASES.items()]


def take_x(x: Any) -> Any: ...


def declared(versions: str = ">=0.30,<0.33", name: str = "f") -> Patch:
    patches = PatchSet("acme")
    words: dict[str, Any] = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
    patches.replace("vllm.a:f", take_x, vllm=versions, id=name, **words)
    return patches.patches[0]


def renewed(before: Lock, folders: list[str], *patches: Patch) -> Renewal:
    found = survey(patches, open_sources(folders))
    return renewal(before, patches, [c.verdict for r in found.rows for c in r.cells], own_source)


def versions(made: Renewal, name: str = "acme/f") -> list[str]:
    return [str(each) for each in made.after.patches[name].targets]


def test_it_has_what_each_version_in_range_has(folders: list[str]) -> None:
    made = renewed(Lock(), folders, declared(">=0.31,<0.33"))
    assert versions(made) == ["0.31.0", "0.32.0"]
    assert made.changed == ("acme/f",)
    target = made.after.patches["acme/f"].targets[Version("0.32.0")]
    assert (target.where, target.path, target.signature) == ("vllm.a:f", "vllm/a.py", "(x)")
    bodies = {each.body for each in made.after.patches["acme/f"].targets.values()}
    assert len(bodies) == 2


def test_versions_that_are_not_checked_stay_while_they_are_in_range(folders: list[str]) -> None:
    first = renewed(Lock(), folders[:2], declared()).after
    assert versions(renewed(first, folders[2:], declared())) == ["0.30.0", "0.31.0", "0.32.0"]
    narrowed = renewed(first, folders[2:], declared(">=0.31,<0.33"))
    assert versions(narrowed) == ["0.31.0", "0.32.0"]


def test_patches_that_are_gone_are_dropped_within_their_set(folders: list[str]) -> None:
    before = lock(gone={"0.30.0": F})
    others = {"other/x": LockedPatch("50", {Version("0.30.0"): F})}
    made = renewed(Lock({**before.patches, **others}), folders, declared())
    assert sorted(made.after.patches) == ["acme/f", "other/x"]
    assert made.dropped == ("acme/gone",)


def test_the_patch_itself_is_approved_only_where_it_was_checked(folders: list[str]) -> None:
    before = lock(f={"0.29.0": F})
    kept = renewed(before, folders, declared("<0.30"))
    assert kept.after == before
    checked = renewed(before, folders, declared("<0.31"))
    assert checked.after.patches["acme/f"].source == own_source(declared())


def test_two_sources_of_one_version_must_agree(folders: list[str], tmp_path: Path) -> None:
    twin = write_tree(tmp_path / "twin", RELEASES["0.32.0"], "0.31.0")
    with pytest.raises(SourceError, match=r"two sources of vLLM 0\.31\.0 differ in vllm\.a:f"):
        renewed(Lock(), [*folders, str(twin)], declared())


def test_a_vllm_of_unknown_version_is_not_locked(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "dev", RELEASES["0.32.0"], "dev")
    with pytest.raises(SourceError, match="unknown version"):
        renewed(Lock(), [str(folder)], declared())


# The command.

PATCHES = """
    from vllm_graft import PatchSet

    patches = PatchSet("locked")
    WORDS = dict.fromkeys(("why", "how", "upstream", "remove"), "words")

    @patches.replace("vllm.a:f", vllm=">=0.30,<{below}", **WORDS)
    def f({parameters}):
        return 1
    """


@pytest.fixture
def project(write: Write, site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write("pyproject.toml", "[tool.vllm-graft]\nsets = ['locked_patches:patches']\n")
    write("locked_patches.py", PATCHES.format(below="0.33", parameters="x"))
    monkeypatch.chdir(site)
    return site


Run = Callable[..., Result]


@pytest.fixture
def run(project: Path, folders: list[str]) -> Run:
    def run(*arguments: str, releases: int = 3) -> Result:
        sys.modules.pop("locked_patches", None)
        return CliRunner().invoke(main, ["lock", *folders[:releases], *arguments])

    return run


def test_the_command_writes_the_projects_lock_and_checks_it(run: Run, project: Path) -> None:
    assert run("--check").exit_code == 1
    assert not (project / "graft.lock").exists()
    assert run().exit_code == 0
    text = (project / "graft.lock").read_text()
    assert list(lock_file.loads(text).patches) == ["locked/f"]
    assert str(project) not in text
    assert run("--check").exit_code == 0
    assert "up to date" in run().output


def test_a_patch_that_has_changed_makes_it_out_of_date(
    run: Run, project: Path, write: Write
) -> None:
    run()
    before = (project / "graft.lock").read_text()
    write("locked_patches.py", PATCHES.format(below="0.33", parameters="x, y=2"))
    done = run("--check")
    assert done.exit_code == 1
    assert "+source =" in done.output
    assert (project / "graft.lock").read_text() == before


def test_a_patch_that_does_not_fit_is_not_locked(run: Run, project: Path, write: Write) -> None:
    run(releases=2)
    before = (project / "graft.lock").read_text()
    write("locked_patches.py", PATCHES.format(below="0.33", parameters=""))
    done = run("--json")
    assert done.exit_code == 1
    refused = json.loads(done.output)["refused"]
    assert {(each["patch"], each["state"]) for each in refused} == {("locked/f", "signature")}
    assert (project / "graft.lock").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vllm", "nowhere"], "nowhere"),
        (["--output", "no/such/folder/graft.lock"], "cannot be written"),
        (["--select", "nobody/*"], "nobody/*"),
    ],
)
def test_bad_input_is_exit_code_2(run: Run, arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.output


def test_a_newer_lock_is_left_alone(run: Run, project: Path) -> None:
    (project / "graft.lock").write_text("format = 7\n")
    done = run()
    assert done.exit_code == 2
    assert "newer vllm-graft" in done.output
    assert (project / "graft.lock").read_text() == "format = 7\n"


def conflicting(text: str) -> str:
    """Return a lock as git leaves it where two branches have each locked another version."""
    ours = text.replace('vllm = ["0.30.0", "0.31.0"]', 'vllm = ["0.30.0"]')
    return f"<<<<<<< HEAD\n{ours}=======\n{text}>>>>>>> branch\n"


DAMAGES: dict[str, tuple[Callable[[str], str], str, str]] = {
    "merge": (conflicting, "has the conflict markers of a merge, the first in line 1", "all"),
    "newer": (lambda text: text.replace("format = 1", "format = 2"), "newer vllm-graft", "all"),
    "body": (lambda text: re.sub("body = .*", "body = 5", text), "is 5", "all"),
    "format": (lambda text: text.replace("format = 1", ""), "format is missing", "all"),
    "toml": (lambda text: text.replace("format = 1", "= 1"), "is not TOML", "all"),
    "encoding": (lambda text: text.replace("locked/f", "locked/\udcff"), "can't decode", "all"),
    "versions": (lambda text: re.sub("vllm = .*", 'vllm = ["x"]', text), "is ['x']", "none"),
    "empty": (lambda text: "", "format is missing", "none"),
}


@pytest.mark.parametrize(("damaged", "words", "named"), DAMAGES.values(), ids=DAMAGES)
def test_a_lock_that_cannot_be_read_tells_the_command_that_writes_it_anew(
    run: Run,
    project: Path,
    folders: list[str],
    damaged: Callable[[str], str],
    words: str,
    named: str,
) -> None:
    """With every version that can be made out, which is a folder beside the lock here."""
    run()
    file = project / "graft.lock"
    text = file.read_text()
    broken = damaged(text).encode(errors="surrogateescape")
    file.write_bytes(broken)
    for folder in folders:
        (project / Path(folder).name).symlink_to(folder)
    for arguments in (["lock"], ["lock", "--check"], ["check"]):
        done = CliRunner().invoke(main, [*arguments, "0.30.0"])
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert file.read_bytes() == broken
    command = done.output[done.output.index("vllm-graft lock --anew") :].split()
    versions = ["--vllm", *RELEASES] if named == "all" else []
    assert command == ["vllm-graft", "lock", "--anew", "--output", str(file), *versions]
    done = CliRunner().invoke(main, [*command[1:], *([] if versions else folders)])
    assert done.exit_code == 0, done.output
    assert file.read_text() == text
    assert "What was there is given up: the lock " in done.output
    assert words in done.output


def test_a_lock_that_is_not_written_anew_is_as_it_was(
    run: Run, project: Path, write: Write
) -> None:
    write("locked_patches.py", PATCHES.format(below="0.33", parameters=""))
    (project / "graft.lock").write_text("format = 7\n")
    assert run("--anew").exit_code == 1
    assert (project / "graft.lock").read_text() == "format = 7\n"


def test_anew_gives_up_what_is_not_named_and_says_so(run: Run, project: Path) -> None:
    run()
    assert run(releases=2).output.endswith("up to date: 1 locked.\n")
    done = json.loads(run("--anew", "--json", releases=2).output)
    assert (done["changed"], done["damage"]) == (["locked/f"], None)
    (entry,) = lock_file.read(project / "graft.lock").patches.values()
    assert [str(each) for each in entry.targets] == ["0.30.0", "0.31.0"]


def test_a_check_is_of_the_lock_that_there_is(run: Run) -> None:
    done = run("--anew", "--check")
    assert (done.exit_code, "exclude each other" in done.output) == (2, True)


def test_a_lock_of_a_package_comes_from_the_package(tmp_path: Path) -> None:
    """Nobody has reviewed it here, so that it is not to be written."""
    for each in (tmp_path / "site-packages/acme/graft.lock", SHIPPED):
        with pytest.raises(SourceError) as caught:
            lock_file.loads("format = 1\npatches = 3\n", str(each))
        assert str(caught.value).endswith(
            "Restore it, or install the package that it came with again"
        )


def test_what_ships_with_the_layer_is_locked_only_when_it_is_named(
    tmp_path: Path, folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["lock", "--select", "vllm-graft/env-variables", folders[0]])
    assert done.exit_code == 1  # these trees have no vllm.envs
    assert "vllm-graft/env-variables on vLLM 0.30.0: missing" in done.output
