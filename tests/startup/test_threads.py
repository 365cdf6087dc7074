"""Several threads that meet at the first import of vLLM."""

import json
from collections import Counter
from pathlib import Path

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

RACE = """
    import importlib.util, sys, threading
    sys.setswitchinterval(1e-6)
    names = {names!r}
    if names != ["vllm"]:  # otherwise Python itself reports a deadlock of two module locks
        import vllm
    barrier = threading.Barrier(8)
    errors, limits = [], []

    def work(number):
        name = names[number % len(names)]
        barrier.wait()
        try:
            if number % 2:
                importlib.util.find_spec(name)
            module = importlib.import_module(name)
            import vllm.user
            limits.append([vllm.NAME, vllm.limit(), vllm.user.ask()])
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    import vllm.late
    answer = [errors, limits, vllm.late.late()]
    """


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["vllm"], id="package"),
        pytest.param(["vllm.late", "vllm.user"], id="submodules"),
    ],
)
def test_race(installed: Interpreter, vllm: FakeVllm, tmp_path: Path, names: list[str]) -> None:
    """Eight threads that import and probe at once activate once and see each patch once."""
    for attempt in range(2):
        folder = tmp_path / f"trace-{attempt}"
        code = RACE.format(names=names)
        answer = installed.ask(code, path=vllm.path, VLLM_GRAFT_TRACE=str(folder))
        assert answer == [[], [["patched", 2, 2]] * 8, "late patched"]
        (file,) = folder.iterdir()
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        counts = Counter(line.get("patch", line["event"]) for line in lines if _counts(line))
        assert counts == dict.fromkeys(
            ("boot", "activate", "acme/name", "acme/limit", "acme/late"), 1
        )


def _counts(line: dict[str, str]) -> bool:
    applied = line["event"] == "apply" and line["patch"].startswith("acme/")
    return applied or line["event"] in ("boot", "activate")


def test_probe_beside_import(installed: Interpreter, vllm: FakeVllm) -> None:
    """A probe for a module in one thread does not keep the patch from its import in another."""
    answer = installed.ask(
        """
        import importlib.machinery, importlib.util, sys, threading
        import vllm
        probing, imported = threading.Event(), threading.Event()
        prober = threading.Thread(target=importlib.util.find_spec, args=("vllm.late",))

        class Slow:  # stands for a slow disk: the probe is under way while the other imports
            def find_spec(self, name, path=None, target=None):
                if name == "vllm.late" and threading.current_thread() is prober:
                    probing.set()
                    imported.wait(0.2)

        sys.meta_path.insert(1, Slow())
        prober.start()
        probing.wait(10)
        import vllm.late
        imported.set()
        prober.join()
        answer = vllm.late.late()
        """,
        path=vllm.path,
    )
    assert answer == "late patched"


def test_race_of_failures(installed: Interpreter, vllm: FakeVllm) -> None:
    """Where vLLM must not start, it starts in none of eight threads."""
    vllm.declare("patches.wrap('vllm.first:absent', int, id='missing', **ABOUT)\n")
    answer = installed.ask(
        """
        import threading
        barrier, outcomes = threading.Barrier(8), []

        def work():
            barrier.wait()
            try:
                import vllm
                outcomes.append("imported")
            except Exception as error:
                outcomes.append(type(error).__name__)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answer = outcomes
        """,
        path=vllm.path,
    )
    assert answer == ["TargetNotFoundError"] * 8


def test_import_beside_what_we_import(installed: Interpreter, vllm: FakeVllm) -> None:
    """A thread that imports vLLM and one that imports what the layer needs do not hang."""
    # importlib holds its global lock while it asks a finder: one that imports something waits for
    # that module's lock, and whoever holds it waits for the global one.
    code = """
        import faulthandler, sys, threading
        for name in ("util", "_abc", "abc"):
            sys.modules.pop(f"importlib.{name}", None)
        sys.setswitchinterval(1e-6)
        faulthandler.dump_traceback_later(5, exit=True)
        barrier = threading.Barrier(2)

        def work(statement):
            barrier.wait()
            exec(statement)

        statements = ("import vllm", "import importlib.util, vllm_graft.boot")
        threads = [threading.Thread(target=work, args=(each,)) for each in statements]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        import vllm
        answer = vllm.limit()
        """
    for _ in range(5):
        assert installed.ask(code, path=vllm.path) == 2


def test_import_beside_half_imported_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """A thread that imports a patched module while another is within vLLM does not hang."""
    with (vllm.folder / "vllm" / "__init__.py").open("a") as file:
        file.write("import sys, time\nsys.started.set()\ntime.sleep(0.3)\nfrom . import user\n")
    answer = installed.ask(
        """
        import faulthandler, importlib.util, sys, threading
        faulthandler.dump_traceback_later(5, exit=True)
        sys.started = threading.Event()

        def late():
            sys.started.wait()
            import vllm.late

        thread = threading.Thread(target=late)
        thread.start()
        import vllm.user
        thread.join()
        answer = [vllm.user.ask(), vllm.late.late()]
        """,
        path=vllm.path,
    )
    assert answer == [2, "late patched"]
