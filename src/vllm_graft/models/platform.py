"""What models are to run on, as one word that factories choose by."""

import functools
import os
import re
import sys
from pathlib import Path
from typing import Any

from ..errors import ModelError, SettingError
from ..target import importable, load

VARIABLE = "VLLM_GRAFT_PLATFORM_TARGET"

_WORD = re.compile(r"[a-z0-9]+(?:[-._][a-z0-9]+)*")

_CPU = Path("/proc/cpuinfo")
# Made by the driver of Trainium and Inferentia; the file says, for example, "Trn2".
_NEURON = Path("/sys/devices/virtual/neuron_device/neuron0/info/architecture/instance_type")


def get_platform_target() -> str:
    """Return what models are to run on: a family, and where it is known what kind of it.

    `cpu`, `cuda-sm90`, `rocm-gfx942`, `trn2`, `trn3`, `npu-ascend910b3`, `xpu`, `tpu`, …; the
    family alone where the kind cannot be told without initialising a device.
    `VLLM_GRAFT_PLATFORM_TARGET` decides where it is set, else vLLM's current platform, whose module
    is imported for it.

    Raises `SettingError` where the variable is no such word, and `ModelError` where it is not set
    and vLLM cannot be imported.
    """
    given = os.environ.get(VARIABLE, "").strip().lower()
    if not given:
        try:
            from vllm.platforms import current_platform
        except ImportError as error:
            raise ModelError(
                f"the platform cannot be told, since vllm.platforms cannot be imported ({error}). "
                f"Set {VARIABLE}."
            ) from error
        platform: Any = type(current_platform)
        return _target_of(platform)
    if not _WORD.fullmatch(given):
        raise SettingError(
            f"{VARIABLE} is {given!r}. Name a platform, for example cpu, cuda-sm90 or trn2."
        )
    return given


def family(target: str) -> str:
    """Return the part of a platform target that all of its kinds share: `cuda` of `cuda-sm90`."""
    return target.partition("-")[0]


def cpu_has(flag: str) -> bool:
    """Tell whether the kernel lists a feature of this machine's CPU, such as `amx_tile`."""
    try:
        return f" {flag} " in _CPU.read_text().replace("\n", " ")
    except OSError:
        return False


@functools.cache
def _target_of(platform: Any) -> str:
    """Return the target of a class of `vllm.platforms`.

    Platforms from elsewhere are told by where they come from: that of vllm-neuron calls its
    device a CPU.
    """
    home = f"{platform.__module__}.{platform.__name__}".lower()
    if "neuron" in home:
        return _neuron()
    name = str(getattr(platform, "device_name", "") or platform.device_type).lower()
    return "-".join(filter(None, (name, _kind(name, platform))))


def _kind(name: str, platform: Any) -> str | None:
    if name == "cuda" and "NonNvml" not in platform.__name__:  # which would initialise CUDA
        capability = platform.get_device_capability()
        return f"sm{capability[0]}{capability[1]}" if capability is not None else None
    if name == "rocm":
        # What the module has found out already: "gfx942:sramecc+:xnack-".
        arch = getattr(sys.modules.get(platform.__module__), "_GCN_ARCH", "")
        return str(arch).partition(":")[0] or None
    if name == "npu" and importable("vllm_ascend._build_info"):
        return str(load("vllm_ascend._build_info:__soc_version__")).lower() or None
    return None


def _neuron() -> str:
    try:
        return _NEURON.read_text().strip().lower().partition(".")[0] or "neuron"
    except OSError:
        return "neuron"
