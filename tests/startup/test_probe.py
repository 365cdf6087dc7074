"""A program that only asks whether vLLM is there neither waits for the layer nor meets it."""

import pytest

from .fake_vllm import FakeVllm
from .interpreters import COUNT_SENTINELS, Interpreter

PROBES = {
    "find_spec": "importlib.util.find_spec('vllm')",
    "PathFinder": "importlib.machinery.PathFinder.find_spec('vllm')",
    "find_loader": "pkgutil.get_importer(sys.path[0]) and importlib.util.find_spec('vllm').loader",
    "iter_modules": "list(pkgutil.iter_modules())",
    "version": "importlib.metadata.packages_distributions()",
}
IMPORTS = "import importlib.machinery, importlib.metadata, importlib.util, pkgutil, sys\n"


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
@pytest.mark.parametrize("broken", [False, True], ids=["fine", "activation-would-fail"])
def test_probe_does_nothing(
    installed: Interpreter, vllm: FakeVllm, probe: str, broken: bool
) -> None:
    """A probe imports nothing, plans nothing and raises nothing, even where activation would."""
    if broken:
        vllm.declare("raise RuntimeError('broken')\n")
    answer = installed.ask(
        f"""{IMPORTS}
found = {probe}
loaded = {{"vllm", "vllm_graft.activation", "acme_patches", "wrapt"}} & set(sys.modules)
answer = [bool(found) or {probe!r}.endswith("distributions()"), sorted(loaded)]
""",
        path=vllm.path,
    )
    assert answer == [True, []]


def test_probe_answers_as_python(installed: Interpreter, bare: Interpreter, vllm: FakeVllm) -> None:
    """A probe gets the spec that Python would give, its loader's answers included."""
    code = """
        import importlib.util
        spec = importlib.util.find_spec("vllm")
        answer = [
            spec.name, spec.origin, spec.cached, spec.parent, spec.has_location,
            list(spec.submodule_search_locations),
            spec.loader.get_filename("vllm"), spec.loader.is_package("vllm"),
            spec.loader.get_source("vllm"), spec.loader.get_data(spec.origin).decode(),
            spec.loader.path, spec.loader.name,
        ]
        """
    assert installed.ask(code, path=vllm.path) == bare.ask(code, path=vllm.path)


def test_sentinel_waits_on(either: Interpreter, vllm: FakeVllm) -> None:
    """After any number of probes the sentinel is still there, once."""
    code = "import importlib.util\nfor _ in range(3): importlib.util.find_spec('vllm')\n"
    assert either.ask(code + COUNT_SENTINELS, path=vllm.path) == 1


def test_import_after_probes(either: Interpreter, vllm: FakeVllm) -> None:
    """The import that follows a probe activates; probes after it find the module's own spec."""
    answer = either.ask(
        """
        import importlib.util
        importlib.util.find_spec("vllm")
        import vllm
        from vllm_graft import status
        same = importlib.util.find_spec("vllm") is vllm.__spec__
        answer = [status().activated_by, vllm.NAME, vllm.limit(), same]
        """,
        path=vllm.path,
    )
    assert answer == ["pth", "patched", 2, True]


def test_loading_what_was_probed(installed: Interpreter, vllm: FakeVllm) -> None:
    """A program that loads vLLM by hand from the spec that it was given activates the layer."""
    answer = installed.ask(
        """
        import importlib.util, sys
        spec = importlib.util.find_spec("vllm")
        module = sys.modules["vllm"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        import vllm.user
        answer = [module.NAME, vllm.user.ask(), type(module.__loader__).__name__]
        """,
        path=vllm.path,
    )
    assert answer == ["patched", 2, "SourceFileLoader"]
