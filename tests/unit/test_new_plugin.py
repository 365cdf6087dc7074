"""A plugin as hardware vendors write them: patch files in folders, and one list of reasons."""

from pathlib import Path
from textwrap import dedent

import pytest

from .old_files import Workshop, changes

PLUGIN = {
    "__init__.py": "",
    "ops.py": """
        class PaddedPlain:
            def who(self):
                return "padded"
        """,
    "patch/__init__.py": """
        # What is patched, and why. Keep this list up to date!
        #
        # ** File: platform/patch_core.py **
        #   ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
        #   1. `vllm.core.area`
        #    Why:
        #       Areas must be multiples of eight
        #       on our cores.
        #    How:
        #       Round them up.
        #    Related PR (if no, explain why):
        #       No, other hardware has other sizes.
        #    Future Plan:
        #       Remove it when vLLM asks the platform.
        #
        # ** File: worker/patch_engine.py **
        #   ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
        #   1. `vllm.core.Engine.step`
        #    Why:
        #       Steps are counted by us.
        #    How\uff1a
        #       Count them, and go on.
        #    Related PR (if no, explain why):
        #       https://example.org/pull/2
        #    Future Plan:
        #       Remove it with the next release.
        #   2. `vllm.core.Plain`
        #    Why:
        #       Ours is padded.
        """,
    "patch/platform/__init__.py": "from . import patch_core\n",
    "patch/platform/patch_core.py": """
        import vllm.core

        _area = vllm.core.area


        def area_of_eights(width, height=2):
            return -(-_area(width, height) // 8) * 8


        vllm.core.area = area_of_eights
        vllm.core.LIMIT = 64
        """,
    "patch/worker/__init__.py": "from . import patch_engine\n",
    "patch/worker/patch_engine.py": """
        import vllm.api
        import vllm.core
        from vllm.core import Engine

        from vendor.ops import PaddedPlain
        from vendor.patch.platform.patch_core import area_of_eights

        counted = []
        original_step = Engine.step


        def counting_step(self, *args, **kwargs):
            counted.append(area_of_eights(1))
            return original_step(self, *args, **kwargs) + f", {len(counted)} counted"


        Engine.step = counting_step
        vllm.core.Plain = PaddedPlain
        vllm.api.Plain = PaddedPlain
        for name in ("x", "y"):
            vllm.core.TABLE[name] = 0
        """,
}


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VLLM_GRAFT", "0")
    made = Workshop(tmp_path)
    for path, text in PLUGIN.items():
        file = tmp_path / "plugin" / "vendor" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    made.old("import vendor.patch.platform, vendor.patch.worker\n", "apply_all.py")
    return made


def test_a_plugin_becomes_a_package_that_does_the_same(workshop: Workshop) -> None:
    """`wrap` where nobody else calls the function: another file of the plugin calls the first."""
    folder = workshop.folder / "plugin" / "vendor" / "patch"
    files = [folder / "platform" / "patch_core.py", folder / "worker" / "patch_engine.py"]
    done = workshop.translated(*files)
    assert [f"{each.operation} {each.target}" for each in done.declarations] == [
        "replace vllm.core:area",
        "set vllm.core:LIMIT",
        "wrap vllm.core:Engine.step",
        "replace vllm.core:Plain",
        "run vllm.core",
    ]
    asked = workshop.run_old(workshop.folder / "plugin" / "apply_all.py")
    assert workshop.run_new(done) == asked
    assert workshop.failed == []
    assert set(changes(asked, workshop.run_nothing())) == {
        *("area", "area with height", "api_area", "LIMIT"),
        *("step", "step 3", "plain", "plain of the api", "TABLE"),
    }


def test_the_list_of_reasons_is_taken_over(workshop: Workshop) -> None:
    folder = workshop.folder / "plugin" / "vendor" / "patch"
    files = [folder / "platform" / "patch_core.py", folder / "worker" / "patch_engine.py"]
    area, limit, step, plain, _ = workshop.translated(*files).declarations
    assert area.reasons.why == "Areas must be multiples of eight on our cores."
    assert area.reasons.remove == "Remove it when vLLM asks the platform."
    assert step.reasons.upstream == "https://example.org/pull/2"
    assert (plain.reasons.why, plain.reasons.how) == ("Ours is padded.", "")
    assert limit.reasons.why == ""
