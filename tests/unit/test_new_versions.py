"""Old files against several vLLMs: what is declared for which version, and what is said of it."""

from pathlib import Path

import pytest
from packaging.version import Version

from vllm_graft.errors import NewPackageError, SourceError
from vllm_graft.new.ranges import covering

from .old_files import VLLM, Workshop

AREA = """
    import vllm.core as core

    def area(width, height=2):
        return "ours"

    core.area = area
    """


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VLLM_GRAFT", "0")
    return Workshop(tmp_path)


@pytest.mark.parametrize(
    ("versions", "specifier"),
    [
        (["0.32.0"], "==0.32.*"),
        (["0.32.0", "0.32.1"], "==0.32.*"),
        (["0.33.0rc1"], "==0.33.*"),
        (["0.31.0", "0.32.0"], ">=0.31,<0.33"),
        (["0.32.0", "0.27.1", "0.30.0"], ">=0.27,<0.33,!=0.28.*,!=0.29.*,!=0.31.*"),
        (["0.32.0", "1.0.0", "1.2.0"], ">=1.0,<1.3,!=1.1.*"),
    ],
)
def test_a_range_covers_what_was_checked(versions: list[str], specifier: str) -> None:
    assert covering(map(Version, versions)) == specifier


def test_a_target_that_is_the_same_has_one_range(workshop: Workshop) -> None:
    older = workshop.other_vllm("0.30.0")
    done = workshop.translated(workshop.old(AREA), vllm=(older, workshop.vllm))
    (declaration,) = done.declarations
    assert (declaration.target, declaration.vllm) == ("vllm.core:area", ">=0.30,<0.33,!=0.31.*")


def test_a_definition_that_has_moved_is_named_for_each_version(workshop: Workshop) -> None:
    """The file names where both have the class; the declaration says where each defines it."""
    older = workshop.other_vllm(
        "0.31.0", api="class Engine:\n    def step(self, count=1): return 1\n"
    )
    file = workshop.old("""
        from vllm.api import Engine

        def step(self, count=1):
            return "ours"

        Engine.step = step
        """)
    done = workshop.translated(file, vllm=(older, workshop.vllm))
    (declaration,) = done.declarations
    assert declaration.target == "vllm.core:Engine.step ==0.32.* | vllm.api:Engine.step ==0.31.*"
    assert workshop.run_new(done)["step"] == repr("ours")


def test_a_version_that_lacks_the_target_is_left_out_of_the_range(workshop: Workshop) -> None:
    older = workshop.other_vllm("0.31.0", core="TABLE = {}\n")
    file = workshop.old("""
        import vllm.core as core

        original = core.area

        def area(width, height=2):
            return original(width, height) + 1

        core.area = area
        """)
    (declaration,) = workshop.translated(file, vllm=(older, workshop.vllm)).declarations
    assert (declaration.operation, declaration.vllm) == ("wrap", "==0.32.*")
    assert "Not in vLLM 0.31.0: vllm.core has no 'area'." in declaration.comments


def test_a_target_that_has_moved_is_declared_as_written_with_its_new_place(
    workshop: Workshop,
) -> None:
    newer = workshop.other_vllm("0.33.0", core="TABLE = {}\n", shapes=VLLM["core.py"])
    (declaration,) = workshop.translated(workshop.old(AREA), vllm=(newer,)).declarations
    assert (declaration.operation, declaration.target) == ("replace", "vllm.core:area")
    assert declaration.vllm == "==0.33.*"
    assert any("it may be 'vllm.shapes:area' now" in each for each in declaration.comments)


def test_a_module_that_is_gone_is_declared_as_written(workshop: Workshop) -> None:
    file = workshop.old("import vllm.gone as gone\ndef f(): ...\ngone.f = f\n")
    (declaration,) = workshop.translated(file).declarations
    assert (declaration.operation, declaration.target) == ("replace", "vllm.gone:f")
    assert "Not in vLLM 0.32.0: there is no module vllm.gone." in declaration.comments


