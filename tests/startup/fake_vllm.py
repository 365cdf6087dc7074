"""A stand-in for vLLM, with a distribution that patches it.

These tests are about interpreters and the import system: they need a package called `vllm` that
imports its own modules as it is imported, many times a second. The real one is in tests/engine.
"""

from pathlib import Path
from textwrap import dedent

from vllm_graft.builtin import builtin_sets

VERSION = "0.32.0"

_PACKAGE = {
    "vllm/__init__.py": """
        from .first import limit
        from ._version import __version__

        NAME = "vllm"
        """,
    "vllm/_version.py": f"""
        __version__ = version = {VERSION!r}
        """,
    "vllm/first.py": """
        def limit():
            return 1
        """,
    "vllm/user.py": """
        from vllm.first import limit

        def ask():
            return limit()
        """,
    "vllm/late.py": """
        def late():
            return "late"
        """,
    "vllm/data.txt": "data",
    # Loads and calls general plugins as vllm/plugins/__init__.py of 0.31.0 does, but each time.
    "vllm/plugins/__init__.py": """
        import logging
        from importlib.metadata import entry_points

        def load_general_plugins():
            functions = []
            for plugin in entry_points(group="vllm.general_plugins"):
                try:
                    functions.append(plugin.load())
                except Exception:
                    logging.getLogger(__name__).exception("Failed to load plugin %s", plugin.name)
            for function in functions:
                function()
        """,
    # vLLM runs this module with `python -m` to look at a model.
    "vllm/model_executor/models/registry.py": """
        if __name__ == "__main__":
            import report
            report.write()
        """,
}

_ACME = {
    "acme-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: acme
        Version: 1.0
        """,
    "acme-1.0.dist-info/entry_points.txt": """
        [vllm_graft.patches]
        acme = acme_patches:patches
        """,
    "acme_patches.py": """
        from vllm_graft import PatchSet

        patches = PatchSet("acme")
        ABOUT = {
            "vllm": ">=0.30,<0.40",
            "why": "A test.",
            "how": "By a visible effect.",
            "upstream": "None.",
            "remove": "Never.",
        }
        patches.set("vllm:NAME", "patched", id="name", **ABOUT)

        @patches.wrap("vllm.first:limit", **ABOUT)
        def limit(original):
            return original() + 1

        @patches.wrap("vllm.late:late", **ABOUT)
        def late(original):
            return original() + " patched"
        """,
    # What a process is and what has happened in it, written to the folder named by REPORTS.
    "report.py": """
        import json, multiprocessing, os, pathlib

        def write():
            import vllm.late, vllm.user
            from vllm_graft import status
            found = status()
            name = multiprocessing.current_process().name
            answer = {
                "by": found.activated_by,
                "process": found.process,
                "roles": list(found.roles),
                "effects": [vllm.NAME, vllm.user.ask(), vllm.late.late()],
                "failed": [each.id for each in found.patches if each.state == "failed"],
            }
            pathlib.Path(os.environ["REPORTS"], name).write_text(json.dumps(answer))
        """,
}

PATCHED = ["patched", 2, "late patched"]
"""The effects that report.py finds where each patch was applied, and once."""


class FakeVllm:
    """The folder with both, to be put on PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (_PACKAGE | _ACME).items():
            self.write(name, text)
        for patch in (patch for found in builtin_sets() for patch in found.patches):
            # The layer's own patches warn about a vLLM that has not their modules.
            path = f"{patch.target.module.replace('.', '/')}.py"
            if path.startswith("vllm/") and not (folder / path).exists():
                self.write(path, "")

    @property
    def path(self) -> list[Path]:
        return [self.folder]

    def write(self, name: str, text: str) -> Path:
        """Write a file, and the `__init__.py` of the packages that it is in."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip())
        for package in file.relative_to(self.folder).parents:
            if name.startswith("vllm/") and package.name:
                (self.folder / package / "__init__.py").touch()
        return file

    def declare(self, text: str) -> None:
        """Add declarations to the set `acme`."""
        with (self.folder / "acme_patches.py").open("a") as file:
            file.write(dedent(text))
