"""Surveys as plain values: a real one of small trees, and one as large as they get."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_graft import PatchSet
from vllm_graft.check.source import Source
from vllm_graft.check.survey import survey
from vllm_graft.patch import PatchOptions

from ..unit.vllm_trees import write_tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\"><!-- <script> \u2028 & ]]>"

_OLD = """
    class Scheduler:
        def add(self, request):
            return request
        def free(self, request):
            return request
    def resolve(x):
        y = x
        for each in range(10):
            y += each
        return y
    def tuned(x):
        return x
    LIMIT = 1
    """
_RELEASES = {
    "0.31.0": {"core.py": _OLD, "run_time.py": "def late(x): pass\n"},
    "0.32.0": {
        "core.py": _OLD.replace("def add(self, request):", "def add(self, request, *, urgent):"),
        "run_time.py": "for name in names(): globals()[name] = 1\n",
    },
    "0.33.0": {
        "core.py": "class Scheduler: pass\ndef tuned(x): return x + 1\nclass LIMIT: pass\n",
        "moved.py": _OLD[_OLD.index("    def resolve") : _OLD.index("    def tuned")],
        "run_time.py": "for name in names(): globals()[name] = 1\n",
    },
}

DIFF = """\
--- a/vllm/core.py:12 (vLLM 0.31.0)
+++ b/vllm/core.py:2 (vLLM 0.33.0)
@@ -1,2 +1,2 @@
-def tuned(x):
--- counted
+def tuned(x):
+    <b>bold</b>
     return x
"""


def _declared() -> PatchSet:
    def take(*args: Any, **kwargs: Any) -> Any: ...
    def request(self: Any, request: Any) -> Any: ...

    patches = PatchSet("acme")
    patches.replace("vllm.core:Scheduler.add", request, **_words("add"))
    patches.wrap("vllm.core:Scheduler.free", take, **_words("free"))
    patches.replace("vllm.core:resolve", take, **_words("resolve"))
    patches.wrap("vllm.core:tuned", take, **_words("tuned", fixed_by="0.33"))
    patches.wrap("vllm.core:LIMIT", take, **_words("limit", vllm="<0.33"))
    patches.wrap("vllm.run_time:late", take, **_words("late"))
    hostile = _words("hostile", why=HOSTILE, how=HOSTILE, upstream="javascript:alert(1)")
    patches.wrap("vllm.core:tuned", take, **hostile)
    return patches


def _words(patch_id: str, **others: "Unpack[PatchOptions]") -> PatchOptions:
    words: PatchOptions = {
        "id": patch_id,
        "why": "It is slow.",
        "how": "Do it twice.",
        "upstream": "https://example.org/pull/1, see there",
        "remove": "When it is fast.",
        "vllm": ">=0.31,<0.34",
    }
    return {**words, **others}


def small_survey(folder: Path) -> dict[str, Any]:
    """Return a survey in which every state is; what a lock tells is put in by hand."""
    sources = [
        Source(name, Source.open(str(write_tree(folder / name, files, name))).tree)
        for name, files in _RELEASES.items()
    ]
    plain = survey(_declared().patches, sources).as_dict()
    tuned = cell(plain, "acme/tuned", "0.32.0")
    tuned |= {"state": "changed", "drift": "its body is not that of 0.31.0", "diff": DIFF}
    return plain


def cell(plain: dict[str, Any], patch_id: str, source: str) -> dict[str, Any]:
    """Return what a survey says of a patch on a vLLM."""
    (patch,) = (each for each in plain["patches"] if each["id"] == patch_id)
    (found,) = (each for each in patch["cells"] if each["source"] == source)
    assert isinstance(found, dict)
    return found


def large_survey(plain: dict[str, Any], patches: int = 150, versions: int = 40) -> dict[str, Any]:
    """Return a survey of many patches on many vLLMs, made of the cells of another."""
    names = [f"0.{minor}.0" for minor in range(versions)]
    kinds = plain["patches"]
    rows = []
    for number in range(patches):
        kind = kinds[number % len(kinds)]
        cells = [
            {**kind["cells"][index % 3], "source": name, "line": number * index}
            for index, name in enumerate(names)
        ]
        rows.append({**kind, "id": f"acme/patch-{number:03}", "cells": cells})
    sources = [{**plain["sources"][0], "name": name, "title": name} for name in names]
    return {**plain, "sources": sources, "patches": rows}
