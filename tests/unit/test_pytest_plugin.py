"""The pytest plugin: real pytest runs of a project with patches, beside two trees of vLLM."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

# pytester forgets what a run imports, and would import it anew each time.
from vllm_graft.check import index, pytest_run  # noqa: F401
from vllm_graft.cli import main
from vllm_graft.sources import parsed

from .vllm_trees import write_tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.processes

REPOSITORY = Path(__file__).parents[2]
OLD = {
    "a.py": "def f(x): return x\nclass C:\n    def m(self, x): return x\n",
    "b.py": "def here(x):\n    y = x + 1\n    return sorted([y, x])\n",
    "c.py": "globals().update(dict(run_time=1))\ndef g(x): return x\n",
}
NEW = {
    "a.py": "def f(x, *, y=1): return x\nclass C:\n    def renamed(self, x): return x\n",
    "b.py": "",
    "moved.py": OLD["b.py"],
    "c.py": OLD["c.py"],
}
HEAD = """
from vllm_graft import PatchSet

patches = PatchSet("acme")
WHY = dict(why="w", how="h", upstream="u", remove="r")
"""
FITS = """
@patches.wrap("vllm.a:f", id="fits", vllm=">=0.31,<0.33", **WHY)
def fits(original, x, **more):
    return original(x, **more)
"""
METHOD = """
@patches.wrap("vllm.a:C.m", id="method", vllm=">=0.31,<0.33", **WHY)
def method(original, self, x):
    return original(self, x)
"""
TABLE = (
    '[tool.vllm-graft]\nsets = ["acme.patches:patches"]\nselect = "acme/*"\nvllm = ["old", "new"]\n'
)
TEST = "def test_own(): pass\n"

Project = Callable[..., pytest.Pytester]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a function that writes a project with patches, a test, and two trees of vLLM.

    The plugin is installed as this package's metadata say.
    """
    site = pytester.mkdir("site")
    metadata = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    plugins = metadata["project"]["entry-points"]["pytest11"]
    entries = "".join(f"{name} = {value}\n" for name, value in plugins.items())
    write(site / "plugin-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    write(site / "plugin-1.dist-info/entry_points.txt", f"[pytest11]\n{entries}")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{REPOSITORY / 'src'}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # two tiny trees are not worth two processes
    parsed.cache_clear()  # of modules by name, and every project here has the same ones
    for module in ("acme", "acme.patches"):
        monkeypatch.delitem(sys.modules, module, raising=False)

    def project(*patches: str, table: str = TABLE) -> pytest.Pytester:
        write_tree(pytester.path / "old", OLD, "0.31.0")
        write_tree(pytester.path / "new", NEW, "0.32.0")
        write(pytester.path / "pyproject.toml", table)
        write(pytester.path / "src/acme/patches.py", HEAD + "".join(patches))
        write(pytester.path / "tests/test_own.py", TEST)
        return pytester

    return project


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text), encoding="utf-8")


def collected(run: pytest.RunResult) -> list[str]:
    return [line for line in run.outlines if "::" in line]


def outcomes(pytester: pytest.Pytester, *arguments: str) -> dict[str, str]:
    """Run pytest, and return what became of each item of the plugin."""
    run = pytester.runpytest("-v", *arguments)
    lines = (line.split() for line in run.outlines if line.startswith("graft::"))
    return {line[0].removeprefix("graft::"): line[1] for line in lines if len(line) > 1}


def test_there_is_an_item_for_each_patch_and_vllm(project: Project) -> None:
    run = project(FITS, METHOD).runpytest("--collect-only", "-q")
    assert collected(run) == [
        "tests/test_own.py::test_own",
        "graft::applies[acme/fits][old]",
        "graft::applies[acme/fits][new]",
        "graft::applies[acme/method][old]",
        "graft::applies[acme/method][new]",
    ]
    assert "5 tests collected" in run.outlines[-1]


