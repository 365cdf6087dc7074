"""Real modules, real distributions and real interpreters, made on the spot."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vllm_graft import Patch, PatchSet
from vllm_graft.builtin import builtin_sets
from vllm_graft.caches import _digest, _digest_of, package_digest
from vllm_graft.journal import JOURNAL
from vllm_graft.models import resolve
from vllm_graft.models.platform import VARIABLE
from vllm_graft.models.registry import BUILTIN_MODELS, Model, models_set
from vllm_graft.models.resolve import FACTORIES, Factories
from vllm_graft.sources import parsed
from vllm_graft.states import Status
from vllm_graft.testing import armed
from vllm_graft.trace import Line

from .fake_vllm import ACME, LOADER, REGISTRY, RELEASES

Write = Callable[[str, str], Path]

sys.dont_write_bytecode = True
"""Tests write a module anew within the second by which Python tells old bytecode."""


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
        name: str,
        version: str,
        *,
        record: tuple[str, ...] = (),
        sets: dict[str, str] | None = None,
        models: dict[str, str] | None = None,
    ) -> None:
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        write(f"{folder}/RECORD", "".join(f"{file},,\n" for file in record))
        entries = "".join(
            f"[vllm_graft.{group}]\n"
            + "".join(f"{key} = {value}\n" for key, value in found.items())
            for group, found in (("patches", sets), ("models", models))
            if found
        )
        if entries:
            write(f"{folder}/entry_points.txt", entries)

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


@pytest.fixture
def factories(monkeypatch: pytest.MonkeyPatch) -> Factories:
    """Return the memory of what factories chose, empty."""
    for name, value in vars(Factories()).items():
        monkeypatch.setattr(FACTORIES, name, value)
    resolve._names_factory.cache_clear()  # by names of modules, which tests write anew
    forget_digests()
    return FACTORIES


def forget_digests() -> None:
    """Let sources be read again, as another process does."""
    for cached in (package_digest, _digest, _digest_of):
        cached.cache_clear()


@dataclass
class Vllm:
    """The stand-in for vLLM in one of its releases, with the layer in effect."""

    version: str
    status: Callable[[], Status]
    lines: list[Line]
    """What is traced."""

    def write(self, line: Line) -> None:
        """Take a trace line."""
        self.lines.append(line)

    def traced(self, event: str) -> list[str]:
        """Return the details of the trace lines for an event."""
        return [line["detail"] for line in self.lines if line["event"] == event]

    @property
    def registry(self) -> Any:
        """The module of vLLM's registry."""
        return importlib.import_module(REGISTRY)

    @property
    def models(self) -> Any:
        """What the registry has, by architecture."""
        return self.registry.ModelRegistry.models

    def engine(self, additional_config: Any, *architectures: str, **hf_config: Any) -> Any:
        """Return the configuration that vLLM makes for an engine."""
        given = SimpleNamespace(architectures=list(architectures or LLAMA), **hf_config)
        arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
        return arguments("a/model", given, additional_config).create_engine_config()

    def model(self, *architectures: str, neuron: Any = None, **hf_config: Any) -> Any:
        """Return the configuration of the model of an engine with this `neuron_config`."""
        additional = {} if neuron is None else {"neuron_config": neuron}
        return self.engine(additional, *architectures, **hf_config).model_config

    def cls(self, model_config: Any) -> str:
        """Return the class that vLLM would build for a model, as `"module:Class"`."""
        found, _ = importlib.import_module(LOADER).get_model_architecture(model_config)
        return f"{found.__module__}:{found.__qualname__}"

    def state(self, patch_id: str) -> str:
        """Return the state of a patch, with the reason for it."""
        (found,) = (each for each in self.status().patches if each.id == patch_id)
        return f"{found.state} {found.reason}".strip()


LLAMA = ("LlamaForCausalLM",)
ACME_MODEL = Model("LlamaForCausalLM", "acme.factory:LlamaForCausalLM", "llama3", "acme 1.0")


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of the stand-in for vLLM, by release; each has the package `acme` too."""
    folders = {version: tmp_path_factory.mktemp("vllm") for version in RELEASES}
    for version, folder in folders.items():
        for path, source in {**RELEASES[version], **ACME}.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(source), encoding="utf-8")
    return folders


@pytest.fixture
def stand_in(
    site: Path, releases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Return a function that has the stand-in for a release of vLLM on `sys.path`.

    What a test has written itself comes before it.
    """

    def names() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in ("vllm", "acme")]

    def stand_in(version: str) -> None:
        monkeypatch.setattr(sys, "path", [str(site), str(releases[version]), *sys.path])
        importlib.invalidate_caches()
        parsed.cache_clear()

    for name in names():
        monkeypatch.delitem(sys.modules, name)
    yield stand_in
    for name in names():
        del sys.modules[name]


@pytest.fixture
def vllm(
    stand_in: Callable[[str], None], factories: Factories, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Vllm]]:
    """Return a function that brings the layer into effect in the stand-in for a release of vLLM.

    The models that take part are the built-in ones, or those given.
    """
    monkeypatch.setenv(VARIABLE, "cpu")
    with ExitStack() as stack:

        def start(version: str = "0.32.0", *models: Model, select: str = "") -> Vllm:
            stand_in(version)
            sets = (*builtin_sets(), models_set(models or BUILTIN_MODELS))
            status = stack.enter_context(armed(*sets, vllm=version, select=select))
            made = Vllm(version, status, [])
            JOURNAL.trace_to(made)
            return made

        yield start
