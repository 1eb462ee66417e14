"""For everyone: what axe finds, keyboards, zoom and small screens; and pictures of every page to be looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import Tabs
from tests.browser.pages import PAGES, address

#: Where axe looks for everything; elsewhere only at what colours change.
_WHOLE = {("light", 1280), ("dark", 360)}
_CONTRAST = {"runOnly": ["color-contrast"]}
#: Runs in every page at every size: what is wider than its frame can be scrolled by keyboard, and says what it is.
_SCROLLING = """() => [...document.querySelectorAll('body *')].filter(each => {
  const style = getComputedStyle(each);
  return ['auto', 'scroll'].includes(style.overflowX) && each.scrollWidth > each.clientWidth + 1
    && !(each.tabIndex >= 0 && (each.getAttribute('aria-label') || each.getAttribute('aria-labelledby')));
}).map(each => each.outerHTML.slice(0, 200))"""
_SIDEWAYS = "document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
_PICTURES_LOADED = """async () => {
  for (const each of document.images) each.loading = 'eager';
  await Promise.all([...document.images].map(each => each.decode().catch(() => each.alt)));
  return [...document.images].filter(each => !each.naturalWidth).map(each => each.currentSrc);
}"""


@pytest.fixture(scope="module")
def checked_page(all_tabs: Tabs) -> Page:
    """A page in which axe may run: the pages' own policy would block its script."""
    return all_tabs.open(bypass_csp=True)


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept: ``CRB_SCREENSHOTS``."""
    folder = Path(os.environ.get("CRB_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everyone(tabs: Tabs, checked_page: Page, screenshots: Path, name: str) -> None:
    """No fault that axe finds, in light and dark, on a laptop and on a phone; no size at which the page scrolls aside.

    Sizes: a laptop, the same at 200% (640), a phone (360), 400% (320, WCAG 1.4.10), and letters twice as large. Tables
    scroll in frames of their own that a keyboard reaches and a screen reader names.
    """
    page = checked_page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(tabs.origin + address(tabs.origin, name))
    # What is not in view is not painted, and axe and a picture of the whole page would pass over it.
    page.add_style_tag(content=".hunk { content-visibility: visible !important }")
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 900})
        is_whole = (scheme, width) in _WHOLE
        faults = Axe().run(page, options=None if is_whole else _CONTRAST).response["violations"]
        assert [(fault["id"], each["html"]) for fault in faults for each in fault["nodes"]] == []
        if is_whole:
            assert page.evaluate(_PICTURES_LOADED) == []
            page.screenshot(path=screenshots / f"{name}-{width}-{scheme}.png", full_page=True)
    for width in (1280, 640, 360, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert (width, page.evaluate(_SIDEWAYS)) == (width, 0)
        assert page.evaluate(_SCROLLING) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert page.evaluate(_SIDEWAYS) == 0


def test_nothing_is_blocked_under_the_policy(tabs: Tabs) -> None:
    """No script, style or picture of ours breaks the pages' own policy; a picture shows by itself too."""
    page = tabs.open(height=3000)
    for name in PAGES:
        page.goto(tabs.origin + address(tabs.origin, name))
        assert (name, page.locator("h1").count(), tabs.said) == (name, 1, [])
    page.goto(f"{tabs.origin}/leaderboard/strata.svg?sweep=bench")
    assert page.locator("svg").count() == 1


@pytest.mark.parametrize("name", ["leaderboard-absent", "pull-request", "trial-showcase", "judge", "sweep"])
def test_a_keyboard_reaches_everything_and_shows_where_it_is(tabs: Tabs, name: str) -> None:
    """Tab meets every link, field and frame that can be seen, in the order of the document, each with an outline."""
    page = tabs.open(address(tabs.origin, name))
    wanted = page.evaluate(
        """() => {
          window.stops = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
            .filter(each => each.type !== 'hidden' && !each.disabled && each.checkVisibility())
            .filter(each => each.type !== 'radio' || each.checked);
          return stops.length;
        }"""
    )
    met = []
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            """() => [stops.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"""
        )
        if place < 0:
            break
        assert outline not in {"none", ""}, page.evaluate("document.activeElement.outerHTML")
        met.append(place)
        if place == wanted - 1:
            break
    assert met == list(range(wanted)), page.evaluate("document.activeElement.outerHTML")


def test_the_first_stop_leads_to_the_content(tabs: Tabs) -> None:
    """Who cannot skip by eye need not hear the head of every page."""
    page = tabs.open("/?sweep=bench")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_reason_opens_on_focus_and_goes_with_escape(tabs: Tabs) -> None:
    """Why a value is absent shows to a keyboard as to a mouse, can be dismissed, and comes back (WCAG 1.4.13)."""
    page = tabs.open("/?sweep=bench&producer=human_review&basis=augmented", pictures=False)
    why = page.locator("td .why").first
    size = "each => each.querySelector('.reason').getBoundingClientRect().width"
    assert why.evaluate(size) <= 1
    for meet, leave in (
        (why.focus, lambda: page.locator("#judge").focus()),
        (why.hover, lambda: page.locator("h1").hover()),
    ):
        meet()
        assert why.evaluate(size) > 100
        page.keyboard.press("Escape")
        assert why.evaluate(size) <= 1
        leave()
        meet()
        assert why.evaluate(size) > 100
        leave()
        assert why.evaluate(size) <= 1


def test_tables_are_readable_without_scripts_and_styles(tabs: Tabs) -> None:
    """A column says what it holds in words, and the reason of an absent value is text of the page."""
    page = tabs.open("/?sweep=bench&producer=human_review&basis=augmented", java_script_enabled=False, pictures=False)
    tree = page.locator("table.board").aria_snapshot()
    assert "columnheader" in tree
    assert "rowheader" in tree
    assert "Undefined: golden findings are filtered by producer" in tree


def test_a_link_opens_a_folded_finding(tabs: Tabs) -> None:
    """An anchor inside of a closed file opens it, so that a cited finding is seen."""
    page = tabs.open("/sweeps/trial-run/pull-requests/pr-1#golden-1")
    assert page.locator("#golden-1").is_visible()
    page.locator("details.file").first.evaluate("element => { element.open = false }")
    page.evaluate("location.hash = '#golden-0'")
    page.wait_for_function("document.querySelector('details.file').open")
    assert page.locator("#golden-0").is_visible()
