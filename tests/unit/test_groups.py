"""Patches that belong together: one that fails takes the others of its group back."""

import atexit
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vllm_graft import ApplyError, Patch, PatchSet, applied
from vllm_graft.builtin.inside import started
from vllm_graft.groups import GROUPS, VARIABLE, Groups
from vllm_graft.journal import JOURNAL
from vllm_graft.process import PROCESS
from vllm_graft.testing import armed

Declare = Callable[..., Patch]
Write = Callable[[str, str], Path]
Python = Callable[..., str]
REASONS: Any = {"vllm": ">=0.27", "why": "w", "how": "h", "upstream": "u", "remove": "r"}


def f(*_args: Any) -> str:
    """Stand for an implementation."""
    return "patched"


@pytest.fixture(autouse=True)
def subjects(write: Write) -> None:
    """Write the modules that are patched, and one that takes a name from one of them."""
    for name in ("early", "middle", "final"):
        write(f"{name}.py", "def f():\n    return 'original'\ndef g():\n    return 'original'\n")
    write("user.py", "from early import f\n")


def patch_set(**required: bool) -> PatchSet:
    """Return a set with one group over three modules, whose patch on `middle` cannot land."""
    patches = PatchSet("acme")
    for module in ("early", "middle", "final"):
        patches.replace(
            f"{module}:{'gone' if module == 'middle' else 'f'}",
            f,
            id=module,
            together="kv",
            required=required.get(module, False),
            **REASONS,
        )
    patches.replace("early:g", f, id="alone", required=False, **REASONS)
    return patches


def states() -> dict[str, str]:
    """Return the state of each patch by its name."""
    return {each.id.partition("/")[2]: each.state for each in JOURNAL.status().patches}


def load(*names: str) -> list[Any]:
    """Import modules."""
    return [__import__(name) for name in names]


def test_what_landed_before_is_taken_back() -> None:
    """Its target is the original again, in other modules too, and what is alone stays."""
    with armed(patch_set(), vllm="0.32.0"):
        early, user = load("early", "user")
        before = (early.f(), user.f(), early.g())
        load("middle")

        assert before == ("patched", "patched", "patched")
        assert (early.f(), user.f(), early.g()) == ("original", "original", "patched")
        assert early.f is user.f


def test_names_that_were_taken_before_follow_both_ways() -> None:
    """A name that was rebound when the patch landed is bound to the original again."""
    early, user = load("early", "user")
    original = early.f

    with armed(patch_set(), vllm="0.32.0"):
        assert user.f is early.f is not original
        load("middle")
        assert user.f is early.f is original


def test_what_would_land_later_does_not() -> None:
    """A module that is imported after the failure is left as it is."""
    with armed(patch_set(), vllm="0.32.0"):
        _, final = load("middle", "final")
        assert final.f() == "original"


