"""With what a missing target is compared where no vLLM that is named has it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from vllm_graft import Patch, PatchSet
from vllm_graft.check import kept
from vllm_graft.check.at_hand import AtHand, Nothing, nearest_first, worth_asking
from vllm_graft.check.changes import with_changes
from vllm_graft.check.examples import Examples
from vllm_graft.check.lock import Lock, LockedPatch, LockedTarget, locked_target
from vllm_graft.check.prepare import prepare
from vllm_graft.check.source import Source
from vllm_graft.check.survey import Cell, survey
from vllm_graft.target import Target

from .vllm_trees import keep_release, write_tree

SPLIT = """
    def split(self, blocks, size):
        for block in blocks:
            yield [block[i : i + size] for i in range(0, len(block), size)]
"""
EDITED = SPLIT.replace("yield [block", "yield [each[0]").replace("0, len", "1, len")
OTHER = "\n    def split(self, text):\n        return text.split()\n"
BEFORE = {"old.py": f"class Cache:{SPLIT}"}
AFTER = {
    "a.py": f"class Renamed:{SPLIT}",
    "b.py": f"class Other:{OTHER}",
}
TARGET = "vllm.old:Cache.split"

Check = Callable[..., Cell]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be fetched: the module that does it cannot be imported."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setitem(sys.modules, "vllm_graft.check.index", None)


def declared(target: str = TARGET, vllm: str = ">=0.30,<0.33") -> Patch:
    patches = PatchSet("acme")
    words: dict[str, Any] = dict.fromkeys(("why", "how", "upstream", "remove"), "words")
    patches.set(target, 1, id="x", vllm=vllm, **words)
    return patches.patches[0]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Return a function that checks a patch on one vLLM alone."""

    def check(
        files: dict[str, str] = AFTER,
        lock: Lock | None = None,
        version: str = "0.32.0",
        **declaration: str,
    ) -> Cell:
        source = Source.open(str(write_tree(tmp_path / version, files, version)))
        return survey([declared(**declaration)], [source], lambda _: lock).rows[0].cells[0]

    return check


def locked(tmp_path: Path, files: dict[str, str] = BEFORE, target: str = TARGET) -> Lock:
    """Return the lock of a patch on a vLLM 0.31.0 of these files."""
    source = Source.open(str(write_tree(tmp_path / "locked", files, "0.31.0")))
    found = locked_target(source.resolver.resolve(Target.parse(target)), "set")
    return Lock({"acme/x": LockedPatch("", {Version("0.31.0"): found})})


def test_a_release_that_is_kept_shows_what_a_target_was(check: Check) -> None:
    assert check().state == "missing"
    keep_release("0.31.0", BEFORE)
    cell = check()
    assert (cell.state, [str(each.target) for each in cell.verdict.moves]) == (
        "moved",
        ["vllm.a:Renamed.split"],
    )
    assert cell.reason == (
        "there is no module vllm.old; it is at vllm.a:Renamed.split (vllm/a.py:2, 100% alike), "
        "where it would fit; compared with vLLM 0.31.0"
    )


def test_what_is_not_a_release_is_passed_over(check: Check) -> None:
    for name in ("vllm-nonsense-0123456789abcdef.zip", "vllm-cpu-x.zip", "vllm-1.zip"):
        keep_release("0.31.0", BEFORE).with_name(name).write_bytes(b"no zip")
    assert kept.cached_releases() == [Version("0.31.0")]
    assert kept.cached_release(Version("0.31.0")) is not None
    assert check().state == "moved"