def test_a_target_outside_vllm_is_declared_and_not_checked(workshop: Workshop) -> None:
    file = workshop.old("import torch\ntorch.cuda.Event = object\n")
    (declaration,) = workshop.translated(file).declarations
    assert (declaration.operation, declaration.target) == ("set", "torch:cuda.Event")
    assert "It is outside of vLLM: not checked." in declaration.comments


def test_what_the_file_goes_on_without_is_not_required(workshop: Workshop) -> None:
    file = workshop.old("""
        import os
        import vllm.core as core
        try:
            core.LIMIT = 1
        except AttributeError:
            pass
        if os.environ.get("ACME") == "1":
            core.TABLE = None
        """)
    limit, table = workshop.translated(file).declarations
    assert (limit.required, limit.when) == (False, "")
    assert (table.required, table.when) == (True, 'environment.environ.get("ACME") == "1"')


@pytest.mark.parametrize("version", ["dev", "0.1.dev1", "0.0.1"])
def test_a_vllm_that_does_not_tell_its_version_is_refused(workshop: Workshop, version: str) -> None:
    unknown = workshop.other_vllm(version)
    with pytest.raises(SourceError, match=r"is unknown .* Name a release"):
        workshop.translated(workshop.old(AREA), vllm=(unknown,))


def test_two_files_that_would_be_one_module_are_refused(workshop: Workshop) -> None:
    first, second = workshop.old(AREA, "a-b.py"), workshop.old(AREA, "a_b.py")
    with pytest.raises(NewPackageError, match=r"both be the module 'a_b'\. Rename one"):
        workshop.translated(first, second)


def test_several_files_become_one_set(workshop: Workshop) -> None:
    """Ids are told apart, and a file that imports another one imports its copy."""
    (workshop.folder / "plugin").mkdir()
    (workshop.folder / "plugin" / "__init__.py").touch()
    first = workshop.old(AREA, "first.py")
    second = workshop.old(
        """
        import vllm.other
        from .first import area
        from plugin.first import area as same

        def other():
            return area(1)

        vllm.other.other = other
        vllm.core.Plain.who = lambda self: same(1)
        """,
        "second.py",
    )
    done = workshop.translated(first, second)
    assert "from acme_vllm.impl.first import area\n" in done.copies["src/acme_vllm/impl/second.py"]
    answers = workshop.run_new(done)
    assert (answers["other"], answers["plain"]) == (repr("ours"), repr("ours"))
    assert workshop.failed == []


def test_of_two_files_that_claim_a_target_the_later_wins(workshop: Workshop) -> None:
    """As it would if both were imported in that order; a set cannot have both."""
    first = workshop.old(AREA, "first.py")
    second = workshop.old(AREA.replace('"ours"', '"theirs"'), "second.py")
    done = workshop.translated(first, second)
    (declaration,) = done.declarations
    assert declaration.implementation == '"acme_vllm.impl.second:area"'
    assert "second.py:7 assigns the same target afterwards" in done.left[0]
    assert workshop.run_new(done) == workshop.run_old(first, second)


def test_originals_that_two_files_call_make_a_chain(workshop: Workshop) -> None:
    text = """
        from vllm.core import Engine

        original = Engine.step

        def step(self, count=1):
            return "{} " + original(self, count)

        Engine.step = step
        """
    files = [workshop.old(text.replace("{}", name), f"{name}.py") for name in ("first", "second")]
    done = workshop.translated(*files)
    assert [each.operation for each in done.declarations] == ["wrap", "wrap"]
    assert workshop.run_new(done)["step"] == workshop.run_old(*files)["step"]


def test_what_a_copy_imports_from_its_old_package_is_told(workshop: Workshop) -> None:
    (workshop.folder / "plugin").mkdir()
    (workshop.folder / "plugin" / "__init__.py").touch()
    workshop.old("def area(width, height=2): return 'ours'\n", "ops.py")
    file = workshop.old("import vllm.core\nfrom .ops import area\nvllm.core.area = area\n")
    done = workshop.translated(file)
    assert done.left == [
        "old_patch.py:2: `from .ops import area`: the copy imports from plugin.ops still, which "
        "has to be installed"
    ]
    assert workshop.run_new(done)["area"] == repr("ours")
