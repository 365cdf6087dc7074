"""The page of a survey: what is in the file. How it behaves is told by tests/browser."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.catalog import BrokenSet
from vllm_graft.check.page import page, page_of
from vllm_graft.check.source import Source
from vllm_graft.check.survey import Survey, survey
from vllm_graft.errors import BrokenSetError

from .vllm_trees import write_tree

ENDINGS = ("</script>", "</SCRIPT >", "<!--", "<script", "]]>", "\u2028", "&lt;", "\ud800")


ROOT = Path(__file__).parents[2]


@pytest.fixture
def surveyed(tmp_path: Path, declare: Any, monkeypatch: pytest.MonkeyPatch) -> Survey:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = write_tree(tmp_path / "0.32.0", {"a.py": "def f(x): pass\n"})
    patch = declare("replace", "vllm.a:f", lambda y: 1, why=" ".join(ENDINGS))
    error = BrokenSetError("line 1 of <b>patches.py</b>")
    return survey([patch], [Source.open(str(root))], broken=[BrokenSet("other", "", error)])


def embedded(html: str) -> dict[str, Any]:
    """Return the data of a page as its script makes them: cells have places of values."""
    (text,) = re.findall(r'<script type="application/json" id="survey">(.*?)</script>', html, re.S)
    data = json.loads(text)
    values = [json.loads(each) for each in data.pop("values")]
    for patch in data["patches"]:
        patch["cells"] = [
            {key: values[place] for key, place in cell.items()} for cell in patch["cells"]
        ]
    assert isinstance(data, dict)
    return data


def test_the_page_has_all_that_the_survey_says(surveyed: Survey) -> None:
    plain = json.loads(json.dumps(surveyed.as_dict(), default=str))
    data = embedded(page(surveyed, ROOT))
    assert data["sources"] == plain["sources"]
    (patch,), (expected,) = data["patches"], plain["patches"]
    (cell,) = expected.pop("cells")
    assert patch.pop("cells") == [{key: value for key, value in cell.items() if value}]
    expected["declared"] = expected["declared"].removeprefix(f"{ROOT}/")
    assert patch == expected
    assert cell["signatures"][0] == "(x)"


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_text_ends_the_data(surveyed: Survey, ending: str) -> None:
    html = page(surveyed, ROOT)
    assert ending.strip() in embedded(html)["patches"][0]["why"]
    assert html.lower().count("</script") == html.lower().count("<script") == 2
    assert html.count("<!--") == 0
    html.encode()


def test_the_policy_allows_what_the_page_has_itself_and_nothing_else(surveyed: Survey) -> None:
    html = page(surveyed, ROOT)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)">', html)
    rules = dict(each.split(" ", 1) for each in policy.replace("&#39;", "'").split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": _hash(re.findall(r"<script>(.*?)</script>", html, re.S)),
        "style-src": _hash(re.findall(r"<style>(.*?)</style>", html, re.S)),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(texts: list[str]) -> str:
    (text,) = texts
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_nothing_is_asked_of_a_server(surveyed: Survey) -> None:
    html = re.sub(
        r'<script type="application/json".*?</script>', "", page(surveyed, ROOT), flags=re.S
    )
    assert re.findall(r"\b(?:src|action|srcset)=|@import|url\(", html) == []
    assert re.findall(r'href="(.*?)"', html) == ["data:,"]


def test_sets_that_could_not_be_loaded_are_told(surveyed: Survey) -> None:
    assert "line 1 of &lt;b&gt;patches.py&lt;/b&gt;" in page(surveyed, ROOT)


@pytest.mark.parametrize(
    ("levels", "summary"),
    [
        ([], "0 patches on 1 vLLM: no findings"),
        (["note", "error", "error"], "0 patches on 1 vLLM: 2 errors, 1 note"),
        (["warning"], "0 patches on 1 vLLM: 1 warning"),
    ],
)
def test_the_summary_counts(surveyed: Survey, levels: list[str], summary: str) -> None:
    findings = [{"level": level} for level in levels]
    html = page_of({**surveyed.as_dict(), "patches": [], "findings": findings})
    assert f'<p id="summary">{summary}</p>' in html
