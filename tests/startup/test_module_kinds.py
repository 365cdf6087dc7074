"""Modules of every kind, and every way of getting at them: patched, or it is said."""

import json
import py_compile
import zipfile
from collections import Counter
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

F = """
def f(a):
    return a
"""

FILES = {
    # Each imports the other, and one takes a name out of the other while that is half-executed.
    "circle_a.py": f"{F}import circle_b\n",
    "circle_b.py": "import circle_a\nfrom circle_a import f\ndef g(a): return f(a)\n",
    # As transformers does: the package puts an object into its place that imports when asked.
    "lazy/__init__.py": """
import importlib, sys, types
class Lazy(types.ModuleType):
    def __init__(self, name, spec, path):
        super().__init__(name)
        self.__spec__, self.__path__ = spec, path
        self.own = lambda a: a
    def __getattr__(self, name):
        if name != "f":
            raise AttributeError(name)
        value = importlib.import_module(".impl", self.__name__).f
        setattr(self, name, value)
        return value
sys.modules[__name__] = Lazy(__name__, __spec__, __path__)
""",
    "lazy/impl.py": F,
    "reloaded.py": F,
    "deleted.py": F,
    "namespace/inner.py": F,
    "resources/__init__.py": F,
    "resources/data.txt": "data",
    "source/__init__.py": f"{F}\nclass Made:\n    def method(self, a):\n        return a\n",
    "source/replaced.py": F,
    "walked/__init__.py": "",
    "walked/one.py": F,
    "walked/two/__init__.py": F,
    "run.py": f"{F}answer = f(1)\n",
    "deferred.py": F,
    "compiled.py": F,
    "dynamic.py": f"{F}def __getattr__(name):\n    return name.upper()\n",
}

TARGETS = (
    "circle_a:f",
    "circle_b:g",
    "lazy:own",
    "lazy.impl:f",
    "reloaded:f",
    "deleted:f",
    "namespace.inner:f",
    "zipped.inner:f",
    "resources:f",
    "source:f",
    "source:Made.method",
    "walked.one:f",
    "walked.two:f",
    "run:f",
    "deferred:f",
    "compiled:f",
    "dynamic:f",
)

PATCHES = """
class Pair(tuple):
    pass

def around(original, *args, **kwargs):
    return ["patched", original(*args, **kwargs)]

def instead(a):
    return "instead"

def sub(cls):
    class Sub(cls):
        extra = "sub"
    return Sub

for target in {targets!r}:
    patches.wrap(target, around, id=target.lower().replace(":", "."), **ABOUT)
patches.replace("source.replaced:f", instead, **ABOUT)
patches.subclass("source:Made", sub, id="sub", **ABOUT)
"""

CASES = {
    "circular": ("import circle_a, circle_b; found = circle_a.f(1), circle_b.g(1)"),
    "lazy module, behind": "import lazy; found = lazy.f(1)",
    "lazy module, itself": "import lazy; found = [lazy.own(1), type(lazy).__name__]",
    "reload": "import importlib, reloaded; found = importlib.reload(reloaded).f(1)",
    "deleted and imported again": """
        import deleted
        del sys.modules["deleted"]
        first = deleted
        import deleted
        found = [deleted is first, first.f(1), deleted.f(1)]
        """,
    "namespace package": "import namespace.inner; found = namespace.inner.f(1)",
    "zip": "import zipped.inner; found = [zipped.inner.f(1), '.zip' in zipped.inner.__file__]",
    "resources": """
        import importlib.resources, pkgutil, resources
        found = [importlib.resources.files(resources).joinpath("data.txt").read_text(),
                 importlib.resources.files("resources").joinpath("data.txt").read_text(),
                 pkgutil.get_data("resources", "data.txt").decode(), resources.f(1)]
        """,
    "source": """
        import inspect, source, source.replaced
        found = [inspect.getsource(source) == open(source.__file__).read(),
                 inspect.getsource(source.f), inspect.getsource(source.replaced.f)]
        """,
    "signature": """
        import inspect, source, source.replaced
        found = [str(inspect.signature(each)) for each in
                 (source.f, source.replaced.f, source.Made.method, source.Made().method)]
        """,
    "pickle": """
        import pickle, source, source.replaced
        made = source.Made()
        def back(value):
            return pickle.loads(pickle.dumps(value))
        found = [back(source.f) is source.f, back(source.replaced.f) is source.replaced.f,
                 back(source.Made) is source.Made, type(back(made)) is source.Made,
                 back(made).extra, back(made.method)(1), back(source.Made.method)(made, 1)]
        """,
    "walk_packages": """
        import pkgutil, walked
        names = [found.name for found in pkgutil.walk_packages(walked.__path__, "walked.")]
        found = [names, walked.two.f(1), __import__("walked.one").one.f(1)]
        """,
    "run by runpy, then imported": """
        import runpy
        ran = runpy.run_module("run")["answer"]
        import run
        found = [ran, run.answer, run.f(1)]
        """,
    "LazyLoader": """
        import importlib.util
        spec = importlib.util.find_spec("deferred")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules["deferred"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        before = "fire deferred" in fired()
        import deferred
        found = [before, deferred.f(1), deferred is module, type(deferred).__name__]
        """,
    "compiled only": "import compiled; found = [compiled.f(1), compiled.__file__[-4:]]",
    "module with __getattr__": "import dynamic; found = [dynamic.f(1), dynamic.other]",
}

