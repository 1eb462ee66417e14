"""The pages behind a number in a real browser: nothing blocked, nothing wider than a phone, no fault that axe finds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from benchmarks.filled_sweep import fill
from tests.crb_web.audit_store import imported_home, opened

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

PAGES = (
    "/compare?sweep=bench",
    "/compare?sweep=bench&build=agent-0&build=agent-1&build=agent-2",
    "/sweeps/trial-run/pull-requests/pr-1",
    "/sweeps/trial-run/pull-requests/pr-1?file=a.py",
    "/sweeps/trial-run/trials",
    "/trials/1",
    "/judges",
    "/judges/j-bench",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running ``crb serve``, as a user starts it."""
    home = imported_home(tmp_path_factory.mktemp("audit"))
    store = opened(home)
    fill(store, builds=3, pull_requests=4, rounds=3)
    store.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "crb_cli", "serve", "--port", "0"],
        env={"CRB_HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as driver:
        opened_browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened_browser
        opened_browser.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_no_fault_that_axe_finds(address: str, browser: Any, scheme: str, width: int) -> None:
    """Names, roles, contrast, landmarks and order of headings, in both colour schemes; only tables scroll sideways."""
    # axe itself is a script that the pages' own policy would block.
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page = context.new_page()
    for path in PAGES:
        page.goto(address + path)
        faults = Axe().run(page).response["violations"]
        assert [(path, fault["id"], fault["nodes"][0]["html"]) for fault in faults] == []
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth") is True
    context.close()


def test_nothing_is_blocked_under_the_policy(address: str, browser: Any) -> None:
    """No script, style or picture of ours breaks the pages' own content security policy, and no script fails."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for path in PAGES:
        page.goto(address + path)
        assert (path, said) == (path, [])
    page.close()


def test_a_link_opens_a_folded_finding(address: str, browser: Any) -> None:
    """An anchor inside of a closed file opens it, so that a cited finding is seen."""
    page = browser.new_page()
    page.goto(f"{address}/sweeps/trial-run/pull-requests/pr-1#golden-1")
    assert page.locator("#golden-1").is_visible()
    page.locator("details.file").first.evaluate("element => { element.open = false }")
    page.evaluate("location.hash = '#golden-0'")
    page.wait_for_function("document.querySelector('details.file').open")
    assert page.locator("#golden-0").is_visible()
    page.close()
