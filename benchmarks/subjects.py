"""What is measured: environments, patch sets on real and made-up modules, a made-up vLLM."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from benchmarks.measure import progress

ROOT = Path(__file__).parents[1]
PATCH_SET = "benchmark"

HOOK = """
def hook(module):
    module.hooked = True
"""

_PATCHES = """
from vllm_graft import PatchSet

patches = PatchSet("{name}")


def through(original, *args, **kwargs):
    return original(*args, **kwargs)


{definitions}
for target in {targets!r}:
    patches.wrap(
        target,
        {implementation},
        id=target.replace(":", ".").replace("_", "-").replace(".-", ".").lower(),
        vllm=">=0.9",
        why="To be measured.",
        how="Call the original.",
        upstream="None.",
        remove="Never.",
    )
"""

MADE_UP_VERSION = "0.20.0"
"""A release that the built-in patch sets are not for, so that next to only ours are armed."""

PATCHES_PER_MODULE = 10

_MADE_UP_MODULE = "LIMIT = 1\n" + "".join(f"def f{n}(a): return a\n" for n in range(8))

_MADE_UP_PATCHES = """
from vllm_graft import PatchSet

patches = PatchSet("{name}")
TEXTS = dict(why="To be measured.", how="Call the original.", upstream="None.", remove="Never.")
RANGES = (">=0.19,<0.21", ">=0.20", "!=0.19.1,>=0.18", "<0.33")


def through(original, *args, **kwargs):
    return original(*args, **kwargs)


for n, module in enumerate({modules!r}):
    options = dict(TEXTS, vllm=RANGES[n % 4], order=n % 3)
    for f in range(7):
        after = f"m{{n}}-f{{f - 1}}" if f else ()
        patches.wrap(f"{{module}}:f{{f}}", through, id=f"m{{n}}-f{{f}}", after=after, **options)
    patches.replace(f"{{module}}:f7", through, id=f"m{{n}}-f7", **options)
    patches.set(f"{{module}}:LIMIT", n, id=f"m{{n}}-limit", **options)
    patches.add(f"{{module}}:LOWEST", n, id=f"m{{n}}-lowest", **options)
"""


def make_environments(folder: Path) -> dict[str, Path]:
    """Make the environments of the interpreter part; return their interpreters by name.

    Each holds one package and one use of it, a hook for `vllm`; none holds pip or setuptools,
    whose own `.pth` file would run in all of them.
    """
    pip = Pip(folder / "pip")
    pythons = {}
    for name, requirement, group, value in (
        ("bare", "", "", ""),
        ("vllm-graft", pip.wheel(ROOT, folder), "vllm_graft.patches", "patches"),
        ("importpatch", "importpatch==0.2.1", "importpatch", "hook"),
        ("autowrapt", "autowrapt==2.0.0", "benchmark_hooks", "hook"),
    ):
        progress(f"interpreter: making the environment {name}")
        python = make_environment(folder / name)
        if requirement:
            pip.install(python, requirement)
            entry = PATCH_SET if value == "patches" else "vllm"
            source = patch_set([]) if value == "patches" else HOOK
            site = next((folder / name).glob("lib/python*/site-packages"))
            write_distribution(site, f"benchmark_{value}", source, group, entry, value)
        pythons[name] = python
    return pythons


def make_environment(folder: Path, *options: str) -> Path:
    """Make a virtual environment with nothing in it and return its interpreter."""
    options = options or ("--without-pip",)
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
    return folder / "bin" / "python"


class Pip:
    """A pip that installs into other environments and is in none of them."""

    def __init__(self, folder: Path) -> None:
        progress("interpreter: making an environment with pip")
        self._python = make_environment(folder, "--upgrade-deps")

    def wheel(self, source: Path, folder: Path) -> str:
        """Build the wheel of a checkout and return its path."""
        self._run("wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
        return str(next(folder.glob("*.whl")))

    def install(self, python: Path, requirement: str) -> None:
        """Install a distribution and what it requires."""
        self._run("--python", str(python), "install", requirement)

    def _run(self, *arguments: str) -> None:
        options = ("--quiet", "--disable-pip-version-check")
        subprocess.run([str(self._python), "-m", "pip", *options, *arguments], check=True)


def write_distribution(
    site: Path, module: str, source: str, group: str, entry: str, attribute: str
) -> Path:
    """Write an installed distribution of one module with one entry point into a folder."""
    info = site / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry} = {module}:{attribute}\n")
    return site


def write_patches(site: Path, source: str) -> Path:
    """Write a distribution that declares the patch set of a source."""
    return write_distribution(
        site, "benchmark_patches", source, "vllm_graft.patches", PATCH_SET, "patches"
    )


def patch_set(
    targets: Iterable[str], implementation: str = "through", definitions: str = ""
) -> str:
    """Return the source of a patch set that wraps every target.

    The implementation is an expression, of `target` and of the definitions; the one that is
    there calls the original and does nothing else.
    """
    return _PATCHES.format(
        name=PATCH_SET,
        targets=list(targets),
        implementation=implementation,
        definitions=definitions,
    )


def function_targets(
    vllm: Path, packages: Iterable[str], count: int, among: Collection[str] | None = None
) -> list[str]:
    """Choose functions of vLLM from its source: one a module, evenly over the packages' modules.

    Only the modules `among` these names are considered, if there are any. Raises ValueError where
    these packages have fewer modules with a plain function.
    """
    found = [
        target
        for package in packages
        for target in _functions(vllm, vllm / package)
        if among is None or target.partition(":")[0] in among
    ]
    if len(found) < count:
        raise ValueError(f"{', '.join(packages)} have {len(found)} modules with a plain function")
    return [found[index * len(found) // count] for index in range(count)]


def _functions(vllm: Path, package: Path) -> Iterator[str]:
    """Yield the first public, undecorated function of every module under a package."""
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(vllm.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                if node.name.startswith("_"):
                    continue
                yield f"{module.removesuffix('.__init__')}:{node.name}"
                break


def write_made_up_vllm(folder: Path, modules: int) -> list[str]:
    """Write a package `vllm` with a version and so many modules; return their names."""
    package = folder / "vllm"
    names = []
    for number in range(modules):
        parent = package / f"p{number // 50}"
        parent.mkdir(parents=True, exist_ok=True)
        (parent / "__init__.py").touch()
        (parent / f"m{number}.py").write_text(_MADE_UP_MODULE)
        names.append(f"vllm.{parent.name}.m{number}")
    (package / "__init__.py").touch()
    (package / "_version.py").write_text(f"version = {MADE_UP_VERSION!r}\n")
    return names


def write_made_up_patches(site: Path, modules: Iterable[str]) -> Path:
    """Write a distribution with `PATCHES_PER_MODULE` patches on each of these modules."""
    return write_patches(site, _MADE_UP_PATCHES.format(name=PATCH_SET, modules=list(modules)))
