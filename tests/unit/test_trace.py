"""Trace lines: whole, private, one file a process, and never in vLLM's way."""

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.trace import FileSink, StderrSink, message, open_sink

pytestmark = pytest.mark.processes

Python = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where a trace may go; it does not exist yet."""
    return tmp_path / "deep" / "trace"


def lines(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the trace lines in a folder, by file."""
    return {
        file.name: [json.loads(line) for line in file.read_text().splitlines()]
        for file in folder.iterdir()
    }


def test_lines_are_json_in_a_file_of_this_process(folder: Path) -> None:
    """The file's name has host and pid, and each line is one JSON object."""
    sink = FileSink(str(folder))
    sink.write({"event": "boot", "detail": 'a "quoted"\nline with é'})
    sink.write({"event": "exit"})

    assert lines(folder) == {
        f"{socket.gethostname()}-{os.getpid()}.jsonl": [
            {"event": "boot", "detail": 'a "quoted"\nline with é'},
            {"event": "exit"},
        ]
    }


def test_another_start_with_the_same_folder_appends(folder: Path) -> None:
    """Nothing that was traced before is lost."""
    FileSink(str(folder)).write({"event": "boot"})
    FileSink(str(folder)).write({"event": "exit"})

    assert [len(each) for each in lines(folder).values()] == [2]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_folder_and_files_are_private(folder: Path, umask: int) -> None:
    """The folder is 0700 and the file 0600, however permissive the umask is."""
    before = os.umask(umask)
    try:
        FileSink(str(folder)).write({"event": "boot"})
    finally:
        os.umask(before)

    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_that_somebody_planted_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """A trace in a shared folder cannot be turned on another file."""
    folder.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (folder / f"{socket.gethostname()}-{os.getpid()}.jsonl").symlink_to(precious)

    with pytest.raises(OSError):  # noqa: PT011 - the errno depends on the system
        FileSink(str(folder)).write({"event": "boot"})

    assert precious.read_text() == "precious"


def test_a_forked_child_writes_its_own_file(folder: Path) -> None:
    """Parent and child, with one sink, write where their own pid is."""
    sink = FileSink(str(folder))
    sink.write({"pid": os.getpid()})
    child = os.fork()
    if child == 0:
        try:
            sink.write({"pid": os.getpid()})
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    sink.write({"pid": os.getpid()})

    host = socket.gethostname()
    assert lines(folder) == {
        f"{host}-{os.getpid()}.jsonl": [{"pid": os.getpid()}] * 2,
        f"{host}-{child}.jsonl": [{"pid": child}],
    }


def test_lines_of_processes_that_share_a_file_are_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers can have the same host name and pid: their lines do not run into each other."""
    # A fake pid: containers are what shows the case, and they are more than a unit test can have.
    monkeypatch.setattr("vllm_graft.trace.os.getpid", lambda: 1)
    children = []
    for writer in range(4):
        child = os.fork()
        if child == 0:
            try:
                sink = FileSink(str(folder))
                for number in range(200):
                    sink.write({"writer": writer, "number": number, "detail": "x" * number * 20})
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)

    (written,) = lines(folder).values()
    for writer in range(4):
        numbers = [line["number"] for line in written if line["writer"] == writer]
        assert numbers == list(range(200))


def test_a_folder_that_cannot_be_made_is_an_oserror(tmp_path: Path) -> None:
    """What the journal takes as the end of tracing."""
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError):  # noqa: PT011 - the errno depends on the system
        FileSink(str(tmp_path / "file" / "trace")).write({"event": "boot"})


BREAKING = {
    "read-only folder": """
        folder.mkdir(mode=0o500)
        if os.geteuid() == 0:
            os.setuid(65534)  # root may write anywhere
        sink = FileSink(str(folder))
        """,
    "missing and not to be made": """
        folder.write_text("a file")
        sink = FileSink(str(folder / "trace"))
        """,
    "no path at all": """
        sink = FileSink("nul\\0byte")
        """,
    "file size limit": """
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
        sink = FileSink(str(folder))
        """,
    "full disk": """
        sink = FileSink(str(folder))
        sink.write({"event": "first"})
        os.dup2(os.open("/dev/full", os.O_WRONLY), sink._fd)
        """,
    "closed file": """
        sink = FileSink(str(folder))
        sink.write({"event": "first"})
        os.close(sink._fd)
        """,
    "closed stderr": """
        os.close(2)
        sink = StderrSink()
        """,
    "broken pipe": """
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 2)
        sink = StderrSink()
        """,
}


@pytest.mark.parametrize("breaking", BREAKING)
def test_a_trace_that_cannot_be_written_is_one_warning_and_then_silence(
    python: Python, tmp_path: Path, breaking: str
) -> None:
    """A full, read-only or missing disk, or a closed stderr, never disturbs vLLM."""
    printed = python(
        f"""