def test_no_vllm_is_opened_before_an_item_runs(project: Project) -> None:
    run = project(FITS, table=TABLE.replace('"new"', '"gone.whl"')).runpytest(
        "--collect-only", "-q"
    )
    assert "graft::applies[acme/fits][gone.whl]" in collected(run)
    assert not Path("cache").exists()


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [
        ('wrap("vllm.a:f", lambda original, x, **more: 1', "PASSED", "PASSED"),
        ('wrap("vllm.a:f", lambda original, x: 1', "PASSED", "FAILED"),
        ('wrap("vllm.a:C.m", lambda original, self, x: 1', "PASSED", "FAILED"),
        ('replace("vllm.moved:here", lambda x: 1', "FAILED", "PASSED"),
        ('set("vllm.c:run_time", 2', "PASSED", "PASSED"),
        ('add("vllm.a:f", lambda x: 1', "FAILED", "FAILED"),
    ],
)
def test_an_item_fails_where_the_patch_cannot_land(
    project: Project, operation: str, old: str, new: str
) -> None:
    patch = f'patches.{operation}, id="it", vllm=">=0.31,<0.33", **WHY)\n'
    assert outcomes(project(patch)) == {
        "applies[acme/it][old]": old,
        "applies[acme/it][new]": new,
    }


def test_out_of_its_range_a_patch_is_skipped(project: Project) -> None:
    patch = METHOD.replace("<0.33", "<0.32")
    run = project(patch).runpytest("-rs")
    run.assert_outcomes(passed=2, skipped=1)
    run.stdout.fnmatch_lines(["SKIPPED*: vLLM * is out of range >=0.31,<0.32"])


def test_a_failure_is_told_in_the_words_of_the_check(project: Project) -> None:
    patch = FITS.replace(", **more)", ")")
    run = project(patch).runpytest("graft::applies[acme/fits][new]")
    run.stdout.fnmatch_lines(
        [
            "*applies?acme/fits??new?*",
            "signature: *unexpected keyword argument 'y'*",
            "  target          (x, *, y=1)",
            "  implementation  fits(original, x)",
            "wrap of vllm.a:f, for vLLM >=0.31,<0.33",
            "It would apply to 0.31.0* of the vLLMs checked.",
            f"*{Path('src/acme/patches.py')}:7: acme/fits",
            "FAILED graft::applies?acme/fits??new? - Failed: signature: *",
        ]
    )
    run.stdout.no_fnmatch_line("*Traceback*")
    run.stdout.no_fnmatch_line("*pytest_items.py*")


def test_the_likely_new_target_is_told_also_if_the_other_vllms_are_not_asked_for(
    project: Project,
) -> None:
    patch = 'patches.wrap("vllm.b:here", lambda original, x: 1, id="it", vllm="<0.33", **WHY)\n'
    run = project(patch).runpytest("-k", "new")
    run.assert_outcomes(failed=1, deselected=2)
    run.stdout.fnmatch_lines(["moved: *it is at vllm.moved:here *"])


@pytest.mark.parametrize("arguments", [(), ("-W", "error")])
@pytest.mark.parametrize(
    ("operation", "warning"),
    [
        ('wrap("vllm.c:unbound", g, vllm="<0.33"', "(unknown)"),
        ('wrap("vllm.a:f", g, vllm="<0.33", review="2026-01-01"', "to be reviewed by 2026-01-01"),
        ('wrap("vllm.a:f", g, vllm=">=0.31"', "has no upper bound"),
    ],
)
def test_what_check_warns_of_warns_and_does_not_fail(
    project: Project, operation: str, warning: str, arguments: tuple[str, ...]
) -> None:
    patch = f'def g(original, x, **more): pass\npatches.{operation}, id="it", **WHY)\n'
    run = project(patch).runpytest(*arguments)
    run.assert_outcomes(passed=3, warnings=2 if "unknown" in warning else 1)
    run.stdout.fnmatch_lines([f"*src/acme/patches.py:*: PatchWarning: acme/it: *{warning}*"])


def test_a_patch_that_vllm_does_not_need_any_more_fails(project: Project) -> None:
    patch = FITS.replace("**WHY", 'fixed_by="0.32.0", **WHY')
    assert outcomes(project(patch)) == {
        "applies[acme/fits][old]": "PASSED",
        "still-needed[acme/fits][old]": "PASSED",
        "applies[acme/fits][new]": "PASSED",
        "still-needed[acme/fits][new]": "FAILED",
    }


@pytest.fixture
def locked(project: Project) -> Project:
    """Return a function that makes a project with a lock."""

    def locked(*patches: str, vllm: str = "old new") -> pytest.Pytester:
        pytester = project(*patches)
        done = CliRunner().invoke(main, ["lock", *vllm.split()])
        assert done.exit_code == 0, done.output
        return pytester

    return locked