PATCHED = ["patched", 1]
EXPECTED: dict[str, Any] = {
    "circular": [PATCHED, ["patched", PATCHED]],
    "lazy module, behind": PATCHED,
    "lazy module, itself": [PATCHED, "Lazy"],
    "reload": PATCHED,
    "deleted and imported again": [False, PATCHED, PATCHED],
    "namespace package": PATCHED,
    "zip": [PATCHED, True],
    "resources": ["data", "data", "data", PATCHED],
    "source": [True, "def f(a):\n    return a\n", 'def instead(a):\n    return "instead"\n'],
    "signature": ["(a)", "(a)", "(self, a)", "(a)"],
    "pickle": [True, True, True, True, "sub", PATCHED, PATCHED],
    "walk_packages": [["walked.one", "walked.two"], PATCHED, PATCHED],
    "run by runpy, then imported": [1, 1, PATCHED],
    "LazyLoader": [False, PATCHED, True, "module"],
    "compiled only": [PATCHED, ".pyc"],
    "module with __getattr__": [PATCHED, "OTHER"],
}

PROGRAM = """
import json, os, pathlib, sys, traceback
import vllm

def fired():
    (file,) = pathlib.Path(os.environ["VLLM_GRAFT_TRACE"]).iterdir()
    lines = map(json.loads, file.read_text().splitlines())
    return [f"{line['event']} {line.get('module')}" for line in lines]

answers = {}
"""

CASE = """
try:
{code}
    answers[{name!r}] = found
except BaseException:
    answers[{name!r}] = traceback.format_exc()
"""


