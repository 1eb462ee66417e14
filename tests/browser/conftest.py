"""A real browser over a real server: nothing may leave this machine, fail in a script, or be blocked by the policy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from benchmarks.web import served
from tests.browser.stores import shared_home

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: The sandbox needs user namespaces, which containers and root seldom have.
FLAGS = (
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    # No name is resolved, whoever asks.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
#: What the browser itself reports of an answer that is an error.
_ANSWERED = re.compile(r"^Failed to load resource: the server responded with a status of [45]\d\d")


@dataclass
class Tabs:
    """Opens pages, and remembers what must not happen in any of them."""

    browser: Browser
    origin: str
    outside: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    _contexts: list[BrowserContext] = field(default_factory=list)
    _server: HTTPConnection | None = None

    def open(
        self,
        path: str = "",
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        pictures: bool = True,
        **more: Any,
    ) -> Page:
        """A page in a context of its own, with empty pictures if so wished; ``more`` goes to the context."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            service_workers="block",
            **more,
        )
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        context.route("**/*", lambda route: self._relay(route, pictures=pictures))
        context.on("console", lambda message: self._hear(message.type, message.text))
        context.on("weberror", lambda error: self.said.append(str(error.error)))
        context.on("dialog", self._dismiss)
        page = context.new_page()
        if path:
            page.goto(self.origin + path)
        return page

    def _relay(self, route: Route, *, pictures: bool) -> None:
        """Ask the server in the browser's stead.

        Chromium breaks every open connection when an address of the machine changes, which containers of other tests
        do all the time.
        """
        request = route.request
        if not request.url.startswith(f"{self.origin}/"):
            self.outside.append(request.url)
            route.abort()
        elif request.resource_type == "eventsource":
            route.continue_()
        elif request.resource_type == "image" and not pictures:
            route.fulfill(body="<svg xmlns='http://www.w3.org/2000/svg'/>", content_type="image/svg+xml")
        else:
            status, headers, body = self._ask(request.method, request.url, request.headers, request.post_data_buffer)
            route.fulfill(status=status, headers=headers, body=body)

    def _ask(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        if self._server is None:
            self._server = HTTPConnection(self.origin.removeprefix("http://"), timeout=60)
        try:
            self._server.request(method, url.removeprefix(self.origin), body, headers)
            answer = self._server.getresponse()
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The server closes what was idle for long.
            self._server.close()
            self._server.request(method, url.removeprefix(self.origin), body, headers)
            answer = self._server.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def _hear(self, kind: str, text: str) -> None:
        if not _ANSWERED.match(text):
            self.said.append(f"{kind}: {text}")

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def forget(self) -> None:
        for heard in (self.outside, self.said, self.dialogs):
            heard.clear()

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        if self._server is not None:
            self._server.close()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program; a skip with the reason where there is none, a failure where there must be one."""
    if CHROMIUM is None:
        reason = "Chromium is not installed (Debian's package chromium)"
        if os.environ.get("CRB_REQUIRE_BROWSER", "") not in {"", "0"}:
            pytest.fail(f"CRB_REQUIRE_BROWSER is set, but {reason}")
        pytest.skip(reason)
    return CHROMIUM


@pytest.fixture(scope="session")
def home(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CRB_HOME with four sweeps that no test changes."""
    return shared_home(tmp_path_factory)


@pytest.fixture(scope="session")
def origin(home: Path) -> Iterator[str]:
    with served(home) as (host, _):
        found = f"http://{host}"
        yield found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """The driver runs an event loop in this thread, so it ends with the module."""
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def all_tabs(browser: Browser, origin: str) -> Iterator[Tabs]:
    """Tabs of a whole module."""
    found = Tabs(browser, origin)
    yield found
    found.close()


@pytest.fixture
def tabs(all_tabs: Tabs) -> Iterator[Tabs]:
    """Tabs; at the end of the test nothing has left the machine, been blocked, failed in a script, or asked."""
    all_tabs.forget()
    yield all_tabs
    assert (all_tabs.outside, all_tabs.said, all_tabs.dialogs) == ([], [], [])