@pytest.mark.parametrize(
    ("tree", "before", "after", "told"),
    [
        ("old", "return x", "return -x", "changed: the body of vllm.a:f differs"),
        ("new", "y=1", "y=2", "changed: *and was as (x, ?, y=1)*"),
    ],
)
def test_a_target_that_is_not_as_it_was_locked_fails(
    locked: Project, tree: str, before: str, after: str, told: str
) -> None:
    pytester = locked(FITS)
    assert set(outcomes(pytester, "graft::drift").values()) == {"PASSED"}
    file = pytester.path / tree / "vllm/a.py"
    file.write_text(file.read_text().replace(before, after, 1))
    run = pytester.runpytest()
    run.assert_outcomes(passed=4, failed=1)
    remedy = "Look at it with `vllm-graft check --diff`. When it is reviewed: `vllm-graft lock`."
    run.stdout.fnmatch_lines([told, remedy, f"FAILED graft::drift?acme/fits??{tree}?*"])


def test_a_patch_that_is_not_as_it_was_locked_fails(locked: Project) -> None:
    pytester = locked(FITS)
    write(pytester.path / "src/acme/patches.py", HEAD + FITS.replace("(x,", "(-x,"))
    sys.modules.pop("acme.patches")
    run = pytester.runpytest("graft::drift[acme/fits][new]")
    run.stdout.fnmatch_lines(["drift: the patch's own source differs"])
    assert set(outcomes(pytester, "graft::drift").values()) == {"FAILED"}


def test_a_vllm_that_is_not_in_the_lock_is_compared_with_the_nearest(locked: Project) -> None:
    pytester = locked(
        FITS, FITS.replace("vllm.a:f", "vllm.c:g").replace("fits", "same"), vllm="old"
    )
    assert outcomes(pytester, "graft::drift") == {
        "drift[acme/fits][old]": "PASSED",
        "drift[acme/fits][new]": "FAILED",
        "drift[acme/same][old]": "PASSED",
        "drift[acme/same][new]": "PASSED",
    }


def test_a_patch_that_is_not_in_the_lock_warns(locked: Project) -> None:
    pytester = locked(FITS)
    write(pytester.path / "graft.lock", "format = 1\n")
    run = pytester.runpytest("graft::drift")
    run.assert_outcomes(passed=2, warnings=2)
    run.stdout.fnmatch_lines(["*PatchWarning: acme/fits: it is not in the lock (unlocked)"])


def test_a_lock_that_is_named_and_is_not_there_warns(project: Project) -> None:
    run = project(FITS, table=f'{TABLE}lock = "locks/own.lock"\n').runpytest("graft::drift")
    run.assert_outcomes(passed=2, warnings=2)
    run.stdout.fnmatch_lines(["*PatchWarning: acme/fits: the lock */locks/own.lock, which *"])


def test_where_the_target_is_missing_there_is_no_drift(locked: Project) -> None:
    pytester = locked(METHOD, vllm="old")
    assert outcomes(pytester, "graft::drift") == {
        "drift[acme/method][old]": "PASSED",
        "drift[acme/method][new]": "SKIPPED",
    }


def test_a_lock_that_cannot_be_read_is_wrong_usage(locked: Project) -> None:
    pytester = locked(FITS)
    write(pytester.path / "graft.lock", "format = 99\n")
    run = pytester.runpytest()
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["ERROR: *graft.lock*newer*"])


