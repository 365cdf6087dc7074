"""A survey as one self-contained HTML page."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .output import relative

if TYPE_CHECKING:
    from .survey import Survey

_FOLDER = Path(__file__).parent / "templates" / "page"
_SCRIPTS = ("elements.js", "matrix.js", "filter.js", "details.js", "start.js")
_LEVELS = ("error", "warning", "note")
_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""What could end the element, or begin a comment in it; within JSON it can only be in a string."""


def page(survey: "Survey", root: Path) -> str:
    """Return the page of a survey: patches by versions, each cell opening to its verdict.

    Files of a project are named from its `root` on, since a page is looked at elsewhere.
    """
    values = survey.as_dict()
    for patch in values["patches"]:
        file, _, line = patch["declared"].rpartition(":")
        patch["declared"] = f"{relative(Path(file), root)}:{line}"
    return page_of(values)


def page_of(survey: Mapping[str, Any]) -> str:
    """Return the page of a survey that is given as plain values, in the shape of `as_dict`.

    Nothing in them is trusted: texts reach the page within JSON, and its script puts them there as
    text. The policy of the page allows its own script and style, by their hashes, and no request.
    """
    style = _read("page.css")
    script = "\n".join(map(_read, _SCRIPTS))
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html").render(
        title="Patches on vLLM",
        summary=_summary(survey),
        policy=_policy(script, style),
        style=Markup(style),
        script=Markup(script),
        broken=survey["broken"],
        data=Markup(_json(survey)),
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    allowed = (
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",  # the empty icon, for which a browser would ask a server otherwise
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(allowed)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(survey: Mapping[str, Any]) -> str:
    values: dict[str, int] = {}
    patches = [_shared(each, values) for each in survey["patches"]]
    text = json.dumps(
        {"sources": survey["sources"], "patches": patches, "values": list(values)},
        separators=(",", ":"),
        default=str,
    )
    return text.translate(_IN_SCRIPT)


def _shared(patch: Mapping[str, Any], values: dict[str, int]) -> dict[str, Any]:
    """Return a patch whose cells have the places of their values, as JSON, in a common list.

    Most cells of a patch say the same, and there may be thousands; what is empty is left out.
    """
    cells = [
        {
            key: values.setdefault(json.dumps(value, default=str), len(values))
            for key, value in cell.items()
            if value
        }
        for cell in patch["cells"]
    ]
    return {**patch, "cells": cells}


def _summary(survey: Mapping[str, Any]) -> str:
    levels = [each["level"] for each in survey["findings"]]
    found = [_plural(levels.count(level), level) for level in _LEVELS if level in levels]
    patches, sources = len(survey["patches"]), len(survey["sources"])
    size = f"{_plural(patches, 'patch', 'es')} on {_plural(sources, 'vLLM')}"
    return f"{size}: {', '.join(found) or 'no findings'}"


def _plural(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"
