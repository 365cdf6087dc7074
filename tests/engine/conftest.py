"""A real vLLM engine, started as its users start it, with the package `acme` installed.

Test modules share out two processes, and engines start one at a time: beside one runs what asks
vLLM without an engine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from vllm_graft.demo.model import CONFIG, write_model

TESTS = Path(__file__).parents[1]
START_LIMIT = 400  # seconds; an engine start takes 45 to 90
ENGINE = FileLock(Path(tempfile.gettempdir()) / f"vllm-graft-engine-{os.getuid()}.lock")
"""Held by whoever has an engine: one needs the memory and most of the cores of a small machine."""


@dataclass(frozen=True)
class Outcome:
    """What one start of vLLM left behind."""

    code: int
    log: str
    trace: list[dict[str, Any]]
    answer: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def processes(self, event: str, patch: str) -> set[str]:
        """Return the names of the processes that traced an event of a patch.

        The model inspection subprocess has no name of its own and is told by its role.
        """
        return {
            "inspection" if line["roles"] == ["inspection"] else line["process"]
            for line in self.trace
            if line["event"] == event and line.get("patch") == patch
        }


@dataclass(frozen=True)
class Vllm:
    """Starts vLLM on a tiny model with random weights, each time with a trace of its own."""

    model: Path
    site: Path
    folder: Path

    def environment(self, trace: Path, extra: dict[str, str]) -> dict[str, str]:
        """Return the environment of a start: `acme` is installed, the caches are the tests' own.

        All starts share them, as they would on a machine.
        """
        inherited = {name: value for name, value in os.environ.items() if "VLLM" not in name}
        return {
            **inherited,
            "PYTHONPATH": str(self.site / "acme"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CACHE_ROOT": str(self.folder / "cache"),
            "VLLM_GRAFT_TRACE": str(trace),
            **extra,
        }

    def ask(self, name: str, env: dict[str, str] | None = None, **options: Any) -> Outcome:
        """Start an offline engine in a new process and ask it once."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        result = folder / "answer.json"
        result.unlink(missing_ok=True)
        script = [str(TESTS / "engine" / "ask.py"), str(self.model), str(result)]
        with ENGINE:
            return self._answered(folder, [*script, json.dumps(options)], env or {})

    def ask_model(self, name: str, model: Path, env: dict[str, str], **options: Any) -> Outcome:
        """Start an offline engine on a model with real weights, and ask it for much."""
        folder = self.folder / name
        folder.mkdir()
        script = [str(TESTS / "engine" / "ask_model.py"), str(model), str(folder / "answer.json")]
        path = os.pathsep.join((self.acme_model, str(TESTS / "engine")))
        environ = {"PYTHONPATH": path, "VLLM_GRAFT_PATCHES": "", **env}
        with ENGINE:
            return self._answered(folder, [*script, json.dumps(options)], environ)

    def configure(self, name: str, *cases: tuple[Path, Any], **env: str) -> Outcome:
        """Make configurations of models with a `neuron_config` each, in one process."""
        folder = self.folder / name
        folder.mkdir()
        asked = json.dumps([(str(model), neuron_config) for model, neuron_config in cases])
        script = [str(TESTS / "engine" / "configure.py"), str(folder / "answer.json"), asked]
        return self._answered(folder, script, {"PYTHONPATH": self.acme_model, **env})

    @property
    def acme_model(self) -> str:
        """The folder to put on PYTHONPATH for the package `acme_model`."""
        return str(self.site / "acme_model")

    def probe(self, name: str, *questions: str, **env: str) -> Outcome:
        """Call modules of vLLM without an engine, with the package `effects` installed."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        result = folder / "answer.json"
        script = [str(TESTS / "engine" / "probe.py"), str(result), *questions]
        return self._answered(folder, script, {"PYTHONPATH": self.effects, **env})

    def _answered(self, folder: Path, script: list[str], env: dict[str, str]) -> Outcome:
        """Run a script that writes its answer into a folder, and trace it there."""
        outcome = self.command([sys.executable, *script], folder / "trace", env)
        result = folder / "answer.json"
        answer = json.loads(result.read_text()) if result.exists() else {}
        return Outcome(outcome.code, outcome.log, outcome.trace, answer, outcome.seconds)

    @property
    def effects(self) -> str:
        """The folder to put on PYTHONPATH for the package `effects`, instead of `acme`."""
        return str(self.site / "effects")

    def command(self, command: list[str], trace: Path, env: dict[str, str]) -> Outcome:
        """Run a command to its end."""
        start = time.monotonic()
        done = subprocess.run(
            command,
            env=self.environment(trace, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_LIMIT,
            check=False,
        )
        seconds = time.monotonic() - start
        with (self.folder / "log").open("a") as log:  # for whoever looks into a failure
            log.write(f"== {command} {env} {done.returncode} {seconds:.0f} s\n{done.stdout}\n")
        return Outcome(done.returncode, done.stdout, read_trace(trace), seconds=seconds)

    @contextmanager
    def serve(self, name: str, *arguments: str, **env: str) -> Iterator["Server"]:
        """Run `vllm serve` until the block ends; it is answering when the block begins."""
        folder = self.folder / name
        folder.mkdir()
        port = free_port()
        command = [
            *(str(Path(sys.executable).parent / "vllm"), "serve", str(self.model)),
            *("--port", str(port), "--load-format", "dummy", "--dtype", "float32"),
            *("--enforce-eager", "--max-model-len", "128", "--max-num-seqs", "4"),
            *arguments,
        ]
        environ = self.environment(folder / "trace", env)
        with ENGINE:
            with (folder / "log").open("w") as log:
                process = subprocess.Popen(
                    command, env=environ, stdout=log, stderr=subprocess.STDOUT
                )
            server = Server(process, port, folder)
            try:
                server.wait_until_ready()
                yield server
            finally:
                server.stop()


@dataclass(frozen=True)
class Server:
    """A running `vllm serve`."""

    process: "subprocess.Popen[bytes]"
    port: int
    folder: Path

    @property
    def log(self) -> str:
        """What it has printed."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What its processes have traced."""
        return read_trace(self.folder / "trace")

    def wait_until_ready(self) -> None:
        """Wait until it answers; fail with its log when it ends before."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                pytest.fail(f"vllm serve ended with {self.process.returncode}:\n{self.log[-6000:]}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.5)
        pytest.fail(f"vllm serve was not ready in {START_LIMIT} s:\n{self.log[-6000:]}")

    def complete(self) -> dict[str, Any]:
        """Return the first choice of a completion of eight tokens."""
        body = {
            "prompt": [1, 5, 9, 13],
            "max_tokens": 8,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            choice: dict[str, Any] = json.load(response)["choices"][0]
        return choice

    def stop(self) -> None:
        """End it as an operator would."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def read_trace(folder: Path) -> list[dict[str, Any]]:
    """Return the trace lines of all processes, by time."""
    lines = [
        json.loads(line)
        for path in folder.glob("*.jsonl")
        for line in path.read_text().split("\n")[:-1]
    ]
    return sorted(lines, key=lambda line: line["ts"])


