"""The project as it is installed: by wheel, editable, into a folder, and not at all."""

import zipfile
from pathlib import Path

import pytest
from build import ProjectBuilder
from pyproject_hooks import quiet_subprocess_runner

from .fake_vllm import FakeVllm
from .interpreters import Interpreter, create

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def builder() -> ProjectBuilder:
    """The build back end of the project, in the running environment."""
    return ProjectBuilder(CHECKOUT, runner=quiet_subprocess_runner)


@pytest.fixture(scope="session")
def wheel(builder: ProjectBuilder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return Path(builder.build("wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="session")
def editable_wheel(builder: ProjectBuilder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install -e` installs (PEP 660)."""
    return Path(builder.build("editable", tmp_path_factory.mktemp("editable-wheel")))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """An environment with the wheel installed."""
    interpreter = create(tmp_path_factory.mktemp("installed"))
    interpreter.pip("install", "--no-deps", wheel)
    return interpreter


@pytest.fixture(scope="session")
def editable(editable_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """An environment with an editable install of the checkout."""
    interpreter = create(tmp_path_factory.mktemp("editable"))
    interpreter.pip("install", "--no-deps", editable_wheel)
    return interpreter


@pytest.fixture(params=["installed", "editable"])
def either(request: pytest.FixtureRequest) -> Interpreter:
    """Both kinds of install, one after the other."""
    found: Interpreter = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """An environment without the project."""
    return create(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def target(wheel: Path, bare: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder filled by `pip install --target`, in which no `.pth` file is processed."""
    folder = tmp_path_factory.mktemp("target")
    bare.pip("install", "--no-deps", "--target", folder, wheel)
    return folder


@pytest.fixture(scope="session")
def stub(target: Path) -> Path:
    """The folder of the `sitecustomize` stub, in a `--target` install."""
    return target / "vllm_graft_stub"


@pytest.fixture(scope="session")
def stub_alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stub and nothing else of the project."""
    folder = tmp_path_factory.mktemp("stub")
    with zipfile.ZipFile(wheel) as archive:
        source = archive.read("vllm_graft_stub/sitecustomize.py")
    (folder / "sitecustomize.py").write_bytes(source)
    return folder


@pytest.fixture
def vllm(tmp_path: Path) -> FakeVllm:
    """A stand-in for vLLM in a folder of its own, with three patches declared for it."""
    return FakeVllm(tmp_path / "path")
