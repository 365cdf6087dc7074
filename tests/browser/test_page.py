"""The page of a survey, as a reader with a mouse, a keyboard or a printer meets it."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from .conftest import Open
from .surveys import HOSTILE

STATES = ("missing", "signature", "kind", "moved", "changed", "unknown", "ok", "out-of-range")
IDS = ["acme/add", "acme/free", "acme/hostile", "acme/late", "acme/limit", "acme/resolve"]
IDS += ["acme/tuned"]


def test_every_cell_says_its_state(opened: Open) -> None:
    matrix = opened()
    expect(matrix.page.get_by_role("grid")).to_be_visible()
    assert matrix.page.locator("#matrix thead th").all_inner_texts() == [
        "Patch",
        "Worst",
        "0.31.0",
        "0.32.0",
        "0.33.0",
    ]
    rows = matrix.page.locator("#matrix tbody tr").all()
    cells = {
        row.locator(".id").text_content(): row.locator("td a").all_text_contents() for row in rows
    }
    assert cells["acme/add"] == ["missing", "ok", "signature", "missing"]
    assert cells["acme/resolve"] == ["moved", "ok", "ok", "moved"]
    assert cells["acme/late"] == ["unknown", "ok", "unknown", "unknown"]
    assert cells["acme/limit"] == ["kind", "kind", "kind", "out-of-range"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_are_told_apart_by_colour_and_by_shape(opened: Open, scheme: str) -> None:
    matrix = opened(color_scheme=scheme)
    cells = {state: f"#matrix td.{state}:not(.worst)" for state in STATES}
    colours = {matrix.style(cell, "backgroundColor") for cell in cells.values()}
    shapes = {matrix.style(cell, "content", "::before") for cell in cells.values()}
    assert len(colours) == len(shapes) == len(STATES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_there_is_to_read_has_contrast(opened: Open, scheme: str) -> None:
    matrix = opened(color_scheme=scheme, fragment="#acme/tuned@0.32.0")
    texts = _texts(matrix.page)
    assert {"missing", "acme/add", "out-of-range", "What upstream changed in the target"} <= {
        each["text"] for each in texts
    }
    low = [each for each in texts if _contrast(each["ink"], each["paper"]) < 4.5]
    assert low == []


def test_the_scheme_is_that_of_the_reader(opened: Open) -> None:
    light, dark = (opened(color_scheme=each) for each in ("light", "dark"))
    assert _luminance(light.style("body", "backgroundColor")) > 0.8
    assert _luminance(dark.style("body", "backgroundColor")) < 0.1


def test_headings_sort(opened: Open) -> None:
    matrix = opened()
    assert matrix.ids() == IDS
    headers = {
        name: matrix.page.get_by_role("grid").get_by_role("columnheader", name=name)
        for name in ("Patch", "Worst", "0.32.0")
    }
    expect(headers["Patch"]).to_have_attribute("aria-sort", "ascending")
    headers["Patch"].click()
    assert matrix.ids() == IDS[::-1]
    headers["0.32.0"].click()
    assert matrix.ids()[:2] == ["acme/add", "acme/limit"]  # signature, then kind
    expect(headers["0.32.0"]).to_have_attribute("aria-sort", "descending")
    expect(headers["Patch"]).not_to_have_attribute("aria-sort", re.compile(".*"))
    headers["0.32.0"].click()
    assert matrix.ids()[-1] == "acme/add"
    headers["Worst"].click()
    assert matrix.ids()[:2] == ["acme/add", "acme/free"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("RESOLVE", ["acme/resolve"]),
        ("scheduler.free", ["acme/free"]),
        ("hacked", ["acme/hostile"]),
        ("surveys.py", IDS),
        ("tuned slow", ["acme/tuned"]),
        ("no such thing", []),
    ],
)
def test_a_search_finds_ids_targets_reasons_and_files(
    opened: Open, text: str, shown: list[str]
) -> None:
    matrix = opened()
    matrix.page.get_by_label("Search").fill(text)
    assert matrix.ids() == shown
    assert matrix.page.locator("#nothing").is_visible() == (not shown)
    count = "7 patches" if shown == IDS else f"{len(shown)} of 7 patches"
    expect(matrix.page.locator("#shown")).to_have_text(count)
    matrix.page.get_by_label("Search").fill("")
    assert matrix.ids() == IDS


def test_the_legend_counts_and_filters(opened: Open) -> None:
    matrix = opened()
    states = matrix.page.get_by_role("group", name="State").get_by_role("button")
    assert states.all_text_contents() == [
        "missing 2",
        "signature 1",
        "kind 2",
        "moved 1",
        "changed 1",
        "unknown 2",
        "ok 11",
        "out-of-range 1",
    ]
    states.filter(has_text="missing").click()
    assert matrix.ids() == ["acme/add", "acme/free"]
    states.filter(has_text="changed").click()
    assert matrix.ids() == ["acme/add", "acme/free", "acme/tuned"]
    states.filter(has_text="missing").click()
    assert matrix.ids() == ["acme/tuned"]
    expect(states.filter(has_text="changed")).to_have_attribute("aria-pressed", "true")


def test_patches_without_findings_can_be_left_out(opened: Open) -> None:
    matrix = opened()
    matrix.page.get_by_label("with findings only").check()
    assert matrix.ids() == [each for each in IDS if each != "acme/hostile"]


def test_a_cell_opens_by_click_to_what_it_rests_on(opened: Open) -> None:
    matrix = opened()
    matrix.cell("acme/add", 3).click()
    dialog = matrix.page.get_by_role("dialog", name="acme/add on vLLM 0.32.0")
    text = dialog.inner_text()
    for each in (
        "signature",
        "it fails",
        "(self, request, *, urgent)",
        "request(self: Any, request: Any)",
    ):
        assert each in text
    for each in ("vllm.core:Scheduler.add", "vllm/core.py:3", "It is slow.", "When it is fast."):
        assert each in text
    assert matrix.page.url.endswith("#acme/add@0.32.0")


def test_a_cell_opens_by_keyboard_and_escape_leads_back(opened: Open) -> None:
    matrix = opened()
    keyboard = matrix.page.keyboard
    matrix.page.get_by_label("with findings only").focus()
    keyboard.press("Tab")  # into the table
    for key in ("ArrowDown", "End", "ArrowLeft", "Enter"):
        keyboard.press(key)
    dialog = matrix.page.get_by_role("dialog")
    expect(dialog).to_contain_text("urgent")
    keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert matrix.focused == "#acme/add@0.32.0"
    assert "#" not in matrix.page.url
    keyboard.press("ArrowUp")
    keyboard.press("Enter")  # the heading: it sorts
    header = matrix.page.get_by_role("columnheader", name="0.32.0")
    expect(header).to_have_attribute("aria-sort", "descending")


def test_tab_passes_the_table_in_one_step(opened: Open) -> None:
    matrix = opened()
    assert matrix.page.locator("#matrix [tabindex='0']").count() == 1
    matrix.page.keyboard.press("Tab")
    matrix.cell("acme/free", 2).locator("a").focus()
    assert matrix.page.locator("#matrix [tabindex='0']").count() == 1
    matrix.page.get_by_label("Search").fill("resolve")  # what Tab reached is hidden
    assert matrix.page.locator("#matrix [tabindex='0']:visible").count() == 1


def test_a_changed_target_shows_the_difference_and_the_lock(opened: Open) -> None:
    matrix = opened(fragment="#acme/tuned@0.32.0")
    expect(matrix.page.get_by_role("dialog")).to_contain_text("its body is not that of 0.31.0")
    lines = matrix.page.locator("pre.diff span")
    kinds = [each.get_attribute("class") for each in lines.all()]
    assert kinds == ["file", "file", "hunk", "removed", "removed", "added", "added", "same"]
    assert lines.nth(6).inner_text().strip() == "+    <b>bold</b>"
    colours = {
        matrix.style(f"pre.diff .{kind}", "backgroundColor") for kind in ("added", "removed")
    }
    assert len(colours) == 2


def test_what_upstream_has_fixed_is_to_be_removed(opened: Open) -> None:
    matrix = opened()
    expect(matrix.cell("acme/tuned", 4)).to_have_text("ok remove")
    matrix.cell("acme/tuned", 4).click()
    expect(matrix.page.get_by_role("dialog")).to_contain_text("Remove it: vLLM has the fix since")


def test_a_patch_opens_to_its_fields(opened: Open) -> None:
    matrix = opened()
    matrix.page.get_by_role("rowheader", name="acme/free").click()
    dialog = matrix.page.get_by_role("dialog", name="acme/free")
    named = dialog.locator("dt").all_inner_texts()
    assert named[:7] == ["Operation", "Target", "vLLM", "Would apply", "Why", "How", "Upstream"]
    expect(dialog.locator("dd", has_text="surveys.py:")).to_be_visible()
    link = dialog.get_by_role("link", name="https://example.org/pull/1")
    expect(link).to_have_attribute("href", "https://example.org/pull/1")
    matrix.page.keyboard.press("Escape")
    assert matrix.focused == "#acme/free"


def test_one_walks_from_version_to_version(opened: Open) -> None:
    matrix = opened(fragment="#acme/add@0.31.0")
    dialog = matrix.page.get_by_role("dialog")
    expect(dialog.locator("#back")).to_be_disabled()
    dialog.get_by_role("button", name="0.32.0").click()
    expect(dialog).to_contain_text("acme/add on vLLM 0.32.0")
    dialog.get_by_role("link", name="0.33.0 missing").click()
    expect(dialog).to_contain_text("acme/add on vLLM 0.33.0")
    expect(dialog.locator("#forward")).to_be_disabled()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    assert matrix.focused == "#acme/add@0.33.0"


@pytest.mark.parametrize("fragment", ["", "#acme/none", "#acme/add@9", "#%E0%A4%A", "#@"])
def test_an_address_of_nothing_opens_nothing(opened: Open, fragment: str) -> None:
    matrix = opened(fragment=fragment)
    expect(matrix.page.get_by_role("dialog")).to_be_hidden()
    assert matrix.ids() == IDS


def test_the_way_back_of_the_browser_closes(opened: Open) -> None:
    matrix = opened()
    matrix.cell("acme/add", 3).click()
    expect(matrix.page.get_by_role("dialog")).to_be_visible()
    matrix.page.go_back()
    expect(matrix.page.get_by_role("dialog")).to_be_hidden()
    assert matrix.ids() == IDS


def test_findings_are_listed_and_lead_to_their_cells(opened: Open) -> None:
    matrix = opened()
    row = matrix.page.locator("#findings tbody tr", has_text="urgent").first
    assert row.locator("td").all_inner_texts()[:4] == ["error", "acme/add", "0.32.0", "signature"]
    row.get_by_role("link").click()
    expect(matrix.page.get_by_role("dialog")).to_contain_text("acme/add on vLLM 0.32.0")


def test_hostile_text_stays_text(opened: Open) -> None:
    matrix = opened(fragment="#acme/hostile")
    dialog = matrix.page.get_by_role("dialog")
    shown = dialog.locator("dd", has_text="onerror").first.evaluate("each => each.textContent")
    assert shown == HOSTILE
    assert matrix.page.locator("img").count() == 0
    assert matrix.page.title() == "Patches on vLLM"
    assert dialog.get_by_role("link", name="javascript").count() == 0


def test_what_got_in_could_neither_run_nor_ask(opened: Open) -> None:
    matrix = opened()
    failed: dict[str, str | None] = {}
    matrix.page.on("requestfailed", lambda request: failed.update({request.url: request.failure}))
    matrix.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'hacked'";
            const image = new Image();
            image.src = "http://127.0.0.1:9/pixel";
            document.body.append(script, image);
            document.body.insertAdjacentHTML("beforeend", "<b onclick='document.title=1'>b</b>");
            document.body.lastChild.click();
            return fetch("http://127.0.0.1:9/").catch(() => null);
        }"""
    )
    assert matrix.page.title() == "Patches on vLLM"
    refused = [each for each in matrix.complaints if "Content Security Policy" in each]
    assert len(refused) >= 4
    assert failed == dict.fromkeys(matrix.requests[1:], "csp")
    matrix.complaints.clear()
    del matrix.requests[1:]


