"""The `sitecustomize` stub: activation where `.pth` files are not processed."""

from pathlib import Path

import pytest

from .conftest import CHECKOUT
from .fake_vllm import FakeVllm
from .interpreters import COUNT_SENTINELS, Interpreter, create

ACTIVATED = """
import vllm
from vllm_graft import status
answer = [status().activated_by, vllm.NAME, vllm.limit()]
"""
SHADOWED = "import sys\nanswer = getattr(sys.modules.get('sitecustomize'), '__file__', None)"
ERRORS = {
    "error": "raise RuntimeError('theirs')",
    "missing-import": "import a_missing_dependency",
    "syntax": "this is no Python",
    "own-name-missing": "raise ImportError('theirs', name='sitecustomize')",
    "warning": "import warnings; warnings.warn('theirs')",
    "output": "print('theirs')",
}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder with somebody else's `sitecustomize`."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.theirs = __name__\n")
    return folder


def test_target_install(bare: Interpreter, target: Path, stub: Path, vllm: FakeVllm) -> None:
    """With the stub's folder on PYTHONPATH, a `--target` install activates."""
    answer = bare.ask(ACTIVATED, path=[stub, target, *vllm.path])
    assert answer == ["sitecustomize", "patched", 2]


def test_checkout(bare: Interpreter, vllm: FakeVllm) -> None:
    """A checkout on PYTHONPATH activates without being installed."""
    path = [CHECKOUT / "sitecustomize_stub", CHECKOUT / "src", *vllm.path]
    assert bare.ask(ACTIVATED, path=path) == ["sitecustomize", "patched", 2]


def test_prints_nothing(bare: Interpreter, target: Path, stub: Path) -> None:
    """An interpreter start with the stub prints nothing, and installs one sentinel."""
    for options in ((), ("-W", "error"), ("-X", "dev"), ("-bb",)):
        assert bare.ask(COUNT_SENTINELS, *options, path=[stub, target]) == 1


def test_starts_light(bare: Interpreter, target: Path, stub: Path) -> None:
    """The stub loads of the layer what the sentinel needs, and none of its dependencies."""
    code = "import sys\nanswer = [m for m in sys.modules if m.startswith(('vllm_graft', 'wrapt'))]"
    assert bare.ask(code, path=[stub, target]) == ["vllm_graft", "vllm_graft.boot"]


def test_beside_pth(installed: Interpreter, stub_alone: Path, vllm: FakeVllm) -> None:
    """Where the .pth line has run as well, there is one sentinel and one activation."""
    path = [stub_alone, *vllm.path]
    assert installed.ask(COUNT_SENTINELS, path=path) == 1
    assert installed.ask(ACTIVATED, path=path) == ["pth", "patched", 2]


def test_without_package(bare: Interpreter, stub_alone: Path, vllm: FakeVllm) -> None:
    """The stub without the package does nothing, and vLLM is as it is."""
    code = "import vllm\nanswer = [vllm.NAME, vllm.limit()]"
    path = [stub_alone, *vllm.path]
    assert bare.ask(COUNT_SENTINELS, path=path) == 0
    assert bare.ask(code, path=path) == ["vllm", 1]


def test_runs_shadowed_on_path(bare: Interpreter, target: Path, stub: Path, theirs: Path) -> None:
    """The `sitecustomize` in a later entry of PYTHONPATH runs in its own place and name."""
    path = [stub, target, theirs]
    assert bare.ask("import sys\nanswer = sys.theirs", path=path) == "sitecustomize"
    assert bare.ask(SHADOWED, path=path) == str(theirs / "sitecustomize.py")
    assert bare.ask(COUNT_SENTINELS, path=path) == 1


def test_runs_shadowed_in_site_packages(
    target: Path, stub: Path, theirs: Path, tmp_path: Path
) -> None:
    """The `sitecustomize` of the environment itself runs as well."""
    interpreter = create(tmp_path / "environment")
    file = interpreter.site_packages / "sitecustomize.py"
    file.write_text((theirs / "sitecustomize.py").read_text())
    path = [stub, target]
    assert interpreter.ask("import sys\nanswer = sys.theirs", path=path) == "sitecustomize"
    assert interpreter.ask(SHADOWED, path=path) == str(file)


def test_runs_shadowed_package(bare: Interpreter, target: Path, stub: Path, theirs: Path) -> None:
    """A `sitecustomize` that is a package runs too, and can import its own modules."""
    (theirs / "sitecustomize.py").unlink()
    package = theirs / "sitecustomize"
    package.mkdir()
    (package / "__init__.py").write_text("from . import part\n")
    (package / "part.py").write_text("import sys\nsys.theirs = __name__\n")
    answer = bare.ask("import sys\nanswer = sys.theirs", path=[stub, target, theirs])
    assert answer == "sitecustomize.part"