import logging, os, pathlib, resource, sys
from vllm_graft.journal import Journal
from vllm_graft.trace import FileSink, StderrSink
folder = pathlib.Path({str(tmp_path / "trace")!r})
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
journal = Journal()
if True:{BREAKING[breaking]}
journal.trace_to(sink)
for _ in range(20):
    journal.event("boot", detail="x" * 100)
print("went on")
"""
    ).splitlines()

    assert len(printed) == 2, printed
    assert printed[0].startswith("WARNING vllm-graft: tracing ends here: ")
    assert printed[1] == "went on"
    if breaking == "file size limit":
        assert "only a part of a trace line" in printed[0]


def test_a_closed_stderr_object_does_not_disturb(python: Python) -> None:
    """Where logging has nowhere to go either, there is silence at once."""
    assert (
        python("""
            import os, sys
            from vllm_graft.journal import Journal
            from vllm_graft.trace import StderrSink
            sys.stderr.close()
            sys.stderr = None
            os.close(2)
            journal = Journal()
            journal.trace_to(StderrSink())
            for _ in range(3):
                journal.event("boot")
            print("went on")
            """)
        == "went on"
    )


LINE = {
    "ts": 0.0,
    "pid": 7,
    "process": "EngineCore",
    "event": "apply",
    "patch": "acme/x",
    "module": "vllm.v1.core",
    "target": "vllm.v1.core:f",
    "ms": 1.23456,
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LINE, "apply    acme/x at vllm.v1.core:f 1.235 ms"),
        ({"event": "boot", "detail": "pth"}, "boot     pth"),
        ({"event": "fire", "module": "vllm.envs"}, "fire     vllm.envs"),
        ({"event": "activate", "ms": 12.0}, "activate 12.000 ms"),
        (
            {**LINE, "event": "skip", "detail": "off"},
            "skip     acme/x at vllm.v1.core:f 1.235 ms off",
        ),
    ],
)
def test_message(line: dict[str, Any], expected: str) -> None:
    """A person reads what happened, to which patch, where, how long it took and why."""
    assert message(line) == expected


def test_lines_on_stderr_fit_among_vllms(capfd: pytest.CaptureFixture[str]) -> None:
    """Process and pid in front as vLLM has them, then level, date, name and message."""
    StderrSink().write(LINE)
    out, err = capfd.readouterr()

    assert out == ""
    assert err.startswith("(EngineCore pid=7) TRACE ")
    assert err.endswith("[vllm-graft] apply    acme/x at vllm.v1.core:f 1.235 ms\n")
    assert err.count("\n") == 1


def test_where_a_trace_goes(tmp_path: Path) -> None:
    """`stderr`, a folder, or nowhere; choosing makes no folder yet."""
    folder = tmp_path / "trace"

    assert open_sink(None) is None
    assert isinstance(open_sink("stderr"), StderrSink)
    assert isinstance(open_sink(str(folder)), FileSink)
    assert not folder.exists()
