"""The compile cache with patches: what was compiled without them is not served with them."""

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Outcome, Vllm

pytestmark = pytest.mark.once

LOADED = "Directly load AOT compilation from path"
BROKEN = "has no attribute 'finalize_loading'"
PATCHED = {"VLLM_GRAFT_PATCHES": "effects/mlp,effects/wrap-op,vllm-cpu/*"}
UNPATCHED = {"VLLM_GRAFT_PATCHES": "vllm-cpu/*"}


@pytest.fixture(scope="module")
def start(vllm: Vllm) -> Callable[..., Outcome]:
    """Starts with compilation and one cache, kept from start to start."""

    def ask(env: dict[str, str], **options: Any) -> Outcome:
        environ = {"PYTHONPATH": vllm.effects, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", **env}
        outcome = vllm.ask("compiled", environ, **{"enforce_eager": False, **options})
        assert outcome.code == 0, outcome.log[-6000:]
        return outcome

    return ask


@pytest.fixture(scope="module")
def cold(start: Callable[..., Outcome]) -> Outcome:
    """The first start, without the layer; vLLM saves what it has compiled."""
    outcome = start({"VLLM_GRAFT": "0"})
    assert LOADED not in outcome.log
    return outcome


@pytest.fixture(scope="module")
def patched(start: Callable[..., Outcome], cold: Outcome) -> Outcome:
    """The first start with patches, beside what was compiled without them."""
    return start(PATCHED)


def test_the_layer_alone_loads_what_vllm_saved(
    start: Callable[..., Outcome], cold: Outcome
) -> None:
    """Without patches the key is vLLM's own, and with the set `vllm-cpu` the artifact is loaded."""
    warm = start(UNPATCHED)
    assert LOADED in warm.log
    assert BROKEN not in warm.log
    assert warm.answer["tokens"] == cold.answer["tokens"]


def test_patches_compile_anew(cold: Outcome, patched: Outcome) -> None:
    """What was compiled without the patches is not served with them: other tokens come out."""
    assert LOADED not in patched.log
    assert patched.answer["tokens"] != cold.answer["tokens"]


def test_each_selection_loads_what_it_compiled(
    start: Callable[..., Outcome], cold: Outcome, patched: Outcome
) -> None:
    """With both in the cache, each gets its own tokens; with patches those of an eager start."""
    again = start(PATCHED)
    assert LOADED in again.log
    eager = start(PATCHED, enforce_eager=True)
    assert again.answer["tokens"] == patched.answer["tokens"] == eager.answer["tokens"]
    unpatched = start(UNPATCHED)
    assert LOADED in unpatched.log
    assert unpatched.answer["tokens"] == cold.answer["tokens"]
