"""Locked patches on a real engine: in effect as long as all is as it was locked, and not after."""

import re
import sys
from pathlib import Path

import pytest

from .conftest import Outcome, Vllm

pytestmark = pytest.mark.once

REFUSED = "patch 'acme/always-seven' does not run, as VLLM_GRAFT_LOCK=require asks: "


@pytest.fixture(scope="module")
def lock(vllm: Vllm) -> Path:
    """The lock of `acme`, made for the installed vLLM."""
    file = vllm.folder / "graft.lock"
    command = str(Path(sys.executable).parent / "vllm-graft")
    fitting = "acme/*,-acme/*-half,-acme/missing-*"  # of those that are in effect
    asked = ["lock", "--vllm", "installed", "--select", fitting, "--output", str(file)]
    made = vllm.command([command, *asked], vllm.folder / "lock-trace", {})
    assert made.code == 0, made.log
    return file


@pytest.fixture(scope="module")
def locked(vllm: Vllm, lock: Path) -> Outcome:
    return vllm.ask("locked", {"VLLM_GRAFT_LOCK": f"require:{lock}"})


def test_patches_that_are_as_locked_change_the_answer(locked: Outcome) -> None:
    assert locked.code == 0, locked.log[-6000:]
    assert locked.answer["tokens"] == [7, 7, 7, 7]
    assert locked.answer["stop_reason"] == "acme"


def test_the_built_in_patches_are_as_the_lock_that_ships_with_them(locked: Outcome) -> None:
    """They are compared as well, with what the installed distribution has."""
    skips = [line for line in locked.trace if line["event"] == "skip"]
    assert skips
    assert [line for line in skips if "graft.lock" in line["detail"]] == []
    assert locked.processes("apply", "vllm-graft/compile-factors") > {"EngineCore", "VllmWorker-0"}


def test_a_target_with_another_body_stops_vllm(vllm: Vllm, lock: Path) -> None:
    """The body in the lock is edited, as that of an edited vLLM would differ from it."""
    text = lock.read_text()
    entry = re.search(r'"acme/always-seven"\.targets\]\].*?body = "(\w+)"', text, re.DOTALL)
    assert entry is not None
    other = lock.with_name("other.lock")
    other.write_text(text.replace(f'body = "{entry[1]}"', 'body = "0000000000000000"'))
    refused = vllm.ask("refused", {"VLLM_GRAFT_LOCK": f"require:{other}"})
    assert refused.code != 0
    assert f"{REFUSED}the body of " in refused.log
    assert "once that is reviewed: vllm-graft lock" in refused.log
    assert refused.answer == {}
