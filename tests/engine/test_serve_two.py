"""`vllm serve --api-server-count 2`: two API servers in front of one engine."""

from collections.abc import Iterator

import pytest

from .conftest import Server, Vllm, read_trace

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def two_servers(vllm: Vllm) -> Iterator[Server]:
    """Two API servers in front of one engine."""
    with vllm.serve("serve-two", "--api-server-count", "2") as running:
        yield running


def test_both_api_servers_are_patched(two_servers: Server) -> None:
    """Each of two API servers has the front end's patch, and every answer is signed."""
    for _ in range(6):
        choice = two_servers.complete()
        assert choice["stop_reason"] == "acme"
        assert choice["token_ids"] == [7, 7, 7, 7]
    applied = {
        (line["process"], tuple(line["roles"]))
        for line in read_trace(two_servers.folder / "trace")
        if line["event"] == "apply" and line["patch"] == "acme/signed-answers"
    }
    assert {("ApiServer_0", ("api_server",)), ("ApiServer_1", ("api_server",))} <= applied


def test_each_api_server_logs_one_summary(two_servers: Server) -> None:
    """Each API server says once how it stands."""
    two_servers.complete()
    summaries = [line for line in two_servers.log.splitlines() if "waiting for an import" in line]
    for name in ("ApiServer_0 (api_server)", "ApiServer_1 (api_server)"):
        assert len([line for line in summaries if name in line]) == 1
