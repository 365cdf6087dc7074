"""A required patch that cannot land stops vLLM, soon and with everything one needs to know."""

import sys

import pytest

from .conftest import Outcome, Vllm

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def missing_name(vllm: Vllm) -> Outcome:
    """A required patch on a method that does not exist, in a module that EngineCore imports."""
    return vllm.ask("missing-name", {"ACME_BROKEN": "name"})


def test_a_missing_name_ends_the_engine(missing_name: Outcome) -> None:
    """The program ends by itself, with an error, and does not wait for a part that is gone."""
    assert missing_name.code not in (0, None)
    assert missing_name.answer == {}
    assert missing_name.seconds < 240  # of a start's 45 to 90, on a machine that does other things


@pytest.mark.parametrize(
    "part",
    [
        "patch 'acme/missing-name'",
        "vllm.v1.core.sched.scheduler:Scheduler.no_such_method",
        "_version.py)",
        "the patch is for >=0.27.1,<0.33",
        "patches.py:",
        "process: EngineCore (engine_core)",
        "VLLM_GRAFT_PATCHES=-acme/missing-name",
    ],
)
def test_the_message_is_complete(missing_name: Outcome, part: str) -> None:
    """Patch, target, version and its source, place, process and remedy are named."""
    assert part in missing_name.log


def test_the_failure_is_traced(missing_name: Outcome) -> None:
    """The trace has the failure, in the process that imported the target."""
    assert missing_name.processes("fail", "acme/missing-name") == {"EngineCore"}


def test_a_missing_module_ends_the_import(vllm: Vllm) -> None:
    """A module that this vLLM does not have is an error when vLLM is imported."""
    done = vllm.command(
        [sys.executable, "-c", "import vllm"], vllm.folder / "module", {"ACME_BROKEN": "module"}
    )
    assert done.code != 0
    assert "patch 'acme/missing-module'" in done.log
    assert "this vLLM has no module 'vllm.no_such_module'" in done.log


def test_an_excluded_patch_does_not_stop_vllm(vllm: Vllm) -> None:
    """The way out that the message names works."""
    done = vllm.command(
        [sys.executable, "-c", "import vllm"],
        vllm.folder / "excluded",
        {"ACME_BROKEN": "module", "VLLM_GRAFT_PATCHES": "-acme/missing-module"},
    )
    assert done.code == 0, done.log


def test_half_a_feature_is_taken_back(vllm: Vllm) -> None:
    """Of two patches that belong together the one in the front end goes when EngineCore's fails."""
    halves = vllm.ask("halves", {"ACME_BROKEN": "pair"})
    assert halves.code == 0, halves.log[-6000:]
    assert halves.answer["stop_reason"] == "acme"
    assert halves.processes("apply", "acme/front-half") == {"MainProcess"}
    assert halves.processes("fail", "acme/core-half") == {"EngineCore"}
    (front,) = [
        each for each in halves.answer["status"]["patches"] if each["id"] == "acme/front-half"
    ]
    assert front["state"] == "failed"
    assert "'acme/core-half' failed (EngineCore, pid" in front["reason"]
    assert "'acme/front-half' is not in effect here" in halves.log
