"""`VLLM_GRAFT=0`: no finder, no hook, nothing, in no process."""

import json
from pathlib import Path

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

# What there is of the layer in a process; it must not import the layer to find out.
LOOK = """
import sys

def look():
    import vllm.late, vllm.user
    return [
        [name for name in sys.modules if name.startswith(("vllm_graft", "wrapt", "acme"))],
        [type(f).__name__ for f in sys.meta_path if type(f).__module__ != "builtins"
            and not type(f).__module__.startswith(("_frozen", "importlib"))
            or "VllmGraft" in type(f).__name__],
        [vllm.NAME, vllm.user.ask(), vllm.late.late()],
    ]
"""
NOTHING = [[], [], ["vllm", 1, "late"]]


@pytest.fixture
def look(vllm: FakeVllm) -> FakeVllm:
    """The stand-in, with a module that looks for the layer without importing it."""
    vllm.write("looking.py", LOOK)
    return vllm


def test_start_without_finder(either: Interpreter, bare: Interpreter) -> None:
    """Switched off, an interpreter starts with the finders and modules of bare Python."""
    code = "import sys\nanswer = [list(map(str, sys.meta_path)), sorted(sys.modules)]"
    assert either.ask(code, VLLM_GRAFT="0") == bare.ask(code)


def test_import_without_layer(either: Interpreter, look: FakeVllm) -> None:
    """Switched off, importing vLLM loads no module of the layer and patches nothing."""
    code = "from looking import look\nanswer = look()"
    assert either.ask(code, path=look.path)[2] == ["patched", 2, "late patched"]
    assert either.ask(code, path=look.path, VLLM_GRAFT="0") == NOTHING


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_without_layer(installed: Interpreter, look: FakeVllm, method: str) -> None:
    """Switched off, nothing of the layer is in a child of any start method."""
    program = look.write(
        "program.py",
        f"""
        import json, multiprocessing, looking

        def child(pipe):
            pipe.send(looking.look())

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            ours, theirs = context.Pipe()
            process = context.Process(target=child, args=(theirs,), name="EngineCore")
            process.start()
            print(json.dumps([looking.look(), ours.recv()]))
            process.join()
        """,
    )
    done = installed.start(program, path=look.path, VLLM_GRAFT="0")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == f"[{_json(NOTHING)}, {_json(NOTHING)}]\n"


def test_subprocess_without_layer(either: Interpreter, look: FakeVllm) -> None:
    """Switched off by os.environ, the layer is not in a subprocess started after that."""
    answer = either.ask(
        """
        import json, os, subprocess, sys
        os.environ["VLLM_GRAFT"] = "0"
        code = "import json, looking; print(json.dumps(looking.look()))"
        answer = json.loads(subprocess.check_output([sys.executable, "-c", code]))
        """,
        path=look.path,
    )
    assert answer == NOTHING


def test_off_after_start(either: Interpreter, look: FakeVllm) -> None:
    """Switched off by os.environ before vLLM is imported, the sentinel goes and patches nothing."""
    modules, finders, effects = either.ask(
        """
        import os
        os.environ["VLLM_GRAFT"] = "0"
        from looking import look
        answer = look()
        """,
        path=look.path,
    )
    assert (finders, effects) == ([], ["vllm", 1, "late"])
    assert not [name for name in modules if name.startswith("acme")]


def test_off_with_stub(bare: Interpreter, target: Path, stub: Path, look: FakeVllm) -> None:
    """Switched off, the `sitecustomize` stub loads and installs nothing."""
    code = "from looking import look\nanswer = look()"
    path = [stub, target, *look.path]
    assert bare.ask(code, path=path)[2] == ["patched", 2, "late patched"]
    assert bare.ask(code, path=path, VLLM_GRAFT="0") == NOTHING


@pytest.mark.parametrize("kind", ["installed", "bare"])
def test_off_with_plugin(
    kind: str, target: Path, look: FakeVllm, request: pytest.FixtureRequest
) -> None:
    """Switched off, vLLM's plugin loader activates nothing and nothing warns of it."""
    interpreter: Interpreter = request.getfixturevalue(kind)
    _, finders, effects = interpreter.ask(
        """
        from looking import look
        from vllm.plugins import load_general_plugins
        load_general_plugins()
        answer = look()
        """,
        path=[target, *look.path],
        VLLM_GRAFT="0",
    )
    assert (finders, effects) == ([], ["vllm", 1, "late"])


def _json(answer: object) -> str:
    return json.dumps(answer)