@pytest.mark.parametrize("order", [("early", "middle", "final"), ("middle", "final", "early")])
def test_all_of_a_group_count_as_failed(
    order: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Each reason names the culprit, what was wrong and the process; none is applied."""
    with armed(patch_set(), vllm="0.32.0") as status:
        for count, name in enumerate(order):
            load(name)
            done = order.index("middle") <= count
            assert set(states().values()) >= ({"failed"} if done else {"applied"})
        found = {each.id: each for each in status().patches}

        assert states() == {
            "early": "failed",
            "middle": "failed",
            "final": "failed",
            "alone": "applied",
        }
        assert [applied(patch_id) for patch_id in found] == [False, False, False, True]
    assert "middle:gone does not exist" in found["acme/middle"].reason
    for member in ("acme/early", "acme/final"):
        for part in ("'acme/middle' failed", f"MainProcess, pid {os.getpid()}", "middle:gone does"):
            assert part in found[member].reason
    warned = sorted(message.partition("'acme/")[2][:6] for message in caplog.messages)
    assert warned == ["early'", "final'", "middle"]


def test_before_the_others_are_imported_they_count_as_failed() -> None:
    """Who asks in time does not rely on half of a group."""
    with armed(patch_set(), vllm="0.32.0"):
        load("middle")
        assert states() == {
            "early": "failed",
            "middle": "failed",
            "final": "failed",
            "alone": "armed",
        }


@pytest.mark.parametrize("member", ["early", "middle", "final"])
def test_a_required_member_makes_any_failure_fatal(member: str) -> None:
    """Where one of a group must land, all must; the group is taken back all the same."""
    with armed(patch_set(**{member: True}), vllm="0.32.0"):
        (early,) = load("early")
        with pytest.raises(ApplyError, match=r"'acme/middle' cannot be applied to middle:gone"):
            load("middle")

        assert early.f() == "original"
        assert states()["early"] == "failed"
        with pytest.raises(ApplyError, match="'acme/middle'"):
            JOURNAL.started()


def test_a_member_below_a_patch_that_stays() -> None:
    """What landed on top of it lands again, on the original."""
    patches = patch_set()
    patches.wrap("early:f", lambda original: f"around {original()}", id="top", **REASONS)

    with armed(patches, vllm="0.32.0"):
        early, user = load("early", "user")
        before = early.f()
        load("middle")

        assert (before, early.f(), user.f()) == (
            "around patched",
            "around original",
            "around original",
        )
        assert states()["top"] == "applied"


def test_groups_of_other_sets_stay() -> None:
    """A group has a name in its set, not among all."""
    other = PatchSet("other")
    other.replace("early:g", f, id="it", together="kv", **REASONS)
    patches = PatchSet("acme")
    patches.replace("middle:gone", f, id="culprit", together="kv", required=False, **REASONS)

    with armed(patches, other, vllm="0.32.0"):
        early, _ = load("early", "middle")
        assert early.g() == "patched"
        assert states() == {"culprit": "failed", "it": "applied"}


def test_a_member_that_waits_for_a_role_does_not_land_later() -> None:
    """A role that is gained after the failure changes nothing."""
    patches = PatchSet("acme")
    options = {**REASONS, "together": "kv", "required": False}
    patches.replace("early:f", f, id="waiting", process="worker", **options)
    patches.replace("middle:gone", f, id="culprit", **options)

    with armed(patches, vllm="0.32.0"):
        early, _ = load("early", "middle")
        PROCESS.gain("worker")
        assert early.f() == "original"
        assert states() == {"waiting": "failed", "culprit": "failed"}


def test_the_trace_has_the_failures(caplog: pytest.LogCaptureFixture) -> None:
    """One `fail` event for the culprit, and one for each member that is taken or left out."""
    lines: list[dict[str, Any]] = []

    class Sink:
        def write(self, line: dict[str, Any]) -> None:
            lines.append(line)

    with armed(patch_set(), vllm="0.32.0"):
        JOURNAL.trace_to(Sink())
        load("early", "middle", "final")

    failed = [(line["patch"], line["detail"]) for line in lines if line["event"] == "fail"]
    assert [patch_id for patch_id, _ in failed] == ["acme/middle", "acme/early", "acme/final"]
    assert all("'acme/middle' failed" in detail for _, detail in failed[1:])


# What processes tell each other. Each `Groups` here stands for the memory of one process;
# real ones are in tests/startup/test_together.py.


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a run."""
    folder = tmp_path / "run"
    monkeypatch.setenv(VARIABLE, str(folder))
    yield folder
    GROUPS._failed.clear()


@pytest.fixture
def member(declare: Declare) -> Patch:
    """Return a patch of a group."""
    return declare("wrap", "early:f", f, together="kv")


def test_a_failure_is_told(run: Path, member: Patch) -> None:
    """Another process reads patch, process and reason; the first failure stands."""
    here, there = Groups(), Groups()
    assert there.failure(member) is None

    here.fail(member, "no such name")
    here.fail(member, "later")

    expected = f"'acme/it' failed (MainProcess, pid {os.getpid()}): no such name"
    assert here.failure(member) == there.failure(member) == expected
    there.fail(member, "later")
    assert Groups().failure(member) == expected


def test_a_patch_without_a_group_tells_nothing(run: Path, declare: Declare) -> None:
    """Nothing is written for a patch that is alone."""
    alone = declare("wrap", "early:f", f)
    GROUPS.fail(alone, "no such name")

    assert GROUPS.failure(alone) is None
    assert not run.exists()


@pytest.mark.parametrize("umask", [0, 0o22, 0o77])
def test_the_folder_is_for_its_owner(run: Path, member: Patch, umask: int) -> None:
    """The mode is 0700 whatever the umask, and nothing but the group's file is left in it."""
    before = os.umask(umask)
    try:
        Groups().fail(member, "no such name")
    finally:
        os.umask(before)

    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert run.stat().st_uid == os.getuid()
    assert [file.name for file in run.iterdir()] == ["acme@kv.json"]


@pytest.mark.parametrize("content", ["", "{", "\x00", '{"not": "a string"}', "5", "null"], ids=repr)
def test_broken_content_is_ignored(run: Path, member: Patch, content: str) -> None:
    """What no process of ours has written is no failure, and stops nothing."""
    run.mkdir()
    (run / "acme@kv.json").write_text(content)

    assert Groups().failure(member) is None


def test_the_folder_of_another_owner_is_ignored(
    run: Path, member: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read from it or written to it. The owner is somebody else by a fake `getuid`."""
    run.mkdir()
    (run / "acme@kv.json").write_text(json.dumps("a lie"))
    stranger = run.stat().st_uid + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    here = Groups()

    assert here.failure(member) is None
    here.fail(member, "no such name")
    assert "no such name" in (here.failure(member) or "")
    assert json.loads((run / "acme@kv.json").read_text()) == "a lie"


@pytest.mark.parametrize("place", ["file", "nowhere"])
def test_a_folder_that_cannot_be_written_is_no_error(
    run: Path, member: Patch, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process counts its own failure; the others do not learn of it."""
    if place == "file":
        run.write_text("in the way")
    else:
        monkeypatch.setenv(VARIABLE, str(run / "absent" / "folder"))
    here = Groups()
    here.fail(member, "no such name")

    assert "no such name" in (here.failure(member) or "")
    assert Groups().failure(member) is None


def test_the_folder_is_chosen_once_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a parent has chosen is inherited; nothing is made before there is something to tell."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(atexit, "register", lambda *_: None)

    Groups().share()
    chosen = os.environ[VARIABLE]
    Groups().share()

    assert os.environ[VARIABLE] == chosen
    assert not Path(chosen).exists()


def test_without_groups_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no patch has a group, children inherit nothing."""
    monkeypatch.delenv(VARIABLE, raising=False)
    patches = PatchSet("acme")
    patches.replace("early:f", f, id="it", **REASONS)

    with armed(patches, vllm="0.32.0"):
        assert VARIABLE not in os.environ
    with armed(patch_set(), vllm="0.32.0"):
        load("middle")
        folder = Path(os.environ[VARIABLE])
        assert folder.exists()
    assert VARIABLE not in os.environ
    assert not folder.exists()


def test_a_block_of_a_test_is_a_run_of_its_own(run: Path, member: Patch) -> None:
    """`armed` neither sees what has failed in the run around it, nor tells that run."""
    Groups().fail(member, "no such name")

    with armed(patch_set(), vllm="0.32.0"):
        load("early")
        assert applied("acme/early")
        load("middle")
        assert not applied("acme/early")

    assert os.environ[VARIABLE] == str(run)
    assert "no such name" in (run / "acme@kv.json").read_text()
    (run / "acme@kv.json").unlink()
    with armed(patch_set(), vllm="0.32.0"):
        load("middle")
    assert list(run.iterdir()) == []


@pytest.mark.parametrize("way", ["exit", "fork", "nothing failed"])
def test_the_folder_is_removed_at_the_end_by_its_creator(python: Python, way: str) -> None:
    """A forked child that ends leaves it, the process that chose it removes it."""
    child = "pid = os.fork()\nif not pid: sys.exit()\nos.waitpid(pid, 0)\n"
    printed = python(
        "import atexit, os, sys\n"
        "from pathlib import Path\n"
        "from vllm_graft import PatchSet\n"
        "from vllm_graft.groups import GROUPS, VARIABLE\n"
        "patches = PatchSet('acme')\n"
        "reasons = dict(vllm='>=0.27', why='w', how='h', upstream='u', remove='r')\n"
        "patches.wrap('m:f', 'a:b', together='kv', **reasons)\n"
        "GROUPS.share()\n"
        + ("" if way == "nothing failed" else "GROUPS.fail(patches.patches[0], 'no')\n")
        + (child if way == "fork" else "")
        + "print(os.environ[VARIABLE], Path(os.environ[VARIABLE]).exists())\n"
    )
    folder, _, there = printed.partition(" ")

    assert there == str(way != "nothing failed")
    assert not Path(folder).exists()


def test_a_failure_elsewhere_is_seen_in_status(run: Path) -> None:
    """A patch that has landed here counts as failed, and what would land later does not."""
    patches = patch_set()
    with armed(patches, vllm="0.32.0"):
        load("early")
        assert (states()["early"], applied("acme/early")) == ("applied", True)
        Groups().fail(patches.patches[1], "no such name")  # as another process would

        assert (states()["early"], states()["final"]) == ("failed", "failed")
        assert not applied("acme/early")
        (final,) = load("final")
        assert final.f() == "original"


def test_a_failure_elsewhere_is_taken_back_when_the_process_has_started(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What had landed here is taken back then, with a warning that names the culprit."""
    patches = patch_set()
    with armed(patches, vllm="0.32.0"):
        early, user = load("early", "user")
        Groups().fail(patches.patches[1], "no such name")  # as another process would
        between = (early.f(), user.f())
        caplog.clear()
        with caplog.at_level(logging.INFO, "vllm.graft"):
            assert started(lambda: "ready") == "ready"

        assert between == ("patched", "patched")
        assert (early.f(), user.f(), early.g()) == ("original", "original", "patched")
    warning, summary = caplog.records
    assert summary.getMessage() == (
        "vllm-graft: MainProcess (main): 1 applied, 0 skipped, 3 failed, 0 waiting for an import"
    )
    assert warning.levelname == "WARNING"
    for part in ("'acme/early' is not in", "'acme/middle' failed (MainProcess", "no such name"):
        assert part in warning.getMessage()
