"""A real headless browser, and pages opened in it whose requests and complaints are kept."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from vllm_graft.check.page import page_of

from .chromium import FLAGS, find_chromium
from .surveys import large_survey, small_survey


@dataclass
class Opened:
    """A page in the browser, and what it asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ids(self) -> list[str]:
        """Return the ids of the patches that are shown, from top to bottom."""
        # Not their inner texts: rows that are not laid out yet have none.
        return self.page.locator("#matrix tbody tr:visible .id").all_text_contents()

    def cell(self, patch_id: str, column: int) -> Any:
        """Return the cell of a patch in a column: 1 is the worst, 2 the first vLLM."""
        row = self.page.locator("#matrix tbody tr", has=self.page.get_by_text(patch_id, exact=True))
        return row.locator("th, td").nth(column)

    def style(self, selector: str, name: str, pseudo: str = "") -> str:
        """Return the computed style of the first element that a selector finds."""
        script = "([s, n, p]) => getComputedStyle(document.querySelector(s), p)[n]"
        return str(self.page.evaluate(script, [selector, name, pseudo or None]))

    def settle(self) -> None:
        """Wait until what is in sight has been laid out."""
        frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(frame)

    @property
    def focused(self) -> str:
        """The address that the focused link leads to, or the id of what is focused otherwise."""
        script = "document.activeElement.getAttribute('href') || document.activeElement.id"
        return str(self.page.evaluate(script))


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the browser of this machine, started once."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(FLAGS), chromium_sandbox=False
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a survey in which every state is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return small_survey(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def small(plain: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of that survey."""
    file = tmp_path_factory.mktemp("page") / "small.html"
    file.write_text(page_of(plain), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def large(plain: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of 150 patches on 40 vLLMs."""
    file = tmp_path_factory.mktemp("page") / "large.html"
    file.write_text(page_of(large_survey(plain)), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Browser, small: Path) -> Iterator[Open]:
    """Return a function that opens a page; afterwards no page may have complained or asked."""
    pages: list[tuple[Opened, str]] = []

    def opened(file: Path = small, fragment: str = "", **options: Any) -> Opened:
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 800}, **options})
        page.set_default_timeout(10_000)
        made = Opened(page)
        page.on("request", lambda request: made.requests.append(request.url))
        page.on("console", lambda message: made.complaints.append(message.text))
        page.on("pageerror", lambda error: made.complaints.append(str(error)))
        page.goto(f"{file.as_uri()}{fragment}")
        pages.append((made, file.as_uri()))
        return made

    yield opened
    for made, address in pages:
        made.page.close()
        assert made.complaints == []
        assert [each.partition("#")[0] for each in made.requests] == [address]
