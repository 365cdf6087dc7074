"""pip's isolated builds, whose interpreters process our .pth but do not see our package."""

from pathlib import Path

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter

# A back end in the source tree: it needs nothing that would have to be downloaded. What `probe`
# does is what builds of vLLM plugins do to find out which vLLM they are built for.
BACKEND = """
import zipfile

def build_wheel(directory, settings=None, metadata=None):
    {probe}
    name = "trivial-1.0-py3-none-any.whl"
    info = "trivial-1.0.dist-info"
    with zipfile.ZipFile(f"{{directory}}/{{name}}", "w") as archive:
        archive.writestr("trivial.py", "")
        text = "Metadata-Version: 2.1\\nName: trivial\\nVersion: 1.0"
        archive.writestr(f"{{info}}/METADATA", text)
        archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any")
        archive.writestr(f"{{info}}/RECORD", "")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
PROBES = {
    "nothing": "pass",
    "find-spec": "import importlib.util; assert importlib.util.find_spec('vllm') is None",
    "optional-import": "\n".join(
        (
            "try:",
            "        import vllm",
            "    except ModuleNotFoundError as error:",
            "        assert error.name == 'vllm', error",
        )
    ),
    "import-of-a-vllm": "import sys; sys.path.insert(0, {folder!r}); import vllm",
}


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_isolated_build(installed: Interpreter, vllm: FakeVllm, tmp_path: Path, probe: str) -> None:
    """A package builds in isolation as without the layer, also where it asks for vLLM."""
    source = tmp_path / "trivial"
    source.mkdir()
    (source / "pyproject.toml").write_text(PYPROJECT)
    code = probe.format(folder=str(vllm.folder))
    (source / "backend.py").write_text(BACKEND.format(probe=code))
    installed.pip("wheel", "--no-deps", "--wheel-dir", tmp_path / "built", source)
    assert [file.name for file in (tmp_path / "built").iterdir()] == [
        "trivial-1.0-py3-none-any.whl"
    ]
