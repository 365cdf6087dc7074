"""The word for what models are to run on: from the environment, else from vLLM's platform.

The platforms are fakes with the names, attributes and modules of the real ones, none of whose
devices is here; whatever would initialise one raises.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vllm_graft.errors import ModelError, SettingError
from vllm_graft.models import family, get_platform_target, platform
from vllm_graft.models.platform import VARIABLE

Write = Callable[[str, str], Path]
Now = Callable[..., str]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """Return a function that returns the target where a platform is vLLM's current one."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(platform, "_NEURON", Path("/no/such/device"))

    def never(*_: object) -> Any:
        raise AssertionError("it initialises a device")

    def now(home: str, **attributes: Any) -> str:
        module, _, name = home.rpartition(".")
        given = {"get_device_capability": never, "get_device_name": never, **attributes}
        cls = type(name, (), {"__module__": module, **given})
        vllm, platforms = ModuleType("vllm"), ModuleType("vllm.platforms")
        vars(vllm)["platforms"] = platforms
        vars(platforms)["current_platform"] = cls()
        monkeypatch.setitem(sys.modules, "vllm", vllm)
        monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
        return get_platform_target()

    return now


def capability(*version: int) -> Any:
    """Return `get_device_capability` of a device, None for one that does not tell."""
    return classmethod(lambda cls: version or None)


@pytest.mark.parametrize(
    ("home", "attributes", "expected"),
    [
        ("vllm.platforms.cpu.CpuPlatform", {"device_name": "cpu", "device_type": "cpu"}, "cpu"),
        ("vllm.platforms.zen_cpu.ZenCpuPlatform", {"device_name": "cpu"}, "cpu"),
        ("vllm.platforms.xpu.XPUPlatform", {"device_name": "xpu", "device_type": "xpu"}, "xpu"),
        ("vllm.platforms.tpu.TpuPlatform", {"device_name": "tpu", "device_type": "tpu"}, "tpu"),
        # NVML tells without CUDA; without NVML, CUDA itself would be asked
        (
            "vllm.platforms.cuda.NvmlCudaPlatform",
            {"device_name": "cuda", "get_device_capability": capability(9, 0)},
            "cuda-sm90",
        ),
        (
            "vllm.platforms.cuda.NvmlCudaPlatform",
            {"device_name": "cuda", "get_device_capability": capability(12, 1)},
            "cuda-sm121",
        ),
        (
            "vllm.platforms.cuda.NvmlCudaPlatform",
            {"device_name": "cuda", "get_device_capability": capability()},
            "cuda",
        ),
        ("vllm.platforms.cuda.NonNvmlCudaPlatform", {"device_name": "cuda"}, "cuda"),
        # ROCm's device type is "cuda"
        (
            "vllm.platforms.rocm.RocmPlatform",
            {"device_name": "rocm", "device_type": "cuda"},
            "rocm",
        ),
        # without a name, as platforms from elsewhere may be
        ("acme.platform.AcmePlatform", {"device_type": "Acme"}, "acme"),
        ("acme.platform.AcmePlatform", {"device_name": "", "device_type": "acme"}, "acme"),
        # Neuron calls its device a CPU: it is told by its module or its class
        ("vllm_neuron.platform.Platform", {"device_name": "cpu"}, "neuron"),
        ("elsewhere.platform.NeuronPlatform", {"device_type": "cpu"}, "neuron"),
        ("vllm_ascend.platform.NPUPlatform", {"device_name": "npu"}, "npu"),
    ],
)
def test_a_platform_and_its_word(
    now: Now, home: str, attributes: dict[str, Any], expected: str
) -> None:
    """The family, and the kind where that is known without initialising anything."""
    assert now(home, **attributes) == expected


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("gfx942:sramecc+:xnack-", "rocm-gfx942"),
        ("gfx1100", "rocm-gfx1100"),
        ("", "rocm"),
        (None, "rocm"),
    ],
)
def test_rocm_is_told_by_what_its_module_has_found_out(
    now: Now, monkeypatch: pytest.MonkeyPatch, arch: str | None, expected: str
) -> None:
    """vLLM before 0.17 has not found it out, and is not made to."""
    home = ModuleType("vllm.platforms.rocm")
    if arch is not None:
        vars(home)["_GCN_ARCH"] = arch
    monkeypatch.setitem(sys.modules, home.__name__, home)

    assert now("vllm.platforms.rocm.RocmPlatform", device_name="rocm") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Trn2\n", "trn2"),
        ("trn3", "trn3"),
        ("Inf2\n", "inf2"),
        ("trn2.48xlarge\n", "trn2"),
        ("\n", "neuron"),
    ],
)
def test_neuron_is_told_by_its_driver(
    now: Now, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: str
) -> None:
    """The driver's file says which; nothing of Neuron's is imported."""
    file = tmp_path / "instance_type"
    file.write_text(text)
    now("vllm.platforms.cpu.CpuPlatform", device_name="cpu")
    monkeypatch.setattr(platform, "_NEURON", file)

    assert now("vllm_neuron.platform.NeuronPlatform", device_name="cpu") == expected


@pytest.mark.parametrize(("version", "expected"), [("ASCEND910B3", "npu-ascend910b3"), ("", "npu")])
def test_ascend_is_told_by_its_build(now: Now, write: Write, version: str, expected: str) -> None:
    """vllm-ascend is built for one kind, and says so in a module that imports nothing."""
    write("vllm_ascend/__init__.py", "")
    write("vllm_ascend/_build_info.py", f"__soc_version__ = {version!r}\n")

    assert now("vllm_ascend.platform.NPUPlatform", device_name="npu") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("trn2", "trn2"),
        (" TRN3 ", "trn3"),
        ("cuda-sm90", "cuda-sm90"),
        ("rocm-gfx942", "rocm-gfx942"),
        ("npu-ascend910b3", "npu-ascend910b3"),
        ("a.b_c-d", "a.b_c-d"),
        ("", "cpu"),
        ("  ", "cpu"),
    ],
)
def test_the_variable_decides_where_it_is_set(
    now: Now, monkeypatch: pytest.MonkeyPatch, given: str, expected: str
) -> None:
    """Any word, so that a platform that vLLM does not know can be named too."""
    now("vllm.platforms.cpu.CpuPlatform", device_name="cpu")
    monkeypatch.setenv(VARIABLE, given)

    assert get_platform_target() == expected


@pytest.mark.parametrize("given", ["cuda sm90", "-cpu", "cpu-", "cuda--sm90", "trn2/x", "é"])
def test_a_variable_that_is_no_word(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """The error shows it and says what it may be."""
    monkeypatch.setenv(VARIABLE, given)

    with pytest.raises(SettingError) as caught:
        get_platform_target()
    assert repr(given) in str(caught.value)
    assert "Name a platform, for example cpu, cuda-sm90 or trn2" in str(caught.value)


def test_vllm_is_not_asked_where_the_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its platforms import torch."""
    monkeypatch.setenv(VARIABLE, "trn2")
    monkeypatch.setitem(sys.modules, "vllm.platforms", None)  # importing it raises

    assert get_platform_target() == "trn2"
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ModelError, match=f"Set {VARIABLE}"):
        get_platform_target()


@pytest.mark.parametrize(
    ("target", "expected"),
    [("cuda-sm90", "cuda"), ("cpu", "cpu"), ("npu-ascend910b3", "npu"), ("a-b-c", "a")],
)
def test_a_family_is_what_all_of_its_kinds_share(target: str, expected: str) -> None:
    """Where only the kind differs, factories need not name each."""
    assert family(target) == expected