def test_the_head_and_the_patches_stay_in_sight(opened: Open, large: Path) -> None:
    matrix = opened(large)
    matrix.page.locator("#frame").evaluate("each => each.scrollTo(1500, 3000)")
    matrix.settle()
    frame = _box(matrix.page.locator("#frame"))
    header = _box(matrix.page.locator("#matrix thead th").first)
    assert abs(header["x"] - frame["x"]) <= 2
    assert abs(header["y"] - frame["y"]) <= 2
    shown = [
        each
        for each in matrix.page.locator("#matrix tbody th").all()[30:80]
        if frame["y"] + 100 < _box(each)["y"] < frame["y"] + frame["height"] - 100
    ]
    assert shown
    assert all(abs(_box(each)["x"] - frame["x"]) <= 2 for each in shown)


def test_a_large_page_is_small_and_quick(opened: Open, large: Path) -> None:
    assert large.stat().st_size < 1_500_000
    matrix = opened(large)
    drawn = matrix.page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    took = matrix.page.evaluate(
        """() => ["patch-1", "free 07", ""].map((text) => {
            const start = performance.now();
            search.value = text;
            search.dispatchEvent(new Event("input"));
            void matrix.offsetHeight;
            return performance.now() - start;
        })"""
    )
    assert drawn < 5_000  # tenths of that where nothing else runs
    assert max(took) < 500
    assert matrix.page.locator("#shown").inner_text() == "150 patches"


