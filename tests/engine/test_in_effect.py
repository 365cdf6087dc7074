"""Applied means in effect: layers in compiled forwards, configs, classes, aliases, cache keys."""

import json
import sys

import pytest

from .conftest import Outcome, Vllm

KINDS = ("function", "method", "static", "op")
LOADED = "Directly load AOT compilation from path"


def states(outcome: Outcome) -> dict[str, str]:
    """Return the state of each patch in the process that wrote the answer."""
    return {each["id"]: each["state"] for each in outcome.answer["status"]["patches"]}


@pytest.fixture(scope="module")
def plain(vllm: Vllm) -> Outcome:
    """vLLM's modules without any of our patches but the layer's own."""
    return vllm.probe(
        "probe-plain",
        "environment",
        "layers",
        "configs",
        VLLM_GRAFT_PATCHES="-effects/*,-aliased/*",
    )


@pytest.fixture(scope="module")
def wrapped(vllm: Vllm) -> Outcome:
    """vLLM's modules with everything wrapped."""
    return vllm.probe(
        "probe-wrapped",
        *("environment", "layers", "configs", "classes"),
        VLLM_GRAFT_PATCHES="effects/*,-effects/replace-*",
    )


@pytest.fixture(scope="module")
def replaced(vllm: Vllm) -> Outcome:
    """vLLM's modules with the layer functions replaced."""
    return vllm.probe("probe-replaced", "layers", VLLM_GRAFT_PATCHES="effects/replace-*")


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrap_is_in_effect(plain: Outcome, wrapped: Outcome, kind: str, way: str) -> None:
    """Called inside of a compiled forward or plainly, the wrapped layer gives the double."""
    assert wrapped.code == 0, wrapped.log[-3000:]
    before, after = (each.answer["layers"][kind][way] for each in (plain, wrapped))
    assert after == pytest.approx([2 * value for value in before])
    assert any(before)


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_replacement_is_in_effect(replaced: Outcome, kind: str, way: str) -> None:
    """Called inside of a compiled forward or plainly, the replacement gives sevens."""
    assert replaced.code == 0, replaced.log[-3000:]
    assert set(replaced.answer["layers"][kind][way]) == {7.0}


@pytest.mark.parametrize(
    ("question", "before", "after"),
    [
        ("extension", ["", ""], ["effects.Extension"] * 2),
        ("engine_args", "", "effects.Extension"),
        ("load", [None, None], ["effects", "effects"]),
        ("parallel", [None] * 3, ["post-init"] * 3),
        ("validated", [None, None], ["effects", "effects"]),
        ("refused", True, True),
    ],
)
def test_patches_of_configs_are_in_effect(
    plain: Outcome, wrapped: Outcome, question: str, before: object, after: object
) -> None:
    """A default, a `__post_init__`, a validator: in the config itself, nested and from a dict."""
    assert plain.answer["configs"][question] == before
    assert wrapped.answer["configs"][question] == after


def test_a_default_of_a_constrained_field_is_in_effect(plain: Outcome, wrapped: Outcome) -> None:
    """The default of a field that pydantic describes changes, alone and nested."""
    assert 64 not in plain.answer["configs"]["cache"]
    assert wrapped.answer["configs"]["cache"] == [64, 64]


def test_a_subclass_stands_under_the_name_of_its_original(wrapped: Outcome) -> None:
    """Those who import the class later get the subclass, and pickle finds it."""
    assert wrapped.answer["classes"] == {
        "signature": "effects",
        "name": "vllm.v1.core.block_pool:BlockPool",
        "alias": True,
        "pickled": True,
    }


@pytest.mark.once
def test_without_patches_the_keys_are_those_of_vllm(vllm: Vllm, plain: Outcome) -> None:
    """A layer without any patch selected, traced or not, changes no key of a cache."""
    off = vllm.probe("probe-off", "environment", VLLM_GRAFT="0", VLLM_GRAFT_TRACE="")
    assert off.answer["environment"] == plain.answer["environment"]


def test_the_keys_tell_patches_apart(plain: Outcome, wrapped: Outcome) -> None:
    """Compile factors, ahead-of-time key, model-info file and a given cache folder differ."""
    before, after = plain.answer["environment"], wrapped.answer["environment"]
    fingerprint = after["factors"].pop("VLLM_GRAFT_FINGERPRINT")
    assert after["factors"] == before["factors"]
    assert after["aot"] != before["aot"]
    assert after["model_info"] == before["model_info"].replace(".json", f"-{fingerprint}.json")
    assert before["cache_dir"] == "given"
    assert after["cache_dir"] == f"given/{fingerprint}"
    assert not after["disabled"]


@pytest.mark.once
def test_where_the_key_cannot_be_had_the_cache_is_off(vllm: Vllm) -> None:
    """On a vLLM that is too new for the built-in patches, patches switch the compile cache off."""
    new = vllm.probe(
        "probe-new", "environment", VLLM_VERSION="0.40.0", VLLM_GRAFT_PATCHES="effects/wrap-op"
    )
    assert new.answer["environment"]["disabled"]
    assert not new.answer["environment"]["aot_enabled"]
    assert new.log.count("compile cache is off for this run") == 1


@pytest.mark.once
def test_no_name_keeps_an_original(vllm: Vllm, aliased: Outcome) -> None:
    """When an engine has started, no module of any process has one of 20 much-used originals."""
    assert aliased.code == 0, aliased.log[-6000:]
    for process in ("MainProcess", "EngineCore", "VllmWorker-0"):
        counts = json.loads((vllm.folder / "aliased" / f"{process}.json").read_text())
        assert len(counts) >= 20
        assert {patch: old for patch, (old, _) in counts.items() if old} == {}
        assert sum(new for _, new in counts.values()) > 200


@pytest.mark.once
def test_nothing_had_to_be_rebound(aliased: Outcome) -> None:
    """Armed before the import, patches are what other modules take, but for circular imports."""
    assert [line for line in aliased.trace if line["event"] == "rebind"] == []


def test_a_module_that_runs_as_main_is_said_to_be_out_of_reach(vllm: Vllm) -> None:
    """`python -m` runs a module under another name, where its patches do not reach it."""
    module = "vllm.entrypoints.openai.api_server"
    outcome = vllm.command(
        [sys.executable, "-m", module, "--help"],
        vllm.folder / "as-main",
        {"PYTHONPATH": vllm.effects, "VLLM_GRAFT_PATCHES": "effects/server"},
    )
    assert outcome.code == 0, outcome.log[-3000:]
    (skip,) = [
        line
        for line in outcome.trace
        if line["event"] == "skip" and line["patch"] == "effects/server" and "-m" in line["detail"]
    ]
    assert f"python -m {module}" in skip["detail"]
    assert "does not reach" in outcome.log or "do not reach" in outcome.log