@pytest.fixture(scope="module")
def kinds(installed: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every case in one interpreter: what each gave, the trace, and what was said on stderr."""
    folder = tmp_path_factory.mktemp("kinds")
    vllm = FakeVllm(folder / "path")
    for name, text in FILES.items():
        vllm.write(name, text)
    compiled = vllm.folder / "compiled.py"
    py_compile.compile(str(compiled), cfile=str(compiled.with_suffix(".pyc")))
    compiled.unlink()
    archive = folder / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped/__init__.py", "")
        file.writestr("zipped/inner.py", F)
    vllm.declare(PATCHES.format(targets=TARGETS))
    cases = "".join(
        CASE.format(code=indent(dedent(code).strip(), "    "), name=name)
        for name, code in CASES.items()
    )
    trace = folder / "trace"
    done = installed.execute(
        PROGRAM + cases + "print(json.dumps(answers))",
        path=[*vllm.path, archive],
        VLLM_GRAFT_TRACE=str(trace),
    )
    assert done.returncode == 0, done.stderr
    (lines,) = trace.iterdir()
    return {
        "answers": json.loads(done.stdout),
        "said": done.stderr,
        "trace": [json.loads(line) for line in lines.read_text().splitlines()],
    }


@pytest.mark.parametrize("case", CASES)
def test_kind(kinds: dict[str, Any], case: str) -> None:
    """The patches of a module are in effect, and what Python says of it is as without them."""
    assert kinds["answers"][case] == EXPECTED[case]


def test_each_execution_is_patched_once(kinds: dict[str, Any]) -> None:
    """A module's hook fires, and each of its patches is applied, once for each execution."""
    counts = Counter(
        (line["event"], line.get("patch", line.get("module")))
        for line in kinds["trace"]
        if line["event"] in ("fire", "apply") and line["module"].partition(".")[0] != "vllm"
    )
    twice = {key: count for key, count in counts.items() if count != 1}
    assert twice == {
        ("fire", "reloaded"): 2,
        ("apply", "acme/reloaded.f"): 2,
        ("fire", "deleted"): 2,
        ("apply", "acme/deleted.f"): 2,
    }
    applied = {patch for event, patch in counts if event == "apply"}
    assert applied >= {f"acme/{target.lower().replace(':', '.')}" for target in TARGETS}


def test_only_runpy_is_worth_a_word(kinds: dict[str, Any]) -> None:
    """Nothing is said of all these modules but that runpy runs one where no hook can meet it."""
    (line,) = kinds["said"].splitlines()
    assert "patch 'acme/run.f': `python -m run`, or runpy, runs this module" in line
    skipped = [line["patch"] for line in kinds["trace"] if line["event"] == "skip"]
    assert [patch for patch in skipped if not patch.startswith("vllm-")] == ["acme/run.f"]


MAIN = """
import json, sys
import vllm
from vllm_graft import status

def f(a):
    return a

if __name__ == "__main__":
    def state():
        (found,) = [each for each in status().patches if each.id == "acme/f"]
        return [found.state, "python -m" in found.reason]
    before = state()
    import {name} as by_name
    print(json.dumps([f(1), before, by_name.f(1), state(), sys.argv[1:]]))
"""


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param("program.tool", ["-m", "program.tool"], id="module"),
        pytest.param("program.__main__", ["-m", "program"], id="package"),
        pytest.param("vllm.tool", ["-m", "vllm.tool"], id="module-of-vllm"),
    ],
)
def test_run_as_main(
    installed: Interpreter, vllm: FakeVllm, tmp_path: Path, name: str, command: list[str]
) -> None:
    """`python -m` of a patched module is out of reach, which is said once; by name it is not."""
    path = name.replace(".", "/") + ".py"
    vllm.write("program/__init__.py", "")
    vllm.write(path, MAIN.format(name=name))
    vllm.declare(f"patches.wrap('{name}:f', lambda original, a: ['patched', a], id='f', **ABOUT)\n")
    trace = tmp_path / "trace"
    done = installed.start(*command, "-m", path=vllm.path, VLLM_GRAFT_TRACE=str(trace))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        1,
        ["armed", True],
        PATCHED,
        ["applied", False],
        ["-m"],
    ]
    assert done.stderr.count("patch 'acme/f'") == done.stderr.count("\n") == 1
    (file,) = trace.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    told = [line["event"] for line in lines if line.get("patch") == "acme/f"]
    assert told == ["arm", "skip", "apply"] or told == ["skip", "arm", "apply"]


def test_argument_that_looks_like_a_module(installed: Interpreter, vllm: FakeVllm) -> None:
    """An argument `-m` of the program's own is none of Python's, and nothing is said."""
    program = vllm.write("script.py", "import vllm\nprint(vllm.limit())\n")
    done = installed.start(program, "-m", "vllm.first", path=vllm.path)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_name_that_only_getattr_provides(installed: Interpreter, vllm: FakeVllm) -> None:
    """A target that a module's `__getattr__` makes up is refused, with the way out."""
    vllm.write("dynamic.py", "def __getattr__(name):\n    return len\n")
    vllm.declare("patches.wrap('dynamic:made_up', len, id='f', **ABOUT)\n")
    done = installed.execute("import vllm, dynamic", path=vllm.path)
    assert done.returncode == 1
    assert "name the module that defines it" in done.stderr
