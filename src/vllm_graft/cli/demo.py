"""`vllm-graft demo`: a real engine, before and after three patches, one for each process."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..demo.model import write_model
from ..trace import Line
from .render import console, table
from .timeline import TraceFolder
from .trace import POLL, styled

_SITE = Path(__file__).parents[1] / "demo" / "site"
_SHOWN = ("boot", "role", "fire", "apply", "skip", "fail", "exit")


@click.command()
def demo() -> None:
    """Start a tiny model on the installed vLLM without and with patches, and show both."""
    if importlib.util.find_spec("vllm") is None:
        raise click.ClickException("vLLM is not installed: pip install 'vllm-graft[cpu]'")
    out = console()
    with tempfile.TemporaryDirectory(prefix="vllm-graft-demo-") as name:
        folder = Path(name)
        write_model(folder / "model")
        out.print("1/2  vLLM as it is", style="bold")
        before = _Run(folder, "before", {"VLLM_GRAFT": "0"}).wait(out)
        out.print("2/2  vLLM with three patches, traced live", style="bold")
        patched = _Run(folder, "after", _patched_environment(folder))
        after = patched.wait(out)
        _print_result(out, before, after, patched.lines)
    if not _landed(before, after):
        out.print("Not every patch was in effect; the time line above says why.", style="red")
        sys.exit(1)


def _patched_environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(_SITE), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "VLLM_GRAFT_TRACE": str(folder / "trace"), "VLLM_GRAFT": "1"}


class _Run:
    """One engine start in a process of its own, and the trace lines that it wrote."""

    def __init__(self, folder: Path, name: str, environment: dict[str, str]) -> None:
        self._result = folder / f"{name}.json"
        self._log = folder / f"{name}.log"
        self._trace = TraceFolder(folder / "trace")
        self.lines: list[Line] = []
        base = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vllm_graft.demo.engine", folder / "model", self._result],
                env={**base, **os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self, out: Console) -> dict[str, Any]:
        """Show what happens until the engine has answered, and return its answer."""
        start = time.monotonic()
        with out.status("") as spinner:
            while self._process.poll() is None:
                self._show_new_lines(out)
                spinner.update(f"{time.monotonic() - start:3.0f} s  {self._last_log_line()}")
                time.sleep(POLL)
        self._show_new_lines(out)
        out.print(f"     {time.monotonic() - start:.0f} s")
        if self._process.returncode != 0 or not self._result.exists():
            log = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
            raise click.ClickException(f"the engine did not start:\n{log}")
        answer: dict[str, Any] = json.loads(self._result.read_text())
        return answer

    def _show_new_lines(self, out: Console) -> None:
        for line in self._trace.read():
            self.lines.append(line)
            theirs = not line.get("patch", "").startswith("vllm-")
            if line["event"] in _SHOWN and (theirs or line["event"] not in ("apply", "skip")):
                out.print(styled(line))

    def _last_log_line(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((text.strip()[:100] for text in reversed(lines) if text.strip()), "")


def _print_result(
    out: Console, before: dict[str, Any], after: dict[str, Any], lines: list[Line]
) -> None:
    start = min((line["ts"] for line in lines), default=0.0)
    applied = [line for line in lines if line["event"] == "apply"]
    out.print()
    out.print("Which patch was applied in which process", style="bold")
    out.print(
        table(
            "patch",
            "process",
            "pid",
            "at",
            "took",
            rows=(
                (
                    line["patch"],
                    line["process"],
                    line["pid"],
                    f"{line['ts'] - start:.1f} s",
                    f"{line['ms']:.2f} ms",
                )
                for line in sorted(applied, key=lambda line: (line["patch"], line["ts"]))
                if line["patch"].startswith("demo/")
            ),
        )
    )
    layer = sum(not line["patch"].startswith("demo/") for line in applied)
    out.print(f"and {layer} times one of the layer's own (vllm-graft/*, vllm-cpu/*)", style="dim")
    out.print()
    out.print("One answer, before and after", style="bold")
    out.print(table("", "before", "after", "changed in", "by", rows=_effects(before, after)))


def _effects(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[Any, ...]]:
    old, new = before["tokens"], after["tokens"]
    return [
        ("tokens", old, new, "VllmWorker-0", "demo/always-seven"),
        ("how many", len(old), len(new), "EngineCore", "demo/short-answers"),
        (
            "stop reason",
            before["stop_reason"],
            after["stop_reason"],
            "MainProcess",
            "demo/signed-answers",
        ),
    ]


def _landed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(old != new for _, old, new, *_ in _effects(before, after))