@pytest.mark.parametrize("is_locked", [False, True])
def test_one_vllm_is_enough_for_a_diff(tmp_path: Path, is_locked: bool) -> None:
    """A lock has no text: the release that it is of is opened, here from the cache folder."""
    keep_release("0.31.0", BEFORE)
    source = Source.open(str(write_tree(tmp_path / "new", {"a.py": f"class Renamed:{EDITED}"})))
    lock = locked(tmp_path) if is_locked else None
    none_kept = Nothing() if is_locked else None
    made = survey([declared()], [source], lambda _: lock, kept=none_kept)
    diff = with_changes(made).rows[0].cells[0].diff
    assert "-        yield [block[i : i + size]" in diff
    assert diff.startswith("--- a/vllm/old.py:2 (vLLM 0.31.0)\n+++ ")
    assert ("+++ b/vllm/a.py" in diff) != is_locked


def test_a_reason_says_with_what_nothing_was_alike(check: Check) -> None:
    keep_release("0.31.0", BEFORE)
    assert check({"b.py": AFTER["b.py"]}).reason == (
        "there is no module vllm.old; nothing is like that of vLLM 0.31.0"
    )


@pytest.mark.parametrize(
    ("within", "order"),
    [
        (">=0.29,<0.32", "0.31 0.30 0.29 0.28 0.32 0.27 0.33"),
        (">=0.32", "0.33 0.32 0.31 0.30 0.29 0.28 0.27"),
        ("<0.29", "0.28 0.27 0.29 0.30 0.31 0.32 0.33"),
        (">=0.29,!=0.30,<0.32", "0.31 0.29 0.28 0.30 0.32 0.27 0.33"),
        (">=0.29.1,<0.30", "0.29 0.30 0.28 0.31 0.27 0.32 0.33"),
        (">=0.40", "0.33 0.32 0.31 0.30 0.29 0.28 0.27"),
        ("<0.1", "0.27 0.28 0.29 0.30 0.31 0.32 0.33"),
    ],
)
def test_the_newest_in_the_range_comes_first_and_then_the_nearest(within: str, order: str) -> None:
    versions = [Version(f"0.{minor}") for minor in range(27, 34)]
    assert nearest_first(SpecifierSet(within), versions) == list(map(Version, order.split()))


@pytest.mark.parametrize(
    ("within", "asked"),
    [
        (">=0.20,<0.30", "0.29 0.26 0.23 0.20"),
        (">=0.25,<0.29", "0.28 0.27 0.26 0.25"),
        (">=0.28,<0.30", "0.29 0.28 0.27 0.26"),
        (">=0.40", "0.29 0.28 0.27 0.26"),
    ],
)
def test_few_of_many_kept_releases_are_asked(within: str, asked: str) -> None:
    """Over all of the range: a target can have come after its beginning, or gone before its end."""
    versions = [Version(f"0.{minor}") for minor in range(10, 30)]
    assert worth_asking(SpecifierSet(within), versions) == list(map(Version, asked.split()))


@pytest.mark.parametrize(
    ("having", "compared"),
    [
        (("0.29.0", "0.30.0", "0.31.0"), "vLLM 0.31.0"),
        (("0.29.0", "0.30.0"), "vLLM 0.30.0"),
        (("0.28.0", "0.29.0", "0.33.0"), "vLLM 0.29.0"),
        (("0.28.0", "0.33.0"), "vLLM 0.33.0"),
    ],
)
def test_of_kept_releases_the_nearest_that_has_the_target(
    check: Check, having: tuple[str, ...], compared: str
) -> None:
    for version in ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.33.0"):
        keep_release(version, BEFORE if version in having else {})
    assert check().verdict.compared == compared


def test_a_vllm_that_is_named_comes_before_those_that_are_kept(tmp_path: Path) -> None:
    keep_release("0.31.0", {"old.py": f"class Cache:{OTHER}"})
    trees = {"0.29.0": BEFORE, "0.32.0": AFTER}
    sources = [Source.open(str(write_tree(tmp_path / v, f, v))) for v, f in trees.items()]
    cell = survey([declared()], sources).rows[0].cells[1]
    assert (cell.state, cell.verdict.compared) == ("moved", "vLLM 0.29.0")


