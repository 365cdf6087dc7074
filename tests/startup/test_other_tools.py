"""Other tools with import hooks of their own go on working, before ours and behind it."""

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter


@pytest.mark.parametrize("module", ["vllm", "vllm.first"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_foreign_wrapt_hook(
    installed: Interpreter, vllm: FakeVllm, module: str, moment: str
) -> None:
    """Another tool's post-import hook fires once, whether it registers before or after us."""
    register = f"wrapt.register_post_import_hook(lambda module: fired.append(1), {module!r})"
    before, after = (register, "") if moment == "before" else ("", register)
    answer = installed.ask(
        f"""
        import wrapt
        fired = []
        {before}
        import vllm
        {after}
        answer = [fired, vllm.NAME, vllm.limit(), type(vllm.__spec__.loader).__name__]
        """,
        path=vllm.path,
    )
    assert answer == [[1], "patched", 2, "SourceFileLoader"]


@pytest.mark.parametrize("position", [0, 1, 99], ids=["before", "behind", "last"])
def test_foreign_observing_finder(installed: Interpreter, vllm: FakeVllm, position: int) -> None:
    """A finder that answers nothing is still asked for every module, wherever it stands."""
    vllm.write("foreign.py", "")
    answer = installed.ask(
        f"""
        import sys
        class Finder:
            asked = set()
            def find_spec(self, name, path=None, target=None):
                self.asked.add(name)
        finder = Finder()
        sys.meta_path.insert({position}, finder)
        import vllm.late
        try:
            import absent
        except ImportError:
            pass
        answer = [sorted(finder.asked & {{"vllm", "vllm.late", "absent"}}), finder in sys.meta_path]
        answer += [vllm.NAME, vllm.limit()]
        """,
        path=vllm.path,
    )
    seen = ["absent"] if position == 99 else ["absent", "vllm", "vllm.late"]
    assert answer == [seen, True, "patched", 2]


@pytest.mark.parametrize("position", [0, 1], ids=["before", "behind"])
def test_foreign_wrapping_finder(installed: Interpreter, vllm: FakeVllm, position: int) -> None:
    """A finder that puts its own loader around vLLM's sees vLLM executed once, patched by us."""
    answer = installed.ask(
        f"""
        import importlib.util, sys
        executed = []
        class Loader:
            def __init__(self, loader):
                self.loader = loader
            def __getattr__(self, name):
                return getattr(self.loader, name)
            def create_module(self, spec):
                return self.loader.create_module(spec)
            def exec_module(self, module):
                executed.append(module.__name__)
                self.loader.exec_module(module)
        class Finder:
            busy = False
            def find_spec(self, name, path=None, target=None):
                if name != "vllm" or self.busy:
                    return None
                self.busy = True
                try:
                    spec = importlib.util.find_spec(name)
                finally:
                    self.busy = False
                spec.loader = Loader(spec.loader)
                return spec
        sys.meta_path.insert({position}, Finder())
        import vllm
        answer = [executed, vllm.NAME, vllm.limit()]
        """,
        path=vllm.path,
    )
    assert answer == [["vllm"], "patched", 2]


def test_foreign_finder_that_provides_vllm(installed: Interpreter, vllm: FakeVllm) -> None:
    """A vLLM that only another finder can find, as in an editable install, is patched."""
    (vllm.folder / "vllm").rename(vllm.folder / "elsewhere")
    answer = installed.ask(
        f"""
        import importlib.util, sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                folder = {str(vllm.folder / "elsewhere")!r}
                if name == "vllm":
                    return importlib.util.spec_from_file_location(
                        name, folder + "/__init__.py", submodule_search_locations=[folder])
        sys.meta_path.append(Finder())
        import vllm
        from vllm_graft import status
        answer = [status().vllm, vllm.NAME, vllm.limit()]
        """,
        path=vllm.path,
    )
    assert answer == ["0.32.0", "patched", 2]


def test_patched_import_statement(installed: Interpreter, vllm: FakeVllm) -> None:
    """A replaced `builtins.__import__` of another tool is still in its place afterwards."""
    answer = installed.ask(
        """
        import builtins
        real = builtins.__import__
        def theirs(*args, **kwargs):
            return real(*args, **kwargs)
        builtins.__import__ = theirs
        import vllm
        answer = [builtins.__import__ is theirs, vllm.limit()]
        """,
        path=vllm.path,
    )
    assert answer == [True, 2]
