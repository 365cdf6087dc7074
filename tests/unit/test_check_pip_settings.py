"""Which index is asked, with which certificates: what pip and uv are told, and by whom."""

import os
import sys
from pathlib import Path

import pytest

from vllm_graft.check import pip_settings
from vllm_graft.check.pip_settings import PipSettings
from vllm_graft.errors import SourceError

HELP = """
  -i, --index-url <url>       Base URL of the Python Package Index (default
                              https://pip.example/simple). This should point to
"""
UV_HELP = """
      --default-index <DEFAULT_INDEX>
          The URL of the default package index (by default: <https://uv.example/simple>) [env: UV]
"""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) or name == "REQUESTS_CA_BUNDLE":
            monkeypatch.delenv(name)


def answering(monkeypatch: pytest.MonkeyPatch, configuration: str = "", help_: str = HELP) -> None:
    """Have pip print this instead of what it knows of this machine."""
    monkeypatch.setattr(
        pip_settings,
        "_printed",
        lambda *command: configuration if "config" in command else help_,
    )


@pytest.mark.parametrize(
    ("environment", "configuration", "indexes"),
    [
        ({}, "", ["https://pip.example/simple/"]),
        ({}, "global.index-url='https://a/simple/'", ["https://a/simple/"]),
        ({}, "global.index-url='https://a'\ndownload.index-url='https://b'", ["https://b/"]),
        ({}, "install.index-url='https://a'", ["https://pip.example/simple/"]),
        ({"PIP_INDEX_URL": "https://e"}, "global.index-url='https://a'", ["https://e/"]),
        ({"UV_INDEX_URL": "https://u"}, "global.index-url='https://a'", ["https://u/"]),
        ({"UV_DEFAULT_INDEX": "own=https://u", "UV_INDEX_URL": "https://old"}, "", ["https://u/"]),
        ({"UV_DEFAULT_INDEX": "https://u", "PIP_INDEX_URL": "https://e"}, "", ["https://e/"]),
        (
            {"PIP_INDEX_URL": "https://e", "PIP_EXTRA_INDEX_URL": "https://x https://y"},
            "",
            ["https://e/", "https://x/", "https://y/"],
        ),
        (
            {"PIP_INDEX_URL": "https://e", "UV_INDEX": "own=https://u"},
            "global.extra-index-url='\\nfile:///a\\nhttps://e'",
            ["https://e/", "file:///a/", "https://u/"],
        ),
        ({"PIP_NO_INDEX": "1", "PIP_INDEX_URL": "https://e"}, "", []),
    ],
)
def test_the_indexes_are_those_of_pip(
    environment: dict[str, str],
    configuration: str,
    indexes: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, configuration)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert pip_settings.pip_settings().indexes == tuple(indexes)


@pytest.mark.parametrize(
    ("environment", "configuration", "field", "value"),
    [
        ({}, "", "certificates", None),
        ({"PIP_CERT": "/e.pem"}, "global.cert='/c.pem'", "certificates", "/e.pem"),
        ({}, "global.cert='/c.pem'", "certificates", "/c.pem"),
        ({"REQUESTS_CA_BUNDLE": "/r.pem"}, "", "certificates", "/r.pem"),
        ({}, "global.proxy='http://p:1'", "proxy", "http://p:1"),
        ({"PIP_DEFAULT_TIMEOUT": "180"}, "", "timeout", 180.0),
        ({"PIP_TIMEOUT": "soon"}, "", "timeout", PipSettings.timeout),
        ({}, "global.find-links='/a /b'", "links", ("/a", "/b")),
    ],
)
def test_so_is_all_else(
    environment: dict[str, str],
    configuration: str,
    field: str,
    value: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, configuration)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert getattr(pip_settings.pip_settings(), field) == value


def test_uv_is_asked_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, help_=UV_HELP)
    assert pip_settings.pip_settings().indexes == ("https://uv.example/simple/",)


def test_without_anybody_to_ask_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, help_="")
    with pytest.raises(SourceError, match="Set PIP_INDEX_URL"):
        pip_settings.pip_settings()


def test_pip_itself_tells_its_configuration_and_its_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nextra-index-url = https://a/b\ncert = /c.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    found = pip_settings.pip_settings()
    assert found.indexes[0].startswith("https://")
    assert "https://a/b/" in found.indexes[1:]
    assert found.certificates == "/c.pem"


def test_a_program_that_is_not_there_prints_nothing() -> None:
    assert pip_settings._printed("/absent/pip", "config", "list") == ""
    assert pip_settings._printed(sys.executable, "-c", "print('no'); exit(1)") == ""
