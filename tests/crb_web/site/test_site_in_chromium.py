"""The site in a real browser, from disk: the policy blocks nothing of it, and axe finds no fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

KINDS = ("comparisons", "judges", "pictures", "pull-requests", "rows", "sweeps", "trial-lists", "trials")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def some_pages(site: Path) -> list[Path]:
    """The first page of every kind."""
    return [site / "index.html", site / "contents.html", *(min((site / kind).glob("*.html")) for kind in KINDS)]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_pages_from_disk(site: Path, browser: Any, scheme: str, width: int) -> None:
    """Sheets and pictures load under the policy, nothing is blocked or asked elsewhere, only tables scroll sideways."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: request.url.startswith("file:") or said.append(request.url))
    for path in some_pages(site):
        page.goto(path.as_uri())
        page.evaluate("for (const each of document.images) each.loading = 'eager'")
        page.wait_for_function("[...document.images].every((each) => each.complete)")
        assert page.evaluate("[...document.images].every((each) => each.naturalWidth > 0)") is True
        assert page.evaluate("getComputedStyle(document.body).marginTop") == "0px", path.name
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth") is True, path.name
    assert said == []
    context.close()


def test_no_fault_that_axe_finds(site: Path, browser: Any) -> None:
    """In both colour schemes."""
    for scheme, width in (("light", 1280), ("dark", 360)):
        # axe itself is a script that the pages' own policy would block.
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
        page = context.new_page()
        for path in some_pages(site):
            page.goto(path.as_uri())
            faults = Axe().run(page).response["violations"]
            assert [(path.name, fault["id"], fault["nodes"][0]["html"]) for fault in faults] == []
        context.close()
