"""The pages in a real browser: scripts run under the policy, nothing is blocked, nothing is wider than a phone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.filled_sweep import fill
from crb_core.store import open_store
from tests.crb_core.archived import make_store

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--virtual-time-budget=3000",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running ``crb serve``, as a user starts it."""
    home = tmp_path_factory.mktemp("browser")
    make_store(home).close()
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
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


def browse(address: str, profile: Path, *flags: str) -> tuple[str, str]:
    """The document after its scripts ran, and what the console says."""
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.parametrize("path", ["/?severity=high", "/?sweep=trial-run", "/trials/1", "/nothing"])
def test_a_page_loads_under_its_policy(address: str, tmp_path: Path, path: str) -> None:
    """The console is silent: no blocked script, style or image, no error; the script ran where there is a form."""
    shown, console = browse(address + path, tmp_path / "profile")
    # The browser itself reports that a page answered 404.
    assert [line for line in console.splitlines() if "404" not in line] == []
    assert "<h1>" in shown
    if "data-submit-on-change" in shown:
        assert 'type="submit" class="said"' in shown


def test_a_picture_shows_by_itself_under_its_policy(address: str, tmp_path: Path) -> None:
    """An SVG that is opened needs no style and no script: nothing of it is blocked."""
    shown, console = browse(f"{address}/leaderboard/strata.svg?sweep=bench", tmp_path / "profile")
    assert console == ""
    assert "<svg" in shown
    assert "Quality by stratum" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 640, 1280])
def test_a_screenshot_is_kept(address: str, tmp_path: Path, width: int, scheme: str) -> None:
    """For people to look at: phone, 200% zoom of a laptop, and a laptop, each in light and dark."""
    target = tmp_path / f"leaderboard-{width}-{scheme}.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(
        f"{address}/?severity=high",
        tmp_path / "profile",
        *dark,
        f"--window-size={width},1600",
        f"--screenshot={target}",
    )
    assert target.read_bytes().startswith(b"\x89PNG")


class Tab:
    """One tab, spoken to over the browser's pipe (Chrome DevTools Protocol: JSON messages that end with NUL)."""

    def __init__(self, profile: Path, width: int) -> None:
        down_read, self._down = os.pipe()
        self._up, up_write = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        flags = (*FLAGS[:-2], "--remote-debugging-pipe", f"--user-data-dir={profile}")
        command = f'exec "$0" "$@" 3<&{down_read} 4>&{up_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(CHROMIUM), *flags],
            pass_fds=(down_read, up_write),
            stderr=subprocess.DEVNULL,
        )
        os.close(down_read)
        os.close(up_write)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._down, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                read = os.read(self._up, 65536)
                assert read, "the browser ended"
                self._buffer += read
            text, self._buffer = self._buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def value(self, expression: str) -> Any:
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until it is true in a page that has loaded."""
        for _ in range(300):
            if self.value(f"document.readyState === 'complete' && Boolean({expression})"):
                return
            time.sleep(0.05)
        pytest.fail(f"{expression} never came true; the page is {self.value('location.href')}")

    def go(self, address: str) -> None:
        self.send("Page.navigate", url=address)
        self.until(f"location.href === {json.dumps(address)}")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self._process.wait(timeout=30)
        os.close(self._down)
        os.close(self._up)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    opened = Tab(tmp_path / "profile", 360)
    yield opened
    opened.close()


def test_a_change_is_submitted_and_back_goes_back(address: str, tab: Tab) -> None:
    """Every change of a field is a new address; the field keeps the focus; the way back has the old state."""
    tab.go(f"{address}/?sweep=bench")
    tab.value("document.querySelector('details.filters').open = true")
    tab.value("document.getElementById('severity-1').click()")
    tab.until("location.search.includes('severity=high')")
    tab.until("document.activeElement.id === 'severity-1' && document.activeElement.checked")
    assert tab.value("location.search.includes('beta=')") is False
    tab.value("history.back()")
    tab.until("!location.search.includes('severity')")
    assert tab.value("document.getElementById('beta').disabled") is False


def test_a_reason_is_seen_on_focus(address: str, tab: Tab) -> None:
    """Why a value is absent shows to a keyboard as to a mouse."""
    tab.go(f"{address}/?sweep=bench&producer=human_review&basis=augmented")
    size = "document.querySelector('td .why .reason').getBoundingClientRect().width"
    assert tab.value(size) <= 1
    tab.value("document.querySelector('td .why').focus()")
    assert tab.value(size) > 100


@pytest.mark.parametrize("path", ["/?sweep=bench&severity=high", "/?sweep=trial-run", "/trials/1", "/nothing"])
def test_a_phone_shows_it_without_scrolling_sideways(address: str, tab: Tab, path: str) -> None:
    """At 360 px only tables scroll, in frames of their own."""
    tab.go(address + path)
    assert tab.value("document.scrollingElement.scrollWidth <= innerWidth") is True
