"""Trees that look like a vLLM as far as a test needs one, written to a folder."""

import zipfile
from pathlib import Path
from textwrap import dedent

from vllm_graft.check.kept import sources_folder
from vllm_graft.check.resolution import Resolution
from vllm_graft.check.resolve import Resolver
from vllm_graft.check.tree import FolderTree
from vllm_graft.target import Target

VERSION = "__version__ = version = '0.32.0'\n"


def write_tree(root: Path, files: dict[str, str], version: str = "0.32.0") -> Path:
    """Write the modules of a tree, by their paths below `vllm/`, and what makes it a vLLM."""
    base = {"__init__.py": "", "_version.py": VERSION.replace("0.32.0", version)}
    for path, text in {**base, **files}.items():
        file = root / "vllm" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for parent in file.relative_to(root).parents:
            if parent.parts and not (root / parent / "__init__.py").exists():
                (root / parent / "__init__.py").touch()
        file.write_text(dedent(text), encoding="utf-8")
    return root


def keep_release(version: str, files: dict[str, str]) -> Path:
    """Write a release to the cache folder, as it is kept once it was fetched."""
    sources_folder().mkdir(parents=True, exist_ok=True)
    file = sources_folder() / f"vllm-{version}-{0:016x}.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in {"__init__.py": "", **files}.items():
            archive.writestr(f"vllm/{path}", dedent(text))
    return file


def resolve(root: Path, target: str, files: dict[str, str] | None = None) -> Resolution:
    """Resolve a target in a tree of these files."""
    if files is not None:
        write_tree(root, files)
    return Resolver(FolderTree(root)).resolve(Target.parse(target))
