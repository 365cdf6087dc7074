"""Names that modules took from what is patched before it was: they follow, or it is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from .fake_vllm import FakeVllm
from .interpreters import Interpreter


def rebinds(folder: Path) -> list[tuple[str, str]]:
    """Return patch and detail of the trace lines about names."""
    (file,) = folder.iterdir()
    lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    return [(line["patch"], line["detail"]) for line in lines if line["event"] == "rebind"]


def test_late_activation(bare: Interpreter, target: Path, vllm: FakeVllm, tmp_path: Path) -> None:
    """Activated late, vLLM's own modules call what is patched under the names they took before."""
    trace = tmp_path / "trace"
    done = bare.execute(
        """
        import vllm.user
        from vllm.plugins import load_general_plugins
        load_general_plugins()
        print(vllm.user.ask(), vllm.limit(), vllm.first.limit())
        """,
        path=[target, *vllm.path],
        VLLM_GRAFT_TRACE=str(trace),
    )
    assert done.stdout == "2 2 2\n"
    assert sorted(rebinds(trace)) == [
        ("acme/limit", "vllm.user:limit"),
        ("acme/limit", "vllm:limit"),
    ]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("import program", id="program-imported-it-before-vllm"),
        pytest.param("import colorsys", id="vllm-takes-it-afterwards"),
    ],
)
def test_target_imported_before_vllm(installed: Interpreter, vllm: FakeVllm, before: str) -> None:
    """A target outside vLLM that the program has imported first is patched for everybody."""
    vllm.write("program.py", "from colorsys import rgb_to_yiq as convert\n")
    vllm.declare(
        """
        @patches.wrap("colorsys:rgb_to_yiq", **ABOUT)
        def convert(original, r, g, b):
            return ["patched", *original(r, g, b)]
        """
    )
    answer = installed.ask(
        f"""
        {before}
        import vllm
        import colorsys, program
        answer = [program.convert(0, 0, 0)[0], colorsys.rgb_to_yiq(0, 0, 0)[0]]
        """,
        path=vllm.path,
    )
    assert answer == ["patched", "patched"]


def test_other_holders(installed: Interpreter, vllm: FakeVllm, tmp_path: Path) -> None:
    """What stored the original elsewhere keeps it; `status()`, trace and one warning say so."""
    vllm.write("program.py", "import colorsys\nTABLE = {'convert': colorsys.rgb_to_yiq}\n")
    vllm.declare(
        """
        @patches.wrap("colorsys:rgb_to_yiq", **ABOUT)
        def convert(original, r, g, b):
            return ["patched", *original(r, g, b)]
        """
    )
    trace = tmp_path / "trace"
    done = installed.execute(
        """
        import program, vllm
        from vllm_graft import status
        print(program.TABLE["convert"](0, 0, 0)[0])
        print([note for each in status().patches for note in each.notes])
        """,
        path=vllm.path,
        VLLM_GRAFT_TRACE=str(trace),
    )
    left = "not touched, with the original: 1 container"
    assert done.stdout == f"0.0\n{[left]}\n"
    assert done.stderr.strip().endswith(f"patch 'acme/convert': {left}")
    assert done.stderr.count("\n") == 1
    assert rebinds(trace) == [("acme/convert", left)]


def test_circular_import(installed: Interpreter, vllm: FakeVllm) -> None:
    """A module that takes a name out of a half-executed one gets the patch when that is whole."""
    with (vllm.folder / "vllm" / "first.py").open("a") as file:
        file.write("from vllm import second\n")
    vllm.write("vllm/second.py", "from vllm.first import limit\nEARLY = limit\n")
    answer = installed.ask(
        "import vllm.second\nanswer = [vllm.second.limit(), vllm.second.EARLY()]", path=vllm.path
    )
    assert answer == [2, 2]
