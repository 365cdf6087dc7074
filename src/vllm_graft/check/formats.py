"""What a survey found, as GitHub and GitLab show it beside the lines of a change."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .alike import together
from .findings import Finding, Level
from .survey import Survey

OUTSIDE = ("pyproject.toml", 1)
"""Where GitLab, which must have a place, shows what is declared outside of the repository."""

_COMMANDS: Mapping[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_SEVERITIES: Mapping[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


def repository(folder: Path) -> Path:
    """Return the root of the git repository that a folder is in; the folder if it is in none."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def github(survey: Survey, root: Path) -> str:
    """Return workflow commands that annotate the declarations of patches, one a line.

    GitHub shows ten errors and ten warnings of a step, so what is the same on several vLLMs is one
    annotation. Files are relative to the root of the repository; what is declared outside of it
    has none. The format is in GitHub's documentation of workflow commands.
    """
    lines = [
        _command("error", str(each.error), {"title": f"patch set {each.name}"})
        for each in survey.broken
    ]
    for group in together(survey.findings):
        found = group[-1]
        title = f"{found.patch.id}{_where(survey, *group)}: {found.rule}"
        place = _place(found, root)
        properties = {"file": place[0], "line": place[1]} if place else {}
        command = _COMMANDS[found.level]
        lines.append(_command(command, found.message, {**properties, "title": title}))
    return "".join(f"{line}\n" for line in lines)


def gitlab(survey: Survey, root: Path) -> str:
    """Return a report for GitLab's Code Quality: a JSON array with an object for each finding.

    The fingerprint is made of rule, patch and vLLM, so that a finding stays the same when lines
    move or its words change. Paths are relative to the root of the repository. The format is in
    GitLab's documentation of Code Quality.
    """
    issues = [
        _issue("broken-set", "critical", str(each.error), OUTSIDE, each.name)
        for each in survey.broken
    ]
    seen: Counter[tuple[str, str, str | None]] = Counter()
    for each in survey.findings:
        key = (each.rule, each.patch.id, each.source)
        seen[key] += 1
        issues.append(
            _issue(
                each.rule,
                _SEVERITIES[each.level],
                f"{each.patch.id}{_where(survey, each)}: {each.message}",
                _place(each, root) or OUTSIDE,
                *key[1:],
                seen[key],
            )
        )
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _command(name: str, message: str, properties: Mapping[str, object]) -> str:
    written = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {written}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _issue(
    rule: str, severity: str, description: str, place: tuple[str, int], *identity: object
) -> dict[str, Any]:
    path, line = place
    told = json.dumps([rule, *identity])
    return {
        "description": description,
        "check_name": f"vllm-graft/{rule}",
        "fingerprint": hashlib.sha256(told.encode()).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }


def _where(survey: Survey, *findings: Finding) -> str:
    """Return the vLLMs that findings are about as people know them; nothing if about none."""
    asked = {each.source for each in findings}
    titles = [each.title for each in survey.sources if each.text in asked]
    return f" on vLLM {', '.join(titles)}" if titles else ""


def _place(finding: Finding, root: Path) -> tuple[str, int] | None:
    """Return file and line of a patch's declaration; None where it is outside of the root."""
    location = finding.patch.location
    try:
        path = Path(location.file).resolve().relative_to(root.resolve())
    except ValueError:
        return None
    return path.as_posix(), max(location.line, 1)
