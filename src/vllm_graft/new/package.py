"""The files of a new package, from templates."""

import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from .names import Names

RELEASES = ("0.32.0", "0.33.0")
"""What a new package is checked against, in CI and by its tests."""

_TEMPLATES = Path(__file__).parent / "templates"


class _Template(string.Template):
    delimiter = "%%"  # neither Python, YAML, TOML nor a shell has it


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values."""
    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return _Template(text).substitute(values)


def package_files(names: Names) -> dict[str, str]:
    """Return the files of a package with a first patch, by their paths."""
    values = shared_values(names, RELEASES)
    return common_files(names, values, more="") | {
        f"src/{names.package}/patches.py": filled("patches.py", values),
        "tests/test_patches.py": filled("test_patches.py", values),
    }


def common_files(names: Names, values: Mapping[str, str], more: str) -> dict[str, str]:
    """Return what every package has, whatever its patches are; `more` ends its README."""
    return {
        "pyproject.toml": filled("pyproject.toml", values),
        "README.md": filled("README.md", {**values, "more": more}).rstrip() + "\n",
        ".gitignore": filled("gitignore", values),
        ".pre-commit-config.yaml": filled("pre-commit-config.yaml", values),
        ".github/workflows/patches.yml": filled("patches.yml", values),
        f"src/{names.package}/__init__.py": filled("init.py", values),
    }


def shared_values(names: Names, vllm: Sequence[str]) -> dict[str, str]:
    """Return the values that the templates have in common; `vllm` are the sources to check."""
    return {
        "distribution": names.distribution,
        "package": names.package,
        "patch_set": names.patch_set,
        "description": "Patches of vLLM, declared with vllm-graft.",
        "vllm": ", ".join(f'"{each}"' for each in vllm),
        "releases": "-".join(vllm),
        "sources": " ".join(f"--vllm {each}" for each in vllm),
    }
