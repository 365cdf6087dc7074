"""`vllm-graft new`: the packages that it makes, what it prints, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from packaging.specifiers import SpecifierSet

from vllm_graft import PatchSet
from vllm_graft.check.project import read_project
from vllm_graft.cli import main
from vllm_graft.new import package
from vllm_graft.new.package import RELEASES

from .vllm_trees import write_tree

FILES = {
    ".github/workflows/patches.yml",
    ".gitignore",
    ".pre-commit-config.yaml",
    "README.md",
    "pyproject.toml",
    "src/acme_vllm/__init__.py",
    "src/acme_vllm/patches.py",
    "tests/test_patches.py",
}

OLD = """
import vllm.core as core

def area():
    return "ours"

core.area = area
core.TABLE["a"] = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def vllm(tmp_path: Path) -> str:
    """Return a vLLM that old files are translated for."""
    return str(write_tree(tmp_path / "vllm", {"core.py": "TABLE = {}\n\ndef area():\n    ...\n"}))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["new", *map(str, arguments)])


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def declared(source: Path) -> PatchSet:
    names: dict[str, PatchSet] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    names["patches"].seal()
    return names["patches"]


def test_a_package_has_everything(folder: Path) -> None:
    done = run("acme-vllm")
    assert (done.exit_code, files(folder / "acme-vllm")) == (0, FILES)
    for command in ("cd acme-vllm", "pip install -e '.[test]'", "pytest", "vllm-graft check"):
        assert command in done.output


def test_its_table_and_its_set_have_the_same_name(folder: Path) -> None:
    run("Acme_vLLM", "--path", "there")
    project = read_project(folder / "there" / "pyproject.toml")
    patches = declared(folder / "there" / "src" / "acme_vllm" / "patches.py")
    assert (project.select, project.vllm) == ("acme-vllm/*", RELEASES)
    assert [each.id for each in patches.patches] == ["acme-vllm/bounded-requests"]
    assert patches.patches[0].gaps == ()


def test_its_first_patch_is_for_what_it_is_checked_against(folder: Path) -> None:
    run("acme-vllm")
    (patch,) = declared(folder / "acme-vllm" / "src" / "acme_vllm" / "patches.py").patches
    assert isinstance(patch.vllm, SpecifierSet)
    assert all(release in patch.vllm for release in RELEASES)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is no name for a package"),
        ("acme vllm", "is no name for a package"),
        ("-acme", "is no name for a package"),
        ("acme-", "is no name for a package"),
        ("1acme", "is no name for a package"),
        ("../acme", "is no name for a package"),
        ("\u00e4cme", "is no name for a package"),
        ("import", "is a keyword of Python"),
        ("json", "is a module of Python's standard library"),
        ("vllm", "is taken by what it would patch"),
        ("vllm-graft", "is taken by what it would patch"),
        ("torch", "is taken by what it would patch"),
        ("tests", "is taken by what it would patch"),
        ("pytest", "or be tested with"),
        ("pluggy", "or be tested with"),
        ("xdist", "or be tested with"),
        ("src", "or be tested with"),
        ("numpy", "is taken by what it would patch"),
        ("click", "or be tested with"),
        ("packaging", "or be tested with"),
        ("Jinja2", "or be tested with"),
        ("models", "has the name of a patch set that comes with vllm-graft"),
    ],
)
def test_a_name_that_cannot_be_is_refused(folder: Path, name: str, problem: str) -> None:
    done = run("--", name)
    assert (done.exit_code, files(folder)) == (2, set())
    assert problem in done.output
    assert repr(name) in done.output


def test_a_folder_that_has_something_is_left_alone(folder: Path) -> None:
    (folder / "acme-vllm").mkdir()
    (folder / "acme-vllm" / "mine.txt").touch()
    done = run("acme-vllm")
    assert done.exit_code == 2
    assert "'acme-vllm' exists and is not empty. Name another one with --path" in done.output
    assert files(folder) == {"acme-vllm/mine.txt"}


def test_a_file_in_its_place_is_left_alone(folder: Path) -> None:
    (folder / "acme-vllm").write_text("mine")
    assert run("acme-vllm").exit_code == 2
    assert (folder / "acme-vllm").read_text() == "mine"


def test_an_empty_folder_is_filled(folder: Path) -> None:
    (folder / "acme-vllm").mkdir()
    assert run("acme-vllm").exit_code == 0
    assert files(folder / "acme-vllm") == FILES