@pytest.mark.parametrize(
    ("locked_as", "state", "reason"),
    [
        (
            SPLIT,
            "moved",
            "there is no module vllm.old; it is at vllm.a:Renamed.split (vllm/a.py:2, 100% alike), "
            "where it would fit; compared with the lock of 0.31.0",
        ),
        (
            SPLIT.replace("size", "length"),
            "missing",
            "there is no module vllm.old; nothing is like that of the lock of 0.31.0; "
            "`vllm-graft check --vllm 0.31.0 --vllm {}` would tell more",
        ),
        (
            SPLIT.replace("blocks, size", "blocks, size=8"),
            "missing",
            "there is no module vllm.old; nothing is like that of the lock of 0.31.0; "
            "`vllm-graft check --vllm 0.31.0 --vllm {}` would tell more",
        ),
    ],
    ids=["the same code", "another body", "another signature"],
)
def test_without_a_release_the_lock_knows_the_very_code(
    check: Check, tmp_path: Path, locked_as: str, state: str, reason: str
) -> None:
    cell = check(lock=locked(tmp_path, {"old.py": f"class Cache:{locked_as}"}))
    assert (cell.state, cell.reason) == (state, reason.format(tmp_path / "0.32.0"))


def test_of_two_places_with_the_locked_code_none_is_likely(check: Check, tmp_path: Path) -> None:
    twice = {**AFTER, "c.py": f"class Second:{SPLIT}"}
    assert check(twice, lock=locked(tmp_path)).state == "missing"


def test_a_name_that_was_another_one_for_it_is_followed_home(check: Check, tmp_path: Path) -> None:
    """Without the name that is gone, what it stood for is where the lock says that it was."""
    home = {"home.py": "def g(x):\n    return x\n"}
    before = {**home, "old.py": "from .home import g as f\n"}
    lock = locked(tmp_path, before, "vllm.old:f")
    assert check({**home, "old.py": ""}, target="vllm.old:f").state == "missing"
    cell = check({**home, "old.py": ""}, lock=lock, target="vllm.old:f")
    assert [str(each.target) for each in cell.verdict.moves] == ["vllm.home:g"]


def test_a_release_says_more_than_a_lock(check: Check, tmp_path: Path) -> None:
    keep_release("0.30.0", BEFORE)
    assert check(lock=locked(tmp_path)).verdict.compared == "vLLM 0.30.0"


@pytest.mark.parametrize(
    ("locked_as", "vllm", "advice"),
    [
        (None, ">=0.30,<0.33", "`vllm-graft check --vllm 0.30 --vllm {}` would tell more"),
        (None, "~=0.31.2", "`vllm-graft check --vllm 0.31.2 --vllm {}` would tell more"),
        (None, "==0.31.*", "`vllm-graft check --vllm 0.31 --vllm {}` would tell more"),
        (None, "<0.33", "`vllm-graft check --vllm newest:3 --vllm {}` would tell more"),
        (None, ">=0.32,<0.33", ""),
        ("vllm.old:Cache.split", ">=0.30", "`vllm-graft check --vllm 0.29.1 --vllm {}` would tell"),
        ("vllm.old:Cache.other", ">=0.30", "`vllm-graft check --vllm 0.30 --vllm {}` would tell"),
    ],
)
def test_where_nothing_is_at_hand_it_says_which_command_would_tell_more(
    check: Check, tmp_path: Path, locked_as: str | None, vllm: str, advice: str
) -> None:
    lock = None
    if locked_as is not None:
        entry = LockedTarget(locked_as, locked_as, "vllm/old.py", "()", "0" * 16)
        lock = Lock({"acme/x": LockedPatch("", {Version("0.29.1"): entry})})
    assert check(lock=lock, vllm=vllm).advice.startswith(advice.format(tmp_path / "0.32.0"))
    assert bool(check(lock=lock, vllm=vllm).advice) == bool(advice)


