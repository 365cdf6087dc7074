"""Entry points of a group: those that `importlib.metadata` knows, which is asked if need be."""

import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.entry_points import Undistributed, entry_points

GROUP = "vllm_graft.patches"
DECLARED = f"[{GROUP}]\nacme = acme.patches:patches\n"
OTHERS = "[console_scripts]\nacme = acme:main\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which alone distributions are looked for."""
    found = tmp_path / "site"
    found.mkdir()
    monkeypatch.setattr(sys, "path", [str(found), str(tmp_path / "absent")])
    return found


def declare(folder: Path, text: str, name: str = "acme-1.0.dist-info") -> None:
    (folder / name).mkdir()
    (folder / name / "METADATA").write_text("Name: acme\nVersion: 1.0\n")
    (folder / name / "entry_points.txt").write_text(text)


def pack(folder: Path) -> None:
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("acme-1.0.dist-info/METADATA", "Name: acme\nVersion: 1.0\n")
        archive.writestr("acme-1.0.dist-info/entry_points.txt", DECLARED)
    sys.path.append(str(folder / "packed.zip"))


def be_egg(folder: Path) -> None:
    egg = folder / "acme-1.0-py3.egg"
    egg.mkdir()
    declare(egg, DECLARED, "EGG-INFO")
    (egg / "EGG-INFO" / "METADATA").rename(egg / "EGG-INFO" / "PKG-INFO")
    sys.path.append(str(egg))


def find_elsewhere(folder: Path) -> None:
    class Finder:
        def find_spec(self, *_: object) -> None: ...

        def find_distributions(self, *_: object) -> list[metadata.Distribution]:
            return [metadata.Distribution.at(folder.parent / "acme-1.0.dist-info")]

    declare(folder.parent, DECLARED)
    sys.meta_path.append(Finder())


@pytest.mark.parametrize(
    "install",
    [
        lambda folder: declare(folder, DECLARED),
        lambda folder: declare(folder, OTHERS + DECLARED, "Acme-1.0.egg-info"),
        pack,
        be_egg,
        find_elsewhere,
    ],
    ids=["dist-info", "egg-info", "zip", "egg", "another finder"],
)
def test_they_are_found_wherever_a_distribution_is(
    folder: Path, install: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    install(folder)
    (found,) = entry_points(GROUP)
    assert (found.name, found.value) == ("acme", "acme.patches:patches")
    assert tuple(metadata.entry_points(group=GROUP)) == (found,)


@pytest.mark.parametrize(
    "install",
    [
        lambda folder: None,
        lambda folder: declare(folder, OTHERS),
        lambda folder: declare(folder, DECLARED, "acme.data"),
        lambda folder: (folder / "acme-1.0.egg-info").write_text(DECLARED),
    ],
    ids=["nothing", "other groups", "no metadata", "a file"],
)
def test_where_none_is_declared_nobody_is_asked(
    folder: Path, install: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder)
    assert not metadata.entry_points(group=GROUP)
    monkeypatch.delattr(metadata, "entry_points")
    assert entry_points(GROUP) == ()


def test_one_without_a_distribution_loads_what_it_names() -> None:
    found = Undistributed("sys", "sys:version_info.major")
    assert (found.load(), found.dist) == (sys.version_info.major, None)
