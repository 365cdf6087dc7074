"""Packages from `vllm-graft new`, as their users have them: installed, tested, checked, in effect.

The commands are those of the packages' CI file, run as they stand there. The package index is a
folder with two releases of something that is called vLLM and has the scheduler.
"""

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from .interpreters import Interpreter, create

VLLM = {
    "vllm/__init__.py": "",
    "vllm/v1/__init__.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/core/sched/scheduler.py": """
        LIMIT = 1


        class Scheduler:
            def add_request(self, request: object) -> None:
                self.requests[request.request_id] = request

            def schedule(self, count: int = 1) -> str:
                return f"scheduled {count}"
        """,
}

OLD = '''
"""Patches of the scheduler.

Why: The scheduler is too quiet.
How: Say who schedules.
Related PR (if no, explain why): None, it is our taste.
Future Plan: Remove it when nobody reads it.
"""

import vllm.v1.core.sched.scheduler
from vllm.v1.core.sched.scheduler import Scheduler

_schedule = Scheduler.schedule


def schedule(self, count=1):
    return "ours, " + _schedule(self, count)


Scheduler.schedule = schedule
vllm.v1.core.sched.scheduler.LIMIT = 100
'''

ASK = """
from vllm.v1.core.sched.scheduler import LIMIT, Scheduler
print(Scheduler().schedule(), LIMIT)
"""


class Machine:
    """A machine as a runner of CI has it: an environment, a folder, a package index, a shell."""

    def __init__(self, folder: Path, interpreter: Interpreter) -> None:
        self.folder = folder
        self.interpreter = interpreter

    def shell(self, command: str, folder: str = ".", **variables: str) -> str:
        """Run a command that ends well; return what it printed."""
        done = self.attempt(command, folder, **variables)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def attempt(
        self, command: str, folder: str = ".", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command, however it ends."""
        kept = {name: value for name, value in os.environ.items() if not _is_private(name)}
        own = {
            "PATH": f"{self.interpreter.prefix / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_INDEX_URL": (self.folder / "index").as_uri(),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_BUILD_ISOLATION": "0",  # what builds is there; nothing has to be fetched
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        return subprocess.run(
            ["bash", "-e", "-c", command],
            env=kept | own | variables,
            cwd=self.folder / folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def publish(self, version: str) -> None:
        """Put a release on the package index."""
        page = self.folder / "index" / "vllm" / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        data = _sdist(version)
        name = f"vllm-{version}.tar.gz"
        (page.parent / name).write_bytes(data)
        with page.open("a") as file:
            file.write(f'<a href="{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a>\n')

    def install_vllm(self, version: str = "0.32.0") -> None:
        """Put a release into the environment."""
        for path, text in _release(version).items():
            file = self.interpreter.site_packages / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def _is_private(name: str) -> bool:
    return name.startswith(
        ("PYTHON", "VLLM_", "VIRTUAL_ENV", "PIP_", "UV_", "COVERAGE_", "PYTEST_")
    )


def _release(version: str) -> dict[str, str]:
    files = {**VLLM, "vllm/_version.py": f"__version__ = version = {version!r}\n"}
    return {path: dedent(text) for path, text in files.items()}


def _sdist(version: str) -> bytes:
    buffer = io.BytesIO()
    described = {"PKG-INFO": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"}
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {**described, **_release(version)}.items():
            member = tarfile.TarInfo(f"vllm-{version}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def machine(wheel: Path, tmp_path: Path) -> Machine:
    """A machine that has vllm-graft, what builds and what tests, and no vLLM."""
    interpreter = create(tmp_path / "environment", "pytest", "hatchling")
    interpreter.pip("install", "--no-deps", wheel)
    made = Machine(tmp_path / "work", interpreter)
    for version in ("0.32.0", "0.33.0"):
        made.publish(version)
    return made


def workflow(package: Path) -> dict[str, Any]:
    """Return the CI file of a package."""
    text = (package / ".github" / "workflows" / "patches.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_a_new_package_passes_its_ci_until_its_target_is_gone(machine: Machine) -> None:
    """Where no vLLM is installed: what needs one is skipped, with the reason."""
    machine.shell("vllm-graft new acme-vllm")
    steps = workflow(machine.folder / "acme-vllm")["jobs"]["patches"]["steps"]
    assert [each.get("uses", each.get("name")) for each in steps] == [
        "actions/checkout@v4",
        "actions/setup-python@v5",
        "actions/cache@v4",
        "Install",
        "Test",
        "Check against the sources of vLLM",
    ]
    said = {
        each["name"]: machine.shell(each["run"], "acme-vllm") for each in steps if "run" in each
    }
    assert "5 passed, 1 skipped" in said["Test"]  # its own three, and one for each release
    assert "::error" not in said["Check against the sources of vLLM"]
    assert "acme-vllm/bounded-requests" in machine.shell("vllm-graft list")
    source = machine.folder / "acme-vllm" / "src" / "acme_vllm" / "patches.py"
    source.write_text(source.read_text().replace("Scheduler.add_request", "Scheduler.gone"))
    done = machine.attempt(steps[-1]["run"], "acme-vllm")
    assert (done.returncode, done.stderr) == (1, "")
    assert "::error file=src/acme_vllm/patches.py,line=" in done.stdout


def test_with_a_vllm_its_patch_is_shown_to_be_in_effect(machine: Machine) -> None:
    machine.shell("vllm-graft new acme-vllm && python -m pip install -e './acme-vllm[test]'")
    machine.install_vllm()
    assert "skipped" not in machine.shell("python -m pytest", "acme-vllm")
    assert "::error" not in machine.shell("vllm-graft check --vllm installed", "acme-vllm")


def test_a_translated_package_does_what_the_old_file_did(machine: Machine) -> None:
    """In processes that nobody prepares: the layer is activated by what pip has installed."""
    machine.install_vllm()
    (machine.folder / "patch_scheduler.py").write_text(OLD)
    told = machine.shell(
        "vllm-graft new acme-vllm --from patch_scheduler.py --vllm 0.32.0 --vllm 0.33.0"
    )
    assert "2 patches in src/acme_vllm/patches.py" in told
    asked = machine.shell(f"python -c 'import patch_scheduler\n{ASK}'", VLLM_GRAFT="0")
    assert asked == "ours, scheduled 1 100\n"
    assert machine.shell(f"python -c '{ASK}'", VLLM_GRAFT="0") == "scheduled 1 1\n"
    machine.shell("python -m pip install -e '.[test]'", "acme-vllm")
    assert machine.shell(f"python -W ignore -c '{ASK}' 2>/dev/null") == asked
    assert "skipped" not in machine.shell("python -m pytest", "acme-vllm")
    said = machine.shell("vllm-graft check --vllm 0.32.0 --vllm 0.33.0", "acme-vllm")
    assert "FILL IN" not in said
