"""Translated packages whose targets import each other: nothing is imported before its time.

An implementation is loaded in the middle of vLLM's own imports, so its module must not import what
is being imported there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from vllm_graft.new.names import Names
from vllm_graft.new.translation import Translation
from vllm_graft.new.writing import translated_files

from ..unit.old_files import Workshop

CIRCLE = {
    # what early is needed for starts, and what is late needs that: as vLLM's models do
    "start": "from vllm.late import Late\n",
    "early": "TABLE = {}\n\ndef ask():\n    return 'early'\n",
    "late": "import vllm.early\n\nclass Late:\n    def answer(self):\n        return 'late'\n",
}

ASK = """
import importlib, sys
from vllm_graft.testing import armed
from acme_vllm.patches import patches
with armed(patches, vllm="0.32.0") as status:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    import vllm.early, vllm.late
    print(vllm.early.ask(), vllm.late.Late().answer(), vllm.early.TABLE, status().counts["failed"])
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Workshop(tmp_path)
    made.vllm = made.other_vllm("0.32.0", **CIRCLE)
    return made


def asked(workshop: Workshop, done: Translation, *modules: str) -> str:
    """Return the answers of a fresh process that imports modules in an order."""
    root = workshop.folder / "made"
    for path, text in translated_files(done, Names("acme-vllm")).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    source = Path(__file__).parents[2] / "src"
    paths = [str(source), str(root / "src"), str(workshop.vllm)]
    code = f"import sys; sys.path[:0] = {paths!r}\n{ASK}"
    command = [sys.executable, "-c", code, *modules]
    done_process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done_process.returncode == 0, done_process.stderr
    return done_process.stdout.strip()


# Each: the old file, and the answers.
FILES = {
    "names that only assignments need": (
        """
        import vllm.early as early
        from vllm.late import Late
        def ask(): return "ours"
        def answer(self): return "ours, too"
        early.ask = ask
        Late.answer = answer
        """,
        "ours ours, too {} 0",
    ),
    "names that functions need": (
        """
        from __future__ import annotations
        import vllm.early, vllm.late
        from vllm.late import Late
        def ask(one: Late = None):
            '''Ask.'''
            return f"ours, {Late().answer()}"
        def answer(self: "Late"): return f"late beside {sorted(vllm.early.TABLE)}"
        vllm.early.ask = ask
        vllm.late.Late.answer = answer
        """,
        "ours, late beside [] late beside [] {} 0",
    ),
    "an import with a fallback": (
        """
        import vllm.early
        try:
            from vllm.late import Late
        except ImportError:
            Late = None
        def ask(): return f"ours, {Late.__name__}"
        vllm.early.ask = ask
        Late.answer = lambda self: "ours, too"
        """,
        "ours, Late ours, too {} 0",
    ),
    "what stays": (
        """
        import vllm.early as early
        from vllm.late import Late
        def ask(): return "ours"
        early.ask = ask
        for name in ("a", "b"):
            early.TABLE[name] = Late.__name__
        """,
        "ours late {'a': 'Late', 'b': 'Late'} 0",
    ),
    "a function that the file calls, with imports of its own": (
        """
        import vllm.early
        def register():
            from vllm.late import Late
            def answer(self): return "ours"
            vllm.early.TABLE["late"] = Late.__name__
            vllm.early.ask = ask
        def ask(): return "ours"
        register()
        """,
        "ours late {'late': 'Late'} 0",
    ),
    "a function that somebody calls": (
        """
        def ask(): return "ours"
        def register():
            import vllm.early
            from vllm.late import Late
            vllm.early.TABLE["late"] = Late.__name__
            vllm.early.ask = ask
        """,
        "ours late {'late': 'Late'} 0",
    ),
}


@pytest.mark.parametrize("case", FILES, ids=str)
def test_vllm_is_imported_in_every_order(workshop: Workshop, case: str) -> None:
    """`vllm.early` first is what fails where its copy imports `vllm.late`, which is not there."""
    text, answers = FILES[case]
    done = workshop.translated(workshop.old(text))
    assert not [each for each in done.left if "not certain" in each]
    for order in (["vllm.start"], ["vllm.early", "vllm.late"], ["vllm.late", "vllm.early"]):
        assert asked(workshop, done, *order) == answers


def test_what_module_level_needs_stays_there_and_is_said(workshop: Workshop) -> None:
    file = workshop.old("""
        import vllm.early
        from vllm.late import Late
        class Ours(Late): pass
        def ask(limit=Late): return "ours"
        vllm.early.ask = ask
        """)
    done = workshop.translated(file)
    (copy,) = done.copies.values()
    assert "\nfrom vllm.late import Late\n" in copy
    assert "import vllm.early" not in copy
    (left,) = done.left
    assert left.startswith("old_patch.py:3: `from vllm.late import Late`: not certain: the copy ")
    assert "imports vllm.late when vllm.early is imported" in left


def test_what_stays_is_done_when_the_last_of_its_modules_is_imported(workshop: Workshop) -> None:
    file = workshop.old("""
        import vllm.early, vllm.late
        vllm.early.TABLE["x"] = 1
        vllm.late.Late.__doc__ += "ours"
        """)
    done = workshop.translated(file)
    assert [str(each.target) for each in done.declarations] == ["vllm.late"]
