"""Old-style patch files, run as they were written and as they are translated.

The vLLM that they patch is a stand-in with one name of each kind, so that a test can run a file
against it, and its translation, in the same interpreter in milliseconds.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from vllm_graft.check.source import Source
from vllm_graft.declare import PatchSet
from vllm_graft.new.names import Names
from vllm_graft.new.translation import Translation, translate
from vllm_graft.new.writing import translated_files
from vllm_graft.sources import parsed
from vllm_graft.testing import armed

from .vllm_trees import write_tree

VLLM = {
    "core.py": """
        import functools

        LIMIT = 1
        TABLE = {"a": 1}


        def area(width, height=2):
            return width * height


        async def fetch():
            return "fetched"


        def used_here():
            return 1


        def user():
            return used_here()


        class Base:
            def inherited(self):
                return "base"


        class Engine(Base):
            slots = 4

            def __init__(self, name="e"):
                self.name = name

            def step(self, count=1):
                return f"step {count}"

            @staticmethod
            def pick(items):
                return items[0]

            @classmethod
            def build(cls):
                return cls("built").name

            @property
            def size(self):
                return 10

            @functools.cached_property
            def cached(self):
                return object()


        class Plain:
            def who(self):
                return "plain"
        """,
    "api.py": """
        from vllm.core import Engine, Plain, area, used_here


        def api_area():
            return area(3)


        def api_used():
            return used_here()


        def who():
            return Plain().who()
        """,
    "only.py": """
        from vllm.hidden import hidden


        def ask():
            return hidden()
        """,
    "hidden.py": """
        def hidden():
            return "original"
        """,
    "other.py": """
        STATE = 0


        def other():
            return "other"


        def called_by_name(name):
            return name
        """,
}

PROBE = """
import asyncio

import vllm.api, vllm.core, vllm.hidden, vllm.only, vllm.other
from vllm.core import Engine, Base

engine = Engine()
QUESTIONS = {
    "area": lambda: vllm.core.area(3),
    "area with height": lambda: vllm.core.area(3, height=5),
    "api_area": lambda: vllm.api.api_area(),
    "fetch": lambda: asyncio.run(vllm.core.fetch()),
    "user": lambda: vllm.core.user(),
    "api_used": lambda: vllm.api.api_used(),
    "step": lambda: engine.step(),
    "step 3": lambda: engine.step(count=3),
    "pick": lambda: engine.pick([7, 8]),
    "pick of the class": lambda: Engine.pick([7, 8]),
    "build": lambda: Engine.build(),
    "size": lambda: engine.size,
    "is cached": lambda: engine.cached is engine.cached,
    "inherited": lambda: engine.inherited(),
    "inherited by the base": lambda: Base().inherited(),
    "slots": lambda: Engine.slots,
    "LIMIT": lambda: vllm.core.LIMIT,
    "TABLE": lambda: vllm.core.TABLE,
    "ask": lambda: vllm.only.ask(),
    "plain": lambda: vllm.core.Plain().who(),
    "plain of the api": lambda: vllm.api.who(),
    "other": lambda: vllm.other.other(),
    "STATE": lambda: vllm.other.STATE,
    "new": lambda: vllm.core.new_name(),
    "new method": lambda: engine.new_method(),
    "kept": lambda: engine.kept_step(),
    "text": lambda: vllm.core.TEXT,
}


def answer(question):
    try:
        return repr(question())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


ANSWERS = {name: answer(question) for name, question in QUESTIONS.items()}
"""


class Workshop:
    """A folder with the stand-in, old files, and what they are translated to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: list[str] = []
        self.vllm = write_tree(folder / "vllm-0.32.0", VLLM)
        (folder / "probe.py").write_text(PROBE)

    def old(self, text: str, name: str = "old_patch.py") -> Path:
        """Write an old file."""
        file = self.folder / "plugin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def other_vllm(self, version: str, **files: str) -> Path:
        """Write the stand-in of another version, in which some modules are different."""
        changed = {f"{name}.py": text for name, text in files.items()}
        return write_tree(self.folder / f"vllm-{version}", {**VLLM, **changed}, version)

    def translated(self, *files: Path, vllm: tuple[Path, ...] = ()) -> Translation:
        """Translate old files."""
        sources = [Source.open(str(each)) for each in vllm or (self.vllm,)]
        return translate(files, sources, Names("acme-vllm"))

    def run_old(self, *files: Path) -> dict[str, str]:
        """Return the answers of a vLLM in which old files have been imported."""
        with self._fresh(self.folder / "plugin"):
            for file in files:
                importlib.import_module(file.stem)
            return self._answers()

    def run_new(self, done: Translation, first: str = "vllm.core") -> dict[str, str]:
        """Return the answers with the translation armed; `first` is what is imported first."""
        root = self.folder / "made"
        for path, text in translated_files(done, Names("acme-vllm")).items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        with self._fresh(root / "src", self.folder / "plugin"):
            patches: PatchSet = importlib.import_module("acme_vllm.patches").patches
            with armed(patches, vllm="0.32.0") as status:
                importlib.import_module(first)
                answers = self._answers()
                self.failed = [each.reason for each in status().patches if each.state == "failed"]
            return answers

    def run_nothing(self) -> dict[str, str]:
        """Return the answers of a vLLM that nobody patches."""
        with self._fresh():
            return self._answers()

    def _answers(self) -> dict[str, str]:
        answers: dict[str, str] = importlib.import_module("probe").ANSWERS
        return answers

    @contextmanager
    def _fresh(self, *folders: Path) -> Iterator[None]:
        before, path = dict(sys.modules), list(sys.path)
        sys.path[:0] = [str(self.vllm), str(self.folder), *map(str, folders)]
        parsed.cache_clear()
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - set(before):
                file = str(getattr(sys.modules[name], "__file__", ""))
                if name.partition(".")[0] == "vllm" or file.startswith(str(self.folder)):
                    del sys.modules[name]


def changes(answers: dict[str, str], before: dict[str, str]) -> dict[str, Any]:
    """Return the answers that differ from those before."""
    return {name: value for name, value in answers.items() if value != before[name]}


def shown(answers: dict[str, str]) -> str:
    """Return answers as a failing test shows them."""
    return json.dumps(answers, indent=1)