def free_port() -> int:
    """Return a TCP port that nobody listens on."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer with a word for each token of the model, which the API server needs."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {f"w{token}": token for token in range(int(str(CONFIG["vocab_size"])))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0"})
    )


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Vllm:
    """vLLM with the packages of tests/plugins installed beside it, one of them for each start."""
    folder = tmp_path_factory.mktemp("vllm")
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for package in ("acme", "acme_model", "effects"):
        options = ["--no-deps", "--no-build-isolation", "--target", str(site / package)]
        subprocess.run([*pip, *options, str(TESTS / "plugins" / package)], check=True)
    model = write_model(folder / "model")
    write_tokenizer(model)
    return Vllm(model, site, folder)


@pytest.fixture(scope="session")
def aliased(vllm: Vllm) -> Outcome:
    """An engine, not compiled, with two patches on its layers, and much-used functions wrapped.

    At the end of its start each process counts which modules have the originals of those.
    """
    (vllm.folder / "aliased").mkdir()
    return vllm.ask(
        "aliased",
        {
            "PYTHONPATH": vllm.effects,
            "VLLM_GRAFT_PATCHES": "aliased/*,effects/mlp,effects/wrap-op",
            "EFFECTS_FOLDER": str(vllm.folder / "aliased"),
        },
    )
