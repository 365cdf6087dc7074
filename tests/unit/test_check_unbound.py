"""A lazy implementation that is not there is told before a process looks for it."""

import py_compile
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from vllm_graft import Patch
from vllm_graft.check.cache import CachedResolver
from vllm_graft.check.lock import Lock
from vllm_graft.check.own_source import own_source
from vllm_graft.check.renewal import renewal
from vllm_graft.check.tree import FolderTree
from vllm_graft.check.verdicts import Verdict, judge

from .vllm_trees import write_tree

Declare = Callable[..., Patch]

MODULES: dict[str, str | bytes] = {
    "plain.py": """
        from .base import Base
        from .other import handed_on
        def merge_blocks(*args, **kwargs): pass
        class Own:
            def method(*args, **kwargs): pass
        class Derived(Base): pass
        # mentioned: what a text has in it may be bound by it
        def assign(): globals()["assigned"] = merge_blocks
        """,
    "declares.py": 'patches.replace("vllm.a:f", "acme_pkg.declares:renamed")\n',
    "star.py": "from .other import *\n",
    "lazy.py": "def __getattr__(name): return make(name)\n",
    "loop.py": "for name in ('a', 'b'): globals()[f'patched_{name}'] = make(name)\n",
    "code.py": "import sys\nsetattr(sys.modules[__name__], 'x' + 'y', 1)\n",
    "other.py": "def handed_on(*args, **kwargs): pass\n",
    "base.py": "class Base: pass\n",
    "broken.py": "LIMIT = 1\ndef merge(*args, **kwargs): pass\ndef other(:\n",
    "outside.py": "def merge(*args, **kwargs): pass\nnonlocal merge\n",
    "bytes.py": b"def merge(*args, **kwargs): pass\n# \xff\n",
    "hands_on.py": """
        from .gone import x
        from .other import gone, gone as renamed
        from .broken import merge
        from os.path import join, joinn
        """,
    "tries.py": """
        try:
            from .gone import x
            from .other import gone
            from .broken import merge
        except ImportError:
            pass
        """,
    "open/__init__.py": "__path__ = find_more(__path__)\n",
}


