"""`vllm-graft doctor`: is the layer activated here, how, and if not, why."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import click

from ..activation import current_plan
from ..builtin import BUILTIN
from ..catalog import Catalog, load_catalog
from ..errors import GraftError, LockError
from ..plan import Plan
from ..settings import Settings
from ..sources import has_main_guard
from ..version import distributions, find_version, package_folder
from .render import console, json_option, print_json, table
from .run import stub_folder

# Run in a new interpreter, started as any program of this environment would be.
_PROBE = """
import json, site, sys
found = [f for f in sys.meta_path if getattr(f, "__name__", "") == "VllmGraft"]
sites = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
custom = sys.modules.get("sitecustomize")
print(json.dumps({
    "by": getattr(found[0], "by", "pth") if found else None,
    "sites": sites,
    "sitecustomize": getattr(custom, "__file__", None),
}))
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `remedy` says what to do where it is not ok."""

    check: str
    state: Literal["ok", "warning", "problem"]
    detail: str
    remedy: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Look at the activation, the version, the patch sets and the plan of this environment."""
    findings = list(examine())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        out = console()
        rows = ((each.check, each.state, each.detail) for each in findings)
        out.print(table("check", "state", "detail", rows=rows))
        for each in findings:
            if each.remedy:
                out.print(f"\n{each.check}: {each.remedy}")
    sys.exit(1 if any(finding.state == "problem" for finding in findings) else 0)


def examine() -> Iterator[Finding]:
    """Yield the findings of every check."""
    interpreter = _new_interpreter()
    yield _switch()
    yield _activation(interpreter)
    yield _pth(interpreter)
    yield _sitecustomize(interpreter)
    yield _safety_net()
    yield _vllm()
    catalog = load_catalog()
    yield from _sets(catalog)
    yield from _plan(catalog)


def _new_interpreter() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False
    )
    try:  # what others print at start-up comes before our line
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"by": None, "sites": [], "sitecustomize": None, "error": done.stderr or done.stdout}
    return answer


def _switch() -> Finding:
    if os.environ.get("VLLM_GRAFT") == "0":
        return Finding(
            "switch",
            "warning",
            "VLLM_GRAFT=0: the layer is off",
            "Unset VLLM_GRAFT. While the layer is off vLLM does not know its variables, and warns.",
        )
    return Finding("switch", "ok", "the layer is on")


def _activation(interpreter: dict[str, Any]) -> Finding:
    by = interpreter["by"]
    if by is not None:
        return Finding("activation", "ok", f"a new interpreter is activated by {by}")
    if "error" in interpreter:
        detail = f"{sys.executable} does not start: {interpreter['error'].strip()[-300:]}"
        return Finding("activation", "problem", detail, "Mend what the message names.")
    if os.environ.get("VLLM_GRAFT") == "0":
        return Finding("activation", "warning", "a new interpreter is not activated: it is off")
    return Finding(
        "activation",
        "problem",
        "a new interpreter is not activated; only vLLM's plugin loader would do it, late",
        "See pth below; where that is ok, is Python started with -S or -I, or does the file come "
        "from an older version? Or start programs with: vllm-graft run -- COMMAND",
    )


def _pth(interpreter: dict[str, Any]) -> Finding:
    found = [Path(site) / "vllm_graft.pth" for site in interpreter["sites"]]
    found = [path for path in found if path.exists()]
    home = Path(__file__).parents[2]
    if not found:
        return Finding(
            "pth",
            "problem" if interpreter["by"] is None else "warning",
            f"no vllm_graft.pth in {', '.join(interpreter['sites'])}; the package is in {home}",
            "Folders on PYTHONPATH and --target folders are searched for modules, not for .pth "
            "files. Install vllm-graft into the environment with pip (an editable install will "
            "do), or start programs with: vllm-graft run -- COMMAND",
        )
    path = found[0]
    if _is_hidden(path):
        remedy = f"Python ignores hidden .pth files. Run: chflags nohidden {path}"
        return Finding("pth", "problem", f"{path} is hidden", remedy)
    if not os.access(path, os.R_OK):
        return Finding("pth", "problem", f"{path} is not readable", f"Run: chmod a+r {path}")
    if "VllmGraft" not in path.read_text(encoding="utf-8", errors="replace"):
        return Finding("pth", "problem", f"{path} has other contents", "Install vllm-graft again.")
    if len(found) > 1:
        copies = ", ".join(map(str, found))
        return Finding("pth", "warning", f"several: {copies}", "Uninstall all but one of them.")
    return Finding("pth", "ok", str(path))


def _is_hidden(path: Path) -> bool:
    hidden = 0x8000  # stat.UF_HIDDEN; st_flags is there on macOS and BSD only
    return bool(getattr(path.stat(), "st_flags", 0) & hidden)