def test_a_range_of_versions_has_items_for_its_releases(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester = project(FITS, table=TABLE.replace('"new"', '">=0.31,<0.33"'))
    links = (
        f'<a href="vllm-{each}.tar.gz">vllm-{each}.tar.gz</a>' for each in ("0.31.0", "0.32.0")
    )
    write(pytester.path / "index/vllm/index.html", "\n".join(links))
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{pytester.path}/index")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    index._listing.cache_clear()  # of the index of a test before
    names = [line.rpartition("][")[2] for line in collected(pytester.runpytest("--co", "-q"))]
    assert names[1:] == ["old]", "0.31.0]", "0.32.0]"]
    index._listing.cache_clear()


def test_a_set_that_cannot_be_loaded_is_an_item_that_fails(project: Project) -> None:
    run = project('raise RuntimeError("not today")\n').runpytest()
    run.assert_outcomes(passed=1, failed=1)
    run.stdout.fnmatch_lines(["FAILED graft::load?acme?*", "*"])
    run.stdout.fnmatch_lines(["*acme/patches.py:*: RuntimeError: not today*"])


def test_a_vllm_that_cannot_be_had_fails_its_own_items_only(project: Project) -> None:
    pytester = project(FITS, table=TABLE.replace('"new"', '"new", "gone.whl"'))
    assert outcomes(pytester) == {
        "applies[acme/fits][old]": "PASSED",
        "applies[acme/fits][new]": "PASSED",
        "applies[acme/fits][gone.whl]": "FAILED",
    }


def test_a_module_that_is_not_python_fails_who_asks_for_it_only(project: Project) -> None:
    pytester = project(FITS, METHOD.replace("vllm.a:C.m", "vllm.broken:f"))
    write(pytester.path / "new/vllm/broken.py", "def f(:\n")
    write(pytester.path / "old/vllm/broken.py", "def f(self, x): pass\n")
    assert outcomes(pytester) == {
        "applies[acme/fits][old]": "PASSED",
        "applies[acme/fits][new]": "PASSED",
        "applies[acme/method][old]": "PASSED",
        "applies[acme/method][new]": "FAILED",
    }


def test_a_probe_that_raises_fails_the_items_of_its_patch_only(project: Project) -> None:
    probe = METHOD.replace("**WHY", "fixed_by=lambda source: 1 / 0, **WHY")
    assert outcomes(project(FITS, probe), "-k", "old") == {
        "applies[acme/fits][old]": "PASSED",
        "applies[acme/method][old]": "FAILED",
        "still-needed[acme/method][old]": "FAILED",
    }


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ([], True),
        (["tests"], True),
        (["."], True),
        (["tests/test_own.py"], False),
        (["tests/test_own.py::test_own"], False),
        (["tests/test_own.py", "src"], True),
        (["-p", "no:vllm_graft"], False),
        (["-m", "graft"], True),
        (["-m", "not graft"], False),
        (["-k", "own"], False),
        (["-k", "acme/fits and old"], True),
        (["--deselect", "graft::applies[acme/fits]"], False),
        (["--strict-markers"], True),
    ],
)
def test_the_items_belong_to_runs_that_are_not_of_chosen_tests(
    project: Project, arguments: list[str], taken: bool
) -> None:
    run = project(FITS).runpytest("--collect-only", "-q", *arguments)
    assert any(line.startswith("graft::") for line in run.outlines) == taken


def test_testpaths_count_as_all_tests(project: Project) -> None:
    pytester = project(FITS)
    write(pytester.path / "pytest.ini", "[pytest]\ntestpaths = tests/test_own.py\n")
    assert len(collected(pytester.runpytest("--collect-only", "-q"))) == 3


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["graft::applies[acme/fits][old]"], ["applies[acme/fits][old]"]),
        (["graft::applies[acme/fits]"], ["applies[acme/fits][old]", "applies[acme/fits][new]"]),
        (["graft::still-needed"], ["still-needed[acme/fits][old]", "still-needed[acme/fits][new]"]),
        (["tests", "graft::applies[acme/fits][old]"], ["applies[acme/fits][old]"]),
        (
            ["graft::applies[acme/fits][old]", "graft::applies[acme/fits]"],
            ["applies[acme/fits][old]", "applies[acme/fits][new]"],
        ),
    ],
)
@pytest.mark.parametrize("folder", ["", "tests"])
def test_items_are_run_by_their_ids(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    names: list[str],
    folder: str,
) -> None:
    pytester = project(FITS.replace("**WHY", 'fixed_by="0.33.0", **WHY'))
    if folder:
        monkeypatch.chdir(folder)
        arguments = [each.replace("tests", ".").replace("graft", "../graft") for each in arguments]
    run = pytester.runpytest("--collect-only", "-q", "--rootdir", str(pytester.path), *arguments)
    shown = [line.partition("graft::")[2] for line in collected(run)]
    assert [each for each in shown if each] == names