@pytest.mark.parametrize("by", ["release", "lock"])
def test_several_processes_compare_with_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The other processes search the trees, and this one reads none."""
    lock = locked(tmp_path) if by == "lock" else None
    if by == "release":
        keep_release("0.31.0", BEFORE)
    trees = [write_tree(tmp_path / version, AFTER, version) for version in ("0.32.0", "0.32.1")]
    sources = [Source.open(str(each)) for each in trees]
    patch, kept = declared(), AtHand(sources)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    examples = {patch.id: Examples(patch, sources, kept, lambda _: lock)}
    prepare([patch], sources, examples)
    for source in sources:
        monkeypatch.setattr(source.tree, "read", pytest.fail)
    cells = survey([patch], sources, lambda _: lock, kept=kept).rows[0].cells
    assert [each.state for each in cells] == ["moved", "moved"]


def test_a_name_that_no_release_has_is_told_as_such(check: Check) -> None:
    """One that cannot be read is not asked."""
    for version in ("0.29.0", "0.30.0", "0.31.0"):
        keep_release(version, {})
    keep_release("0.29.0", {}).write_bytes(b"no zip")
    assert check().advice == "none of the 3 vLLM asked has it under this name"


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda data: b"no archive", id="no archive"),
        pytest.param(lambda data: data.replace(b"PK\x01\x02", b"PK\x09\x09"), id="no directory"),
        pytest.param(
            lambda data: (
                data[:40].ljust(data.index(b"PK\x01\x02"), b"\0")
                + data[data.index(b"PK\x01\x02") :]
            ),
            id="no contents",
        ),
    ],
)
@pytest.mark.parametrize("asked_before", [False, True])
def test_a_kept_release_that_cannot_be_read_is_passed_over(
    check: Check, spoil: Callable[[bytes], bytes], asked_before: bool
) -> None:
    file = keep_release("0.31.0", BEFORE)
    if asked_before:  # what the cache answers is not enough: the definition is compared
        assert check({}).verdict.compared == "vLLM 0.31.0"
    file.write_bytes(spoil(file.read_bytes()))
    keep_release("0.30.0", BEFORE)
    cell = check(AFTER)
    assert (cell.state, cell.verdict.compared) == ("moved", "vLLM 0.30.0")


def test_a_file_of_another_name_breaks_nothing(check: Check) -> None:
    keep_release("nonsense", BEFORE)
    assert check().state == "missing"


def test_where_nothing_is_missing_no_release_is_looked_at(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_release("0.31.0", BEFORE)
    monkeypatch.setattr(kept, "cached_releases", pytest.fail)
    assert check(BEFORE).state == "ok"


def test_what_is_kept_can_be_left_out(tmp_path: Path) -> None:
    """A catalogue of patches is the same on every machine."""
    keep_release("0.31.0", BEFORE)
    source = Source.open(str(write_tree(tmp_path / "tree", AFTER)))
    cell = survey([declared()], [source], kept=Nothing()).rows[0].cells[0]
    assert (cell.state, cell.verdict.compared) == ("missing", "")


def test_what_was_there_before_is_not_where_a_target_went(check: Check) -> None:
    """Another class had such a method beside the target: it is gone, and not moved there."""
    keep_release("0.31.0", {**BEFORE, "a.py": AFTER["a.py"]})
    cell = check()
    assert cell.state == "missing"
    assert cell.verdict.notes == (
        "the same name is at vllm.a:Renamed.split (vllm/a.py:2, 100% alike)",
    )


def test_of_two_copies_the_one_that_is_left_takes_the_place(check: Check) -> None:
    copy, unlike = f"class Cache:{SPLIT}", f"class Cache:{OTHER}"
    keep_release("0.31.0", {"old.py": copy, "a.py": copy, "b.py": unlike})
    cell = check({"a.py": copy, "b.py": unlike})
    assert [str(each.target) for each in cell.verdict.moves] == ["vllm.a:Cache.split"]
