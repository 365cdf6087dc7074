"""When the layer is armed, and what it leaves of the import system as it was."""

import pytest

from .fake_vllm import FakeVllm
from .interpreters import COUNT_SENTINELS, Interpreter


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("vllm.first.limit()", 2, id="module-that-vllm-imports-first"),
        pytest.param("vllm.limit()", 2, id="name-that-vllm-took-from-it"),
        pytest.param("vllm.user.ask()", 2, id="name-that-another-module-took"),
        pytest.param("vllm.NAME", "patched", id="name-of-the-package-itself"),
    ],
)
def test_armed_before_vllm(
    installed: Interpreter, vllm: FakeVllm, expression: str, value: object
) -> None:
    """The layer is armed before the first line of vLLM runs, so every name is the patched one."""
    code = f"import vllm.user\nanswer = {expression}"
    assert installed.ask(code, path=vllm.path) == value


def test_armed_in_vllm_itself(installed: Interpreter, vllm: FakeVllm) -> None:
    """Code in vLLM's own `__init__` calls what is patched, not the original."""
    with (vllm.folder / "vllm" / "__init__.py").open("a") as file:
        file.write("LIMIT_AT_IMPORT = limit()\n")
    answer = installed.ask("import vllm\nanswer = vllm.LIMIT_AT_IMPORT", path=vllm.path)
    assert answer == 2


@pytest.mark.parametrize(
    "statement",
    [
        "import vllm",
        "import vllm.first",
        "from vllm.user import ask",
        "import importlib; importlib.import_module('vllm.user')",
        "__import__('vllm')",
        "import importlib.util; importlib.util.find_spec('vllm.first')",
        "import pkgutil; pkgutil.resolve_name('vllm:NAME')",
    ],
)
def test_every_way_of_importing(installed: Interpreter, vllm: FakeVllm, statement: str) -> None:
    """Whatever imports vLLM first, the patches are in effect."""
    code = f"{statement}\nimport sys\nanswer = sys.modules['vllm'].limit()"
    assert installed.ask(code, path=vllm.path) == 2


def test_planning_imports_no_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """Importing every module of the layer and planning imports neither vLLM nor torch.

    But for those that only pytest imports, and what models are built of.
    """
    vllm.write("torch/__init__.py", "")
    answer = installed.ask(
        """
        import importlib, os, pkgutil, sys
        import vllm_graft
        modules = [found.name for found in pkgutil.walk_packages(vllm_graft.__path__, "vllm_graft.")
                   if not found.name.endswith("__main__") and ".demo" not in found.name]
        implementations = ("mxfp4", "model_", "weight_loaders")  # of models: they need torch
        modules = [name for name in modules
                   if not name.rpartition(".")[2].startswith((*implementations, "pytest_"))
                   and not name.endswith("_mxfp4")]
        for name in modules:
            importlib.import_module(name)
        from vllm_graft.activation import current_plan
        from vllm_graft.settings import Settings
        plan = current_plan(Settings.read(os.environ))
        heavy = [name for name in sys.modules if name.split(".")[0] in ("vllm", "torch")]
        answer = [heavy, "acme/limit" in [patch.id for patch in plan.armed]]
        """,
        path=vllm.path,
    )
    assert answer == [[], True]


def test_activation_imports_no_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """When vLLM's own first line runs, no module of vLLM or torch has been imported before it."""
    vllm.write("torch/__init__.py", "")
    file = vllm.folder / "vllm" / "__init__.py"
    line = "import sys; HEAVY = [m for m in sys.modules if m.split('.')[0] in ('vllm', 'torch')]\n"
    file.write_text(line + file.read_text())
    assert installed.ask("import vllm\nanswer = vllm.HEAVY", path=vllm.path) == ["vllm"]


@pytest.mark.parametrize("patches", ["*/*", "acme/limit"], ids=["package-patched", "not-patched"])
def test_own_loader_stays(
    installed: Interpreter, bare: Interpreter, vllm: FakeVllm, patches: str
) -> None:
    """During and after its import vLLM has Python's own loader, and the sentinel is gone."""
    file = vllm.folder / "vllm" / "__init__.py"
    file.write_text(file.read_text() + "LOADERS = [__loader__, __spec__.loader]\n")
    code = """
        import sys, vllm
        loaders = [*vllm.LOADERS, vllm.__loader__, vllm.__spec__.loader, vllm.first.__loader__]
        answer = [f"{type(each).__module__}.{type(each).__name__}" for each in loaders]
        answer.append("VllmGraft" in str(sys.meta_path))
        """
    answer = installed.ask(code, path=vllm.path, VLLM_GRAFT_PATCHES=patches)
    assert answer == bare.ask(code, path=vllm.path)


def test_introspection_works(installed: Interpreter, bare: Interpreter, vllm: FakeVllm) -> None:
    """Resources, source and submodules of a patched vLLM are found as in an unpatched one."""
    code = """
        import importlib.resources, importlib.util, inspect, pkgutil
        import vllm
        answer = [
            importlib.resources.files("vllm").joinpath("data.txt").read_text(),
            pkgutil.get_data("vllm", "data.txt").decode(),
            inspect.getsource(vllm),
            inspect.getsourcefile(vllm),
            sorted(found.name for found in pkgutil.walk_packages(vllm.__path__, "vllm.")),
            importlib.util.find_spec("vllm").origin,
            [vllm.__file__, list(vllm.__path__), vllm.__package__, repr(vllm)],
        ]
        """
    assert installed.ask(code, path=vllm.path) == bare.ask(code, path=vllm.path)


def test_resources_during_import(installed: Interpreter, vllm: FakeVllm) -> None:
    """vLLM's `__init__` can read its own package's resources while it is executed."""
    file = vllm.folder / "vllm" / "__init__.py"
    text = "import importlib.resources as r; TEXT = r.files(__name__).joinpath('data.txt')"
    file.write_text(f"{text}.read_text()\n" + file.read_text())
    assert installed.ask("import vllm\nanswer = vllm.TEXT", path=vllm.path) == "data"


def test_failed_import_of_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """An import of vLLM that fails by its own fault can be repeated, and is patched then."""
    file = vllm.folder / "vllm" / "__init__.py"
    file.write_text(file.read_text() + "import a_missing_dependency\n")
    answer = installed.ask(
        """
        import sys, types
        try:
            import vllm
        except ImportError as error:
            answer = [error.name]
        sys.modules["a_missing_dependency"] = types.ModuleType("a_missing_dependency")
        import vllm
        answer += [vllm.NAME, vllm.limit()]
        """,
        path=vllm.path,
    )
    assert answer == ["a_missing_dependency", "patched", 2]


def test_sentinel_goes(either: Interpreter, vllm: FakeVllm) -> None:
    """Once vLLM is imported there is no sentinel any more, and none comes back."""
    code = "import vllm\nfrom vllm_graft import boot\nboot.install()\n"
    assert either.ask(code + COUNT_SENTINELS, path=vllm.path) == 0