def test_an_id_that_there_is_not_is_wrong_usage(project: Project) -> None:
    run = project(FITS).runpytest("graft::applies[acme/fit][old]")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    expected = "*not found: graft::applies?acme/fit??old?. Is it graft::applies?acme/fits??old??"
    run.stderr.fnmatch_lines([expected])


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[tool.vllm-graft]\nvlm = 1\n", "*pyproject.toml: tool.vllm-graft has no key 'vlm'*"),
        ('[tool."vllm-graft"]\nvllm = 1\n', "*pyproject.toml: tool.vllm-graft.vllm is 1*"),
        ("[tool]\nvllm-graft = 1\n", "*pyproject.toml: tool.vllm-graft is no table*"),
        ("tool.vllm-graft.sets = 1\n", "*pyproject.toml: tool.vllm-graft.sets is 1*"),
        ("[tool.vllm-graft]\nvllm = []\n", "*tool.vllm-graft.vllm is ??. Name what to check*"),
        ("[tool.vllm-graft]\n", "*there are no patches to check: none is declared in*"),
        ('[tool.vllm-graft]\nselect = "no/*"\n', "*none has an id like 'no/?'*"),
    ],
)
def test_a_table_with_mistakes_is_wrong_usage(project: Project, table: str, told: str) -> None:
    run = project(FITS, table=table).runpytest()
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines([f"ERROR: {told}"])


@pytest.mark.parametrize(
    "table", ["", '[project]\ndependencies = ["vllm-graft>=0.1"]\n', "# [tool.vllm-graft]\n"]
)
def test_without_a_table_there_is_nothing(project: Project, table: str) -> None:
    run = project(FITS, table=table).runpytest()
    run.assert_outcomes(passed=1)
    assert collected(project(FITS, table=table).runpytest("--collect-only", "-q")) == [
        "tests/test_own.py::test_own"
    ]


LOADED = """
    import sys
    def pytest_sessionfinish():
        ours = sorted(name for name in sys.modules if name.startswith("vllm_graft"))
        print("LOADED", *ours, *({"vllm", "torch"} & set(sys.modules)))
    """


def test_without_a_table_nothing_is_imported(project: Project) -> None:
    pytester = project(FITS, table='[project]\ndependencies = ["vllm-graft"]\n')
    pytester.makeconftest(LOADED)
    run = pytester.runpytest_subprocess("-s")
    run.stdout.fnmatch_lines(["*LOADED vllm_graft vllm_graft.pytest_plugin"])


def test_with_a_table_vllm_is_not_imported(project: Project) -> None:
    pytester = project(FITS)
    pytester.makeconftest(LOADED)
    run = pytester.runpytest_subprocess("-s", "graft::applies")
    run.assert_outcomes(passed=2)
    (line,) = (line for line in run.outlines if "LOADED" in line)
    assert "vllm_graft.check.survey" in line.split()
    assert not {"vllm", "torch"} & set(line.split())


def test_workers_of_xdist_have_the_same_items(project: Project) -> None:
    pytester = project(FITS, METHOD)
    run = pytester.runpytest_subprocess("-n", "2", "-v")
    run.assert_outcomes(passed=4, failed=1)
    run.stdout.fnmatch_lines(
        ["missing: vllm.a:C has no 'm'*", "FAILED graft::applies?acme/method??new?*"]
    )
    run = pytester.runpytest_subprocess("-n", "2", "graft::applies[acme/method][old]")
    run.assert_outcomes(passed=1)


def test_the_report_for_ci_names_patch_and_vllm(project: Project) -> None:
    pytester = project(METHOD)
    pytester.runpytest("--junitxml", "report.xml")
    cases = ElementTree.parse(pytester.path / "report.xml").iter("testcase")
    found = {case.get("name"): case.find("failure") for case in cases}
    assert list(found) == ["test_own", "applies[acme/method][old]", "applies[acme/method][new]"]
    failure = found["applies[acme/method][new]"]
    assert failure is not None
    assert "missing: vllm.a:C has no 'm'" in str(failure.get("message"))


def test_what_failed_is_run_again(project: Project) -> None:
    pytester = project(FITS, METHOD)
    pytester.runpytest()
    run = pytester.runpytest("--last-failed", "--collect-only", "-q")
    assert collected(run) == ["graft::applies[acme/method][new]"]