@pytest.fixture
def verdict(
    tmp_path: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Verdict]:
    """Return a function that judges a patch whose implementation is somewhere in `MODULES`."""
    packages = tmp_path / "packages"
    for path, text in MODULES.items():
        file = packages / "acme_pkg" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(dedent(text).encode() if isinstance(text, str) else text)
    (packages / "acme_pkg" / "__init__.py").touch()
    (packages / "acme_spaces").mkdir()
    (packages / "acme_spaces" / "inner.py").write_text("def f(*args, **kwargs): pass\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    tree = write_tree(tmp_path / "tree", {"a.py": "LIMIT = 1\ndef f(x): pass\nclass C: pass\n"})
    resolver = CachedResolver(FolderTree(tree), tmp_path / "cache")

    def verdict(operation: str, target: str, given: str) -> Verdict:
        return judge(declare(operation, target, given), resolver)

    return verdict


@pytest.mark.parametrize(
    ("given", "fit", "reason"),
    [
        ("acme_pkg.plain:merge_blocks", "ok", ""),
        ("acme_pkg.plain:handed_on", "ok", ""),
        ("acme_pkg.plain:Own.method", "ok", ""),
        ("acme_pkg.plain:assigned", "ok", ""),
        ("math:lcm", "ok", ""),
        (
            "acme_pkg.plain:merge_block",
            "unknown",
            "acme_pkg.plain has no 'merge_block'. Did you mean 'merge_blocks'?",
        ),
        (
            "acme_pkg.other:nope",
            "kind",
            "acme_pkg.other:nope does not exist: acme_pkg.other has no",
        ),
        ("acme_pkg.other:handed_no", "kind", "Did you mean 'handed_on'?"),
        ("acme_pkg.base:Base.nope", "kind", "acme_pkg.base:Base has no 'nope'"),
        ("acme_pkg.declares:renamed", "kind", "acme_pkg.declares has no 'renamed'"),
        ("acme_pkg.nope:f", "kind", "there is no module acme_pkg.nope"),
        ("acme_pkg.plain.nope:f", "unknown", "there is no module acme_pkg.plain.nope"),
        # What cannot be imported.
        ("acme_pkg.broken:merge", "kind", "cannot be imported: acme_pkg.broken is not Python: "),
        ("acme_pkg.broken:LIMIT", "kind", "(line 3)"),
        ("acme_pkg.outside:merge", "kind", "acme_pkg.outside is not Python: name 'merge' is"),
        ("acme_pkg.bytes:merge", "kind", "acme_pkg.bytes is not Python: "),
        ("acme_pkg.hands_on:merge", "kind", "acme_pkg.broken is not Python: "),
        ("acme_pkg.hands_on:x", "kind", "hands_on:x does not exist: there is no module acme_pkg."),
        ("acme_pkg.hands_on:gone", "kind", "hands_on:gone does not exist: acme_pkg.other has no"),
        ("acme_pkg.hands_on:renamed", "kind", "does not exist: acme_pkg.other has no 'gone'"),
        ("acme_pkg.tries:merge", "unknown", "may not be importable: acme_pkg.broken is not Python"),
        ("acme_pkg.tries:x", "unknown", "as far as can be seen: there is no module acme_pkg.gone"),
        ("acme_pkg.tries:gone", "unknown", "as far as can be seen: acme_pkg.other has no 'gone'"),
        # What comes with Python.
        ("os.path:join", "ok", ""),
        ("acme_pkg.hands_on:join", "ok", ""),
        ("os.path:joinn", "kind", "os.path:joinn does not exist: os.path has no 'joinn'"),
        ("acme_pkg.hands_on:joinn", "kind", "does not exist: os.path has no 'joinn'"),
        # What may be bound by code, or be elsewhere.
        ("acme_pkg.plain:mentioned", "unknown", "as far as can be seen"),
        ("acme_pkg.plain:Derived.nope", "unknown", "'nope'"),
        ("acme_pkg.star:nope", "unknown", "acme_pkg.star has no 'nope'"),
        ("acme_pkg.lazy:nope", "unknown", "acme_pkg.lazy has no 'nope'"),
        ("acme_pkg.loop:patched_a", "unknown", "acme_pkg.loop has no 'patched_a'"),
        ("acme_pkg.code:xy", "unknown", "acme_pkg.code has no 'xy'"),
        ("acme_pkg:plain", "unknown", "acme_pkg has no 'plain'"),
        ("acme_pkg.open.nope:f", "unknown", "there is no module acme_pkg.open.nope"),
        ("acme_spaces.nope:f", "unknown", "there is no module acme_spaces.nope"),
        ("acme_not_here.x:f", "unknown", "acme_not_here, which is not here"),
    ],
)
def test_an_implementation_that_is_not_there(
    verdict: Callable[..., Verdict], given: str, fit: str, reason: str
) -> None:
    found = verdict("replace", "vllm.a:f", given)
    assert found.fit == fit
    assert reason in found.reason
    assert bool(found.reason) == (fit != "ok")


@pytest.mark.parametrize(
    ("operation", "target"),
    [
        ("wrap", "vllm.a:f"),
        ("set", "vllm.a:LIMIT"),
        ("add", "vllm.a:NEW"),
        ("subclass", "vllm.a:C"),
        ("run", "vllm.a"),
    ],
)
def test_every_operation_needs_its_implementation(
    verdict: Callable[..., Verdict], operation: str, target: str
) -> None:
    assert verdict(operation, target, "acme_pkg.other:nope").fit == "kind"


def test_what_is_wrong_with_the_target_comes_first(verdict: Callable[..., Verdict]) -> None:
    assert verdict("replace", "vllm.a:gone", "acme_pkg.other:nope").fit == "missing"


@pytest.mark.parametrize(
    ("operation", "target", "given"),
    [
        ("replace", "vllm.a:f", "acme_pkg.broken:merge"),
        ("set", "vllm.a:LIMIT", "acme_pkg.broken:merge"),
        ("run", "vllm.a", "acme_pkg.broken:merge"),
        ("run", "vllm.a", "acme_pkg.broken"),
    ],
)
def test_a_module_that_is_not_python_is_neither_fine_nor_locked(
    verdict: Callable[..., Verdict], operation: str, target: str, given: str
) -> None:
    found = verdict(operation, target, given)
    assert (found.fit, "acme_pkg.broken is not Python" in found.reason) == ("kind", True)
    renewed = renewal(Lock(), [found.patch], [replace(found, in_range=True)], own_source)
    assert (dict(renewed.after.patches), len(renewed.refused)) == ({}, 1)


def test_python_says_of_a_file_that_it_has_compiled_that_it_is_sound(
    verdict: Callable[..., Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    py_compile.compile(str(tmp_path / "packages" / "acme_pkg" / "plain.py"))
    monkeypatch.delattr("vllm_graft.check.implementation._raise_if_broken")
    assert verdict("set", "vllm.a:LIMIT", "acme_pkg.plain:merge_blocks").fit == "ok"


def test_what_cannot_be_read_is_only_noted(verdict: Callable[..., Verdict]) -> None:
    given = "vllm.not_here:f"
    found = verdict("replace", "vllm.a:f", given)
    assert (found.fit, found.notes) == (
        "ok",
        (f"how {given} is called is not known: it has no source here",),
    )