def _sitecustomize(interpreter: dict[str, Any]) -> Finding:
    file = interpreter["sitecustomize"]
    stub = stub_folder()
    listed = [Path(entry or ".") for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if stub not in listed:
        detail = f"{file}, not ours" if file else "none; the stub is not on PYTHONPATH"
        return Finding("sitecustomize", "ok", detail)
    if interpreter["by"] == "sitecustomize" or (file and Path(file).parent == stub):
        return Finding("sitecustomize", "ok", f"the stub in {stub}")
    if interpreter["by"] is not None:
        return Finding("sitecustomize", "ok", f"the stub in {stub}, which ran {file}")
    return Finding(
        "sitecustomize",
        "problem",
        f"{file} is imported in place of the stub in {stub}",
        "Put the stub first on PYTHONPATH: it runs the sitecustomize that it shadows.",
    )


def _safety_net() -> Finding:
    allowed = os.environ.get("VLLM_PLUGINS")
    names = [point.name for point in metadata.entry_points(group="vllm.general_plugins")]
    if "vllm_graft" not in names:
        return Finding(
            "safety net",
            "warning",
            "the entry point vllm.general_plugins is not installed",
            "Install the distribution vllm-graft, not its modules alone.",
        )
    if allowed is not None and "vllm_graft" not in allowed.split(","):
        remedy = "Add vllm_graft to VLLM_PLUGINS."
        return Finding("safety net", "warning", f"VLLM_PLUGINS={allowed} leaves it out", remedy)
    return Finding("safety net", "ok", "vLLM's plugin loader would activate late")


def _vllm() -> Finding:
    try:
        version = find_version(Settings.read(os.environ).version)
    except GraftError as error:
        return Finding("vLLM", "problem", str(error), "Correct the variable.")
    names = ", ".join(f"{dist.name} {dist.version}" for dist in distributions()) or "none"
    detail = f"{version}; package in {package_folder()}; distribution: {names}"
    if version.text is None:
        return Finding("vLLM", "problem", detail, "Install vLLM: pip install 'vllm-graft[vllm]'")
    if version.version is None:
        remedy = "Set VLLM_VERSION to the release that this build behaves like."
        return Finding("vLLM", "problem", f"unknown version: {detail}", remedy)
    return Finding("vLLM", "ok", detail)


def _sets(catalog: Catalog) -> Iterator[Finding]:
    for patch_set in catalog.sets:
        count = f"{len(patch_set.patches)} patches, from {catalog.origins[patch_set.name]}"
        yield Finding(f"set {patch_set.name}", "ok", count)
    for broken in catalog.broken:
        remedy = "Mend it, uninstall it, or exclude it as the message says."
        yield Finding(f"set {broken.name}", "problem", str(broken.error), remedy)


def _plan(catalog: Catalog) -> Iterator[Finding]:
    try:
        plan = current_plan(Settings.read(os.environ), catalog)
    except GraftError as error:
        yield Finding("plan", "problem", str(error), "Correct the variable.")
        return
    yield _decisions(plan)
    yield from _lock(plan)
    programs = {patch.target.module for patch in plan.armed if patch.set_name not in BUILTIN}
    yield from map(_program, sorted(filter(has_main_guard, programs)))


def _decisions(plan: Plan) -> Finding:
    if plan.problems:
        detail = "; ".join(str(problem) for problem in plan.problems)
        return Finding("plan", "problem", f"vLLM will not start: {detail}", "See the message.")
    detail = f"{len(plan.armed)} of {len(plan.decisions)} patches are armed"
    if plan.warnings:
        remedy = "Install a vllm-graft that knows this vLLM."
        if _unlike_locked(plan):
            remedy = "See the lock below."
        return Finding("plan", "warning", f"{detail}; {'; '.join(plan.warnings)}", remedy)
    return Finding("plan", "ok", f"{detail}; 'vllm-graft status' lists them")


def _lock(plan: Plan) -> Iterator[Finding]:
    policy = Settings.read(os.environ).lock
    if policy is None:
        return
    ids = _unlike_locked(plan)
    if not ids:
        detail = f"VLLM_GRAFT_LOCK={policy.mode}: every armed patch is as it was locked"
        yield Finding("lock", "ok", detail)
        return
    yield Finding(
        "lock",
        "problem" if any(isinstance(each, LockError) for each in plan.problems) else "warning",
        f"VLLM_GRAFT_LOCK={policy.mode}: not as they were locked: {', '.join(ids)}",
        "'vllm-graft status' says how. See what changed with 'vllm-graft check --diff', and lock "
        "it again with 'vllm-graft lock'.",
    )


def _unlike_locked(plan: Plan) -> list[str]:
    return [each.patch.id for each in plan.decisions if each.notes or each.cause == "lock"]


def _program(module: str) -> Finding:
    return Finding(
        f"module {module}",
        "warning",
        f"`python -m {module}` runs it as __main__, where patches on its names do not reach it",
        "Start it by a command that imports it, as `vllm serve` does the API server.",
    )
