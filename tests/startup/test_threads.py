"""Several threads that meet at the first import of vLLM."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
        faulthandler.dump_traceback_later(60, exit=True)
        barrier = threading.Barrier(2)

        def work(statement):
            barrier.wait()
            exec(statement)

        statements = ("import vllm", "import importlib.util, packaging.version, wrapt")
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


BESIDE = """
    import faulthandler, sys, threading
    faulthandler.dump_traceback_later({seconds}, exit=True)
    {register}
    sys.started = threading.Event()

    def late():
        sys.started.wait()
        import vllm.late

    thread = threading.Thread(target=late)
    thread.start()
    import vllm.user
    thread.join()
    answer = vllm.user.ask(), vllm.late.late()
    """


def import_beside(vllm: FakeVllm) -> None:
    """Let vLLM wait in the middle of its import, and go on importing."""
    with (vllm.folder / "vllm" / "__init__.py").open("a") as file:
        file.write("import sys, time\nsys.started.set()\ntime.sleep(0.5)\nfrom . import user\n")


def test_import_beside_half_imported_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """A thread that imports a patched module while another is within vLLM does not hang."""
    import_beside(vllm)
    code = BESIDE.format(seconds=5, register="")
    assert installed.ask(code, path=vllm.path) == [2, "late patched"]


def test_hooks_of_wrapt_alone_hang(bare: Interpreter, vllm: FakeVllm) -> None:
    """Why a finder of ours stands before wrapt's: with wrapt's alone, that same import hangs."""
    # wrapt's finder waits for the package under importlib's lock, and the package for that lock.
    import_beside(vllm)
    register = "import wrapt; wrapt.register_post_import_hook(lambda module: None, 'vllm.late')"
    code = BESIDE.format(seconds=3, register=register)
    done = bare.execute(code, path=vllm.path)
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout (0:00:03)!")
    assert "importer.py" in done.stderr  # of wrapt


INTERPRETERS, ROUNDS, MODULES, CIRCLE = 4, 50, 200, 5

MANY = """
    import collections, faulthandler, importlib, random, sys, threading
    faulthandler.dump_traceback_later(50, exit=True)
    sys.setswitchinterval(1e-5)
    import vllm, many
    from vllm_graft.journal import JOURNAL
    names = [f"many.m{{number}}" for number in range({modules})]
    applied = collections.Counter()
    executed = sys.executed = dict.fromkeys(names, 0)  # by the modules themselves, at their end
    barrier = threading.Barrier({threads})
    errors = []

    class Sink:
        def write(self, line):
            if line["event"] == "apply":
                applied[line["module"]] += 1

    def load(name):
        while True:
            try:
                return importlib.import_module(name)
            except RuntimeError as error:  # importlib's own; see the test
                if "deadlock detected" not in str(error):
                    raise

    def work(seed):
        order = random.Random(seed)
        for _ in range({rounds}):
            if barrier.wait() == 0:
                for name in names:
                    sys.modules.pop(name, None)
            barrier.wait()
            for name in order.sample(names, len(names)):
                try:
                    found = load(name).f(1)
                except BaseException as error:
                    found = repr(error)
                if found != ["patched", 1]:
                    errors.append([name, found])

    JOURNAL.trace_to(Sink())
    threads = [threading.Thread(target=work, args=({seed} + n,)) for n in range({threads})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    JOURNAL.trace_to(None)
    answer = errors[:10], executed, applied
    """


def test_many_threads(installed: Interpreter, vllm: FakeVllm) -> None:
    """16 threads that import 200 patched modules, in circles, 200 times: patched once each time."""
    vllm.write("many/__init__.py", "")
    for number in range(MODULES):
        circle = number - number % CIRCLE
        other = circle + (number + 1) % CIRCLE
        # `from many import ...` asks a half-executed module for names, and may fail without us.
        vllm.write(
            f"many/m{number}.py",
            f"import sys, many.m{other}\ndef f(a):\n    return a\nsys.executed[__name__] += 1\n",
        )
    vllm.declare(
        f"""
        def around(original, a):
            return ["patched", original(a)]
        for number in range({MODULES}):
            patches.wrap(f"many.m{{number}}:f", around, id=f"m{{number}}", **ABOUT)
        """
    )
    programs = [
        MANY.format(modules=MODULES, threads=16, rounds=ROUNDS, seed=16 * number)
        for number in range(INTERPRETERS)
    ]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda code: installed.ask(code, path=vllm.path), programs))
    for errors, executed, applied in answers:
        assert errors == []
        assert applied == executed
        # In circles among threads importlib raises _DeadlockError now and then, with no hook at
        # all: a thread finds a module missing, and its lock held by one that waits for it by then.
        assert min(executed.values()) >= ROUNDS
