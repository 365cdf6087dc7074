"""What the wheel has, and that every kind of install activates."""

import zipfile
from pathlib import Path

import pytest

from .conftest import CHECKOUT
from .fake_vllm import FakeVllm
from .interpreters import COUNT_SENTINELS, Interpreter, create


@pytest.mark.parametrize(
    "name", ["vllm_graft.pth", "vllm_graft.start", "vllm_graft_stub/sitecustomize.py"]
)
@pytest.mark.parametrize("kind", ["wheel", "editable_wheel"])
def test_ships_activation(kind: str, name: str, request: pytest.FixtureRequest) -> None:
    """Both kinds of wheel have the activation files where `site` and people look for them."""
    with zipfile.ZipFile(request.getfixturevalue(kind)) as archive:
        assert name in archive.namelist()


def test_pth_is_one_short_line(wheel: Path) -> None:
    """The .pth file is one line that `site` executes, under 300 characters."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("vllm_graft.pth").decode("ascii")
    line, end = text.split("\n")
    assert line.startswith("import ")
    assert len(line) < 300
    assert end == ""


def test_activates(either: Interpreter, vllm: FakeVllm) -> None:
    """After a wheel install and an editable install, `import vllm` activates the layer."""
    answer = either.ask(
        """
        import vllm
        from vllm_graft import status
        answer = [status().activated_by, vllm.NAME]
        """,
        path=vllm.path,
    )
    assert answer == ["pth", "patched"]


@pytest.mark.parametrize(("kind", "from_checkout"), [("installed", False), ("editable", True)])
def test_where_it_is_loaded_from(
    kind: str, from_checkout: bool, request: pytest.FixtureRequest
) -> None:
    """An editable install runs the checkout's code, a wheel install its own copy."""
    interpreter: Interpreter = request.getfixturevalue(kind)
    file = Path(interpreter.ask("import vllm_graft\nanswer = vllm_graft.__file__"))
    assert file.is_relative_to(CHECKOUT) is from_checkout


def test_start_file_installs_one_sentinel(bare: Interpreter, target: Path) -> None:
    """The callable that the .start file names puts one sentinel there, however often it runs."""
    entry = (target / "vllm_graft.start").read_text().splitlines()
    assert entry == ["vllm_graft.boot:install"]
    code = f"import pkgutil\nfor _ in range(2): pkgutil.resolve_name({entry[0]!r})()\n"
    assert bare.ask(COUNT_SENTINELS, path=[target]) == 0
    assert bare.ask(code + COUNT_SENTINELS, path=[target]) == 1


def test_start_file_beside_pth(either: Interpreter) -> None:
    """Where the .pth line has run, the callable of the .start file adds no second sentinel."""
    code = "from vllm_graft import boot\nboot.install()\n"
    assert either.ask(code + COUNT_SENTINELS) == 1


def test_start_file_activates(bare: Interpreter, target: Path, vllm: FakeVllm) -> None:
    """The sentinel of the .start file activates the layer, and says by which way."""
    answer = bare.ask(
        """
        from vllm_graft import boot, status
        boot.install()
        import vllm
        answer = [status().activated_by, vllm.NAME, vllm.limit()]
        """,
        path=[target, *vllm.path],
    )
    assert answer == ["start", "patched", 2]


def test_uninstall_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    """After `pip uninstall`, an interpreter starts as if the layer had never been there."""
    interpreter = create(tmp_path / "environment")
    before = sorted(path.name for path in interpreter.site_packages.iterdir())
    interpreter.pip("install", "--no-deps", wheel)
    assert interpreter.ask(COUNT_SENTINELS) == 1
    interpreter.pip("uninstall", "--yes", "vllm-graft")
    assert sorted(path.name for path in interpreter.site_packages.iterdir()) == before
    assert interpreter.ask(COUNT_SENTINELS) == 0


def test_command_is_installed(either: Interpreter) -> None:
    """Both kinds of install have the command `vllm-graft`."""
    done = either.start(either.prefix / "bin" / "vllm-graft", "--help")
    assert done.returncode == 0
    assert "run" in done.stdout
