"""The pytest plugin: the checks of a project's patches among its tests.

Every pytest run of an environment that has this package imports the module. So it needs nothing
that pytest has not loaded yet, and loads the rest only for a project whose `pyproject.toml`, in
pytest's root folder, has a table `[tool.vllm-graft]`.
"""

import re

import pytest

_TABLE = re.compile(r"tool\s*\.\s*[\"']?vllm-graft|^\s*[\"']?vllm-graft[\"']?\s*[.=]", re.MULTILINE)


def pytest_configure(config: pytest.Config) -> None:
    """Join in where the project has a table; raise `UsageError` where that has no meaning."""
    file = config.rootpath / "pyproject.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):  # no file, or none that pytest or we could read
        return
    if _TABLE.search(text):
        from .check.pytest_run import join

        join(config, file)