@pytest.mark.parametrize("source", ERRORS.values(), ids=ERRORS)
def test_shadowed_error(
    bare: Interpreter, target: Path, stub: Path, theirs: Path, source: str
) -> None:
    """What the shadowed one raises or prints, Python reports as it does without the stub."""
    (theirs / "sitecustomize.py").write_text(f"{source}\n")
    code = "import sys; print('sitecustomize' in sys.modules)"
    with_stub = bare.execute(code, path=[stub, target, theirs])
    without = bare.execute(code, path=[target, theirs])
    assert (with_stub.returncode, with_stub.stdout, with_stub.stderr) == (
        without.returncode,
        without.stdout,
        without.stderr,
    )


def test_shadowed_exit(bare: Interpreter, target: Path, stub: Path, theirs: Path) -> None:
    """A shadowed `sitecustomize` that ends the interpreter ends it as without the stub."""
    (theirs / "sitecustomize.py").write_text("raise SystemExit(3)\n")
    ends = [bare.execute("pass", path=path) for path in ([stub, target, theirs], [theirs])]
    with_stub, without = [(each.returncode, each.stderr.splitlines()[-1]) for each in ends]
    assert with_stub == without


@pytest.mark.parametrize("source", [ERRORS["error"], ERRORS["syntax"]], ids=["error", "syntax"])
def test_active_despite_shadowed_error(
    bare: Interpreter, target: Path, stub: Path, theirs: Path, vllm: FakeVllm, source: str
) -> None:
    """An error in the shadowed `sitecustomize` does not cost the activation."""
    (theirs / "sitecustomize.py").write_text(f"{source}\n")
    code = "import vllm; print(vllm.NAME, vllm.limit())"
    done = bare.execute(code, path=[stub, target, theirs, *vllm.path])
    assert (done.returncode, done.stdout) == (0, "patched 2\n")
    assert done.stderr.startswith("Error in sitecustomize")


def test_two_stubs(
    bare: Interpreter, target: Path, stub: Path, stub_alone: Path, theirs: Path
) -> None:
    """Two copies of the stub on PYTHONPATH run the `sitecustomize` behind both, once."""
    (theirs / "sitecustomize.py").write_text("print('theirs')\n")
    done = bare.execute("pass", path=[stub, stub_alone, target, theirs])
    assert (done.returncode, done.stdout, done.stderr) == (0, "theirs\n", "")


def test_chaining_neighbour(bare: Interpreter, target: Path, stub: Path, theirs: Path) -> None:
    """A shadowed `sitecustomize` that itself runs what it shadows ends, and runs it."""
    # As some tracers do it: take the own folder off sys.path, and import the name again.
    (theirs / "sitecustomize.py").write_text(
        "import os, sys\n"
        "print('theirs')\n"
        "sys.path.remove(os.path.dirname(__file__))\n"
        "del sys.modules['sitecustomize']\n"
        "import sitecustomize\n"
    )
    last = theirs.parent / "last"
    last.mkdir()
    (last / "sitecustomize.py").write_text("print('last')\n")
    done = bare.execute("pass", path=[stub, target, theirs, last])
    assert (done.returncode, done.stdout, done.stderr) == (0, "theirs\nlast\n", "")


def test_children_of_stub(bare: Interpreter, target: Path, stub: Path, vllm: FakeVllm) -> None:
    """A process started by an activated one is activated by the stub too."""
    answer = bare.ask(
        f"""
        import json, subprocess, sys
        import vllm
        code = {ACTIVATED!r} + "import json; print(json.dumps(answer))"
        answer = json.loads(subprocess.check_output([sys.executable, "-c", code]))
        """,
        path=[stub, target, *vllm.path],
    )
    assert answer == ["sitecustomize", "patched", 2]


def test_run_command(bare: Interpreter, target: Path, vllm: FakeVllm) -> None:
    """`vllm-graft run -- COMMAND` from a `--target` install starts an activated program."""
    code = f"{ACTIVATED}print(*answer)"
    command = ["-m", "vllm_graft", "run", "--", str(bare.python), "-c", code]
    done = bare.start(*command, path=[target, *vllm.path])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "sitecustomize patched 2\n"


def test_run_command_hands_on_exit_code(installed: Interpreter) -> None:
    """`vllm-graft run` ends with the exit code of the command."""
    command = [str(installed.python), "-c", "raise SystemExit(7)"]
    assert installed.start("-m", "vllm_graft", "run", "--", *command).returncode == 7
