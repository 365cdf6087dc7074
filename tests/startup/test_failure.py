"""What must stop vLLM stops it, each time, and says what to do."""

from dataclasses import dataclass

import pytest

from .fake_vllm import VERSION, FakeVllm
from .interpreters import Interpreter


@dataclass(frozen=True)
class Failure:
    """Why vLLM must not start: a declaration, or a version of vLLM, and the error's type."""

    error: str
    declaration: str = ""
    version: str = VERSION

    def bring_about(self, vllm: FakeVllm) -> None:
        vllm.declare(self.declaration)
        vllm.write("vllm/_version.py", f"__version__ = version = {self.version!r}\n")


def wrap(target: str) -> str:
    return f"patches.wrap({target!r}, lambda original: original(), id='missing', **ABOUT)\n"


PATCHES = {
    "name-in-the-first-module": Failure("TargetNotFoundError", wrap("vllm.first:absent")),
    "name-in-the-package": Failure("TargetNotFoundError", wrap("vllm:absent")),
    "module": Failure("TargetNotFoundError", wrap("vllm.absent:name")),
    "kind": Failure("TargetKindError", wrap("vllm:__path__")),
    "implementation": Failure(
        "ImplementationError",
        "patches.wrap('vllm:limit', 'absent_package:name', id='missing', **ABOUT)\n",
    ),
}
FAILURES = PATCHES | {
    "broken-set": Failure("BrokenSetError", "raise RuntimeError('broken')\n"),
    "set-that-imports-torch": Failure("BrokenSetError", "import torch\n"),
    "unknown-version": Failure("UnknownVersionError", version="dev"),
    "conflict": Failure(
        "ConflictError",
        "patches.replace('vllm.late:late', int, id='a', after=['acme/b'], **ABOUT)\n"
        "patches.wrap('vllm.late:late', int, id='b', after=['acme/a'], **ABOUT)\n",
    ),
}
TARGETS = {
    "name-in-the-first-module": "vllm.first:absent",
    "name-in-the-package": "vllm:absent",
    "module": "vllm.absent:name",
    "kind": "vllm:__path__",
    "implementation": "vllm:limit",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_import_raises(installed: Interpreter, vllm: FakeVllm, failure: Failure) -> None:
    """`import vllm` ends the program with exit code 1, also where it takes vLLM for optional."""
    failure.bring_about(vllm)
    done = installed.execute(
        """
        try:
            import vllm
        except (ImportError, AttributeError):
            print("goes on without vLLM")
        """,
        path=vllm.path,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"vllm_graft.errors.{failure.error}: " in done.stderr


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_raises_again(installed: Interpreter, vllm: FakeVllm, failure: Failure) -> None:
    """Whoever catches the error and imports again, meets it again, and no half-made vLLM."""
    failure.bring_about(vllm)
    done = installed.execute(
        """
        import importlib.util, sys
        for statement in ("import vllm", "import vllm", "from vllm.user import ask", "import vllm"):
            importlib.util.find_spec("vllm")
            try:
                exec(statement)
            except Exception as error:
                print(type(error).__name__, "vllm" in sys.modules)
        """,
        path=vllm.path,
    )
    assert (done.returncode, done.stdout) == (0, f"{failure.error} False\n" * 4)


@pytest.mark.parametrize("kind", PATCHES)
def test_message(installed: Interpreter, vllm: FakeVllm, kind: str) -> None:
    """The message names patch, target, versions, source, declaration, process and remedy."""
    PATCHES[kind].bring_about(vllm)
    stderr = installed.execute("import vllm", path=vllm.path).stderr
    for part in (
        "'acme/missing'",
        TARGETS[kind],
        f"{VERSION} (from {vllm.folder / 'vllm' / '_version.py'})",
        ">=0.30,<0.40",
        f"{vllm.folder / 'acme_patches.py'}:",
        "MainProcess (main)",
        "VLLM_GRAFT_PATCHES=-acme/missing",
    ):
        assert part in stderr


@pytest.mark.parametrize(
    ("failure", "parts"),
    [
        ("broken-set", ("'acme'", "acme 1.0", "acme_patches.py:", "VLLM_GRAFT_PATCHES='-acme/*'")),
        ("set-that-imports-torch", ("imports 'torch'", "lazy", "VLLM_GRAFT_PATCHES='-acme/*'")),
        ("unknown-version", ("dev (from ", "acme/limit", "VLLM_VERSION=", "VLLM_GRAFT_PATCHES")),
    ],
)
def test_message_about_all(
    installed: Interpreter, vllm: FakeVllm, failure: str, parts: tuple[str, ...]
) -> None:
    """What stops vLLM and is no single patch is named with its remedy as well."""
    FAILURES[failure].bring_about(vllm)
    stderr = installed.execute("import vllm", path=vllm.path).stderr
    assert [part for part in parts if part not in stderr] == []


@pytest.mark.parametrize(
    ("failure", "variables"),
    [
        ("module", {"VLLM_GRAFT_PATCHES": "-acme/missing"}),
        ("name-in-the-first-module", {"VLLM_GRAFT_PATCHES": "-acme/missing"}),
        ("broken-set", {"VLLM_GRAFT_PATCHES": "-acme/*"}),
        ("unknown-version", {"VLLM_VERSION": "0.32.0"}),
        ("broken-set", {"VLLM_GRAFT": "0"}),
    ],
)
def test_remedy_works(
    installed: Interpreter, vllm: FakeVllm, failure: str, variables: dict[str, str]
) -> None:
    """The remedy that the message names makes vLLM importable again."""
    FAILURES[failure].bring_about(vllm)
    answer = installed.ask("import vllm\nanswer = vllm.NAME", path=vllm.path, **variables)
    excluded = "-acme/*" in variables.values() or "VLLM_GRAFT" in variables
    assert answer == ("vllm" if excluded else "patched")


@pytest.mark.parametrize("value", ["dev", "0.1.dev1+g1234567", "newest"])
def test_bad_version_override(installed: Interpreter, vllm: FakeVllm, value: str) -> None:
    """A VLLM_VERSION that names no release stops vLLM, and no interpreter that does not use it."""
    assert installed.run("pass", path=vllm.path, VLLM_VERSION=value) == ""
    done = installed.execute("import vllm", path=vllm.path, VLLM_VERSION=value)
    assert done.returncode == 1
    assert "InvalidVersionOverrideError: VLLM_VERSION is" in done.stderr


def test_late_module(installed: Interpreter, vllm: FakeVllm) -> None:
    """A required patch on a module that is imported later fails that import, each time."""
    vllm.declare(wrap("vllm.late:absent"))
    answer = installed.ask(
        """
        import vllm
        answer = [vllm.NAME]
        for _ in range(2):
            try:
                import vllm.late
            except Exception as error:
                answer.append(type(error).__name__)
        """,
        path=vllm.path,
    )
    assert answer == ["patched", "TargetNotFoundError", "TargetNotFoundError"]


def test_optional_failure(installed: Interpreter, vllm: FakeVllm) -> None:
    """An optional patch that cannot land warns once, and vLLM goes on with the others."""
    vllm.declare(wrap("vllm.first:absent").replace("**ABOUT", "required=False, **ABOUT"))
    done = installed.execute("import vllm\nprint(vllm.NAME, vllm.limit())", path=vllm.path)
    assert (done.returncode, done.stdout) == (0, "patched 2\n")
    assert done.stderr.count("vllm-graft: optional patch 'acme/missing'") == 1


def test_strict(installed: Interpreter, vllm: FakeVllm) -> None:
    """VLLM_GRAFT_STRICT=1 makes the same failure stop vLLM."""
    vllm.declare(wrap("vllm.first:absent").replace("**ABOUT", "required=False, **ABOUT"))
    done = installed.execute("import vllm", path=vllm.path, VLLM_GRAFT_STRICT="1")
    assert done.returncode == 1
    assert "TargetNotFoundError" in done.stderr