def test_nothing_is_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full after the first files: neither the folder nor its beginnings are left."""
    written = []
    write_text = Path.write_text

    def fill_up(path: Path, text: str, encoding: str | None = None) -> int:
        written.append(path)
        if len(written) > 3:
            raise OSError(28, "No space left on device")
        return write_text(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", fill_up)
    done = run("acme-vllm")
    assert (done.exit_code, list(folder.iterdir()), len(written)) == (2, [], 4)
    assert "'acme-vllm' cannot be written: No space left on device" in done.output


def test_the_templates_need_all_their_values() -> None:
    with pytest.raises(KeyError):
        package.filled("README.md", {})


def test_an_old_file_becomes_a_package(folder: Path, vllm: str) -> None:
    (folder / "patch_core.py").write_text(OLD)
    done = run("acme-vllm", "--from", "patch_core.py", "--vllm", vllm)
    assert done.exit_code == 0
    impl = {"src/acme_vllm/impl/__init__.py", "src/acme_vllm/impl/patch_core.py"}
    assert files(folder / "acme-vllm") == FILES | impl
    assert 'not translated: patch_core.py:8: `core.TABLE["a"] = 1`' in done.output
    assert read_project(folder / "acme-vllm" / "pyproject.toml").vllm == ("0.32.0",)
    patches = declared(folder / "acme-vllm" / "src" / "acme_vllm" / "patches.py").patches
    assert [(each.operation, str(each.target)) for each in patches] == [
        ("replace", "vllm.core:area"),
        ("run", "vllm.core"),
    ]
    assert patches[0].gaps == ("why", "how", "upstream", "remove")


def test_without_a_package_the_declarations_are_printed(folder: Path, vllm: str) -> None:
    (folder / "patch_core.py").write_text(OLD)
    done = run("--from", "patch_core.py", "--vllm", vllm)
    assert (done.exit_code, files(folder)) == (0, {"patch_core.py"})
    (folder / "printed.py").write_text(done.stdout)
    assert len(declared(folder / "printed.py").patches) == 2
    assert "not translated" in done.stderr
    assert "it changes a container in place" in " ".join(done.stdout.replace("#", "").split())


def test_several_files_may_follow_from(folder: Path, vllm: str) -> None:
    """As a shell gives them for `--from *.py`."""
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(OLD)
    done = run("acme-vllm", "--vllm", vllm, "--from", "a.py", "b.py", "c.py")
    assert done.exit_code == 0
    assert len(list((folder / "acme-vllm/src/acme_vllm/impl").glob("[abc].py"))) == 3


def test_its_files_are_formatted(folder: Path, vllm: str) -> None:
    """By ruff without options, but for what pyproject.toml says."""
    run("acme-vllm")
    (folder / "patch_core.py").write_text(OLD.lstrip().replace("\n\n", "\n\n\n"))
    run("other-vllm", "--from", "patch_core.py", "--vllm", vllm)
    command = [sys.executable, "-m", "ruff", "format", "--no-cache", "--check"]
    for made in ("acme-vllm", "other-vllm"):
        done = subprocess.run([*command, made], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_ci_keeps_what_it_has_downloaded(folder: Path) -> None:
    run("acme-vllm")
    workflow = yaml.safe_load((folder / "acme-vllm/.github/workflows/patches.yml").read_text())
    steps = workflow["jobs"]["patches"]["steps"]
    (cache,) = [each["with"] for each in steps if each.get("uses") == "actions/cache@v4"]
    assert cache["path"] == "~/.cache/vllm-graft"
    assert all(release in cache["key"] for release in RELEASES)


def test_files_that_patch_nothing_are_passed_over(folder: Path, vllm: str) -> None:
    """As `--from *.py` has an `__init__.py`; it is said, and the others are translated."""
    (folder / "patch_core.py").write_text(OLD)
    (folder / "__init__.py").write_text('"""Old patches."""\n')
    done = run("acme-vllm", "--from", "__init__.py", "patch_core.py", "--vllm", vllm)
    assert done.exit_code == 0
    assert "nothing to declare in __init__.py\n" in done.stderr
    assert {each.name for each in (folder / "acme-vllm/src/acme_vllm/impl").iterdir()} == {
        "__init__.py",
        "patch_core.py",
    }


def test_it_is_an_error_where_no_file_has_anything(folder: Path, vllm: str) -> None:
    for name in ("a.py", "b.py"):
        (folder / name).touch()
    done = run("acme-vllm", "--from", "a.py", "b.py", "--vllm", vllm)
    assert (done.exit_code, files(folder)) == (2, {"a.py", "b.py"})
    assert "none of 'a.py', 'b.py' assigns anything" in done.output


def test_it_says_how_much_is_to_be_filled_in(folder: Path, vllm: str) -> None:
    """Two patches with four texts; that of the `run` which says how is written."""
    (folder / "patch_core.py").write_text(OLD)
    done = run("acme-vllm", "--from", "patch_core.py", "--vllm", vllm)
    assert "2 patches in src/acme_vllm/patches.py, 7 fields to fill in" in done.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no name is given"),
        (["acme", "other"], "one package at a time"),
        (["acme", "--vllm", "0.32.0"], "--vllm only goes with --from"),
        (["--from", "good.py", "--path", "there"], "--path is for a package"),
        (["acme", "--from", "gone.py"], "'gone.py' cannot be read: No such file"),
        (["acme", "--from", "broken.py"], "'broken.py' is not Python: invalid syntax (line 1)"),
        (["acme", "--from", "bytes.py"], "'bytes.py' cannot be decoded: "),
        (["acme", "--from", "empty.py"], "'empty.py' assigns nothing"),
        (["acme", "--from", "good.py", "--vllm", "nowhere"], "nowhere"),
        (["vllm", "--from", "good.py"], "is taken by what it would patch"),
        (["full", "--from", "good.py"], "exists and is not empty"),
    ],
)
def test_what_cannot_be_done_is_refused(
    folder: Path, vllm: str, arguments: list[str], problem: str
) -> None:
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "bytes.py").write_bytes(b"x = '\xff'\n")
    (folder / "empty.py").write_text("")
    (folder / "good.py").write_text(OLD)
    (folder / "full").mkdir()
    (folder / "full" / "mine.txt").touch()
    before = files(folder)
    given = arguments if "--vllm" in arguments or "--from" not in arguments else None
    done = run(*(given or [*arguments, "--vllm", vllm]))
    assert (done.exit_code, files(folder)) == (2, before)
    assert problem in done.output