def test_a_narrow_screen_scrolls_the_table_alone(opened: Open, large: Path) -> None:
    matrix = opened(large, viewport={"width": 400, "height": 700})
    assert matrix.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert _box(matrix.page.locator("#matrix tbody th").first)["width"] < 200
    matrix.page.evaluate("location.hash = '#acme/patch-000@0.1.0'")
    dialog = _box(matrix.page.get_by_role("dialog"))
    assert (dialog["x"], dialog["width"]) == (0, 400)


def test_paper_has_the_whole_table(opened: Open, large: Path) -> None:
    matrix = opened(large)
    matrix.page.emulate_media(media="print")
    assert matrix.page.get_by_label("Search").is_hidden()
    assert matrix.page.get_by_role("group", name="State").is_visible()
    assert matrix.style("#frame", "overflow") == "visible"
    assert matrix.style("#matrix thead", "display") == "table-header-group"  # on every page
    assert matrix.style("#matrix thead button", "display") == "contents"
    cell = "#matrix td.missing:not(.worst)"
    assert matrix.style(cell, "printColorAdjust") == "exact"
    assert matrix.page.locator("#matrix").evaluate("each => each.scrollWidth") <= 1200
    assert opened().page.pdf().startswith(b"%PDF")


def _box(locator: Any) -> dict[str, float]:
    box = locator.bounding_box()
    assert box is not None
    return dict(box)


def _texts(page: Any) -> list[dict[str, str]]:
    """Return the colours of all elements that have text of their own, and what is behind them."""
    script = """() => {
        const clear = "rgba(0, 0, 0, 0)";
        const behind = (each) => {
            const colour = each && getComputedStyle(each).backgroundColor;
            return colour === clear ? behind(each.parentElement) : colour || "rgb(255, 255, 255)";
        };
        const own = (each) => [...each.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        const enabled = (each) => !each.closest(":disabled, noscript, script, style");
        return [...document.body.querySelectorAll("*")]
            .filter((each) => own(each) && enabled(each))
            .map((each) => ({ text: each.textContent.slice(0, 40), name: each.className,
                ink: getComputedStyle(each).color, paper: behind(each) }));
    }"""
    found = page.evaluate(script)
    assert isinstance(found, list)
    return found


def _luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2 of `rgb(…)`."""
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(ink: str, paper: str) -> float:
    """Return the contrast ratio of WCAG 2.2 of two colours."""
    light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
