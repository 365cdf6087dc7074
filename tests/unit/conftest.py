"""Real modules, real distributions and real interpreters, made on the spot."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import Patch, PatchSet
from vllm_graft.sources import parsed

Write = Callable[[str, str], Path]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder that is first on `sys.path`; what is imported from it is forgotten."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = dict(sys.modules)
    parsed.cache_clear()  # of modules by name, and those of a test before had the same ones
    yield folder
    for name in set(sys.modules) - set(before):
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def write(site: Path) -> Write:
    """Return a function that writes a file below the folder on `sys.path`."""

    def write(path: str, text: str) -> Path:
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        importlib.invalidate_caches()
        return file

    return write


@pytest.fixture
def make(write: Write) -> Callable[..., ModuleType]:
    """Return a function that imports a module made of a source."""

    def make(source: str, name: str = "subject") -> ModuleType:
        write(f"{name}.py", source)
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return make


@pytest.fixture
def install(write: Write) -> Callable[..., None]:
    """Return a function that installs a distribution: its metadata, record and entry points."""

    def install(
        name: str, version: str, *, record: tuple[str, ...] = (), sets: dict[str, str] | None = None
    ) -> None:
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        write(f"{folder}/RECORD", "".join(f"{file},,\n" for file in record))
        entries = "".join(f"{key} = {value}\n" for key, value in (sets or {}).items())
        if entries:
            write(f"{folder}/entry_points.txt", f"[vllm_graft.patches]\n{entries}")

    return install


@pytest.fixture
def declare() -> Callable[..., Patch]:
    """Return a function that declares one patch in a set called `acme`."""

    def declare(operation: str, target: str, implementation: Any, **options: Any) -> Patch:
        patches = PatchSet("acme")
        reasons = {"why": "w", "how": "h", "upstream": "u", "remove": "r"}
        getattr(patches, operation)(
            target, implementation, **{"vllm": ">=0.27,<0.33", "id": "it", **reasons, **options}
        )
        return patches.patches[0]

    return declare


@pytest.fixture
def python(site: Path) -> Callable[..., str]:
    """Return a function that runs a script in a new interpreter and returns what it printed.

    The layer's own activation is off in it, so that nothing is armed but what the script arms.
    """

    def python(script: str, **environ: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if "VLLM" not in name}
        done = subprocess.run(
            [sys.executable, "-c", dedent(script)],
            env={**inherited, "PYTHONPATH": str(site), "VLLM_GRAFT": "0", **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return python
