"""Texts that agents, people and models wrote: seen as text in the browser, whatever they hold."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import select, update

from benchmarks.filled_sweep import fill
from benchmarks.web import served
from crb_core.evidence import FolderEvidence
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    CorpusRow,
    CorrespondenceRow,
    JudgeRow,
    PullRequestRow,
    SweepRow,
    core,
)
from crb_web.show import CLIP, visible
from tests.browser.conftest import Tabs
from tests.browser.stores import made_once
from tests.crb_web.audit_store import new_file, opened, with_diff

#: Each would say so in ``window.ran``, ask in a dialog, or call out.
SCRIPT = "<script>window.ran=1;alert(1)</script>"
TEXTS = (
    SCRIPT,
    '<img src=x onerror="window.ran=1;alert(2)">',
    "\"><svg onload='window.ran=1'><a href='javascript:window.ran=1'>x</a>",
    "javascript:window.ran=1//",
    "</title></textarea></style></script><iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<link rel=stylesheet href=http://example.invalid/x.css><base href=http://example.invalid/>",
    "<meta http-equiv=refresh content='0;url=http://example.invalid/'>",
    "{{7*7}}${7*7}<%= 7*7 %>{% raw %}",
    "safe\u202etxt.exe\u2066\u200b\u00ad\ufeff end",
    "\x1b[31mred\x1b[0m\x07\x08\x1b]0;title\x07",
    "A" * 100_000,
    "&lt;b&gt; &amp;amp; &#60;script&#62;",
    "a\u0300" * 2000 + "\u0489" * 50,
    "'; DROP TABLE sweep; --",
    "data:text/html,<script>window.ran=1</script>",
    "\u2028\u2029\u0085line ends",
)
PAGES = (
    "/?sweep={sweep}",
    "/pictures?sweep={sweep}",
    "/compare?sweep={sweep}&build={build}&build={other}",
    "/sweeps/{sweep}/rows/{build}",
    "/sweeps/{sweep}/pull-requests/pr-0",
    "/sweeps/{sweep}/pull-requests/pr-0?state=matched",
    "/sweeps/{sweep}/trials",
    "/trials/1",
    "/judges",
    "/judges/j-bench",
    "/sweeps",
    "/sweeps/{sweep}",
    "/sweeps/{sweep}/heat-map",
)


def text(number: int) -> str:
    """One of the texts; none is empty or only space at an end, which names may not be."""
    return TEXTS[number % len(TEXTS)]


def hostile(home: Path) -> None:
    """A sweep in which every text from outside is hostile."""
    store = opened(home)
    fill(store, builds=3, pull_requests=2, rounds=2)
    evidence = FolderEvidence(home / "evidence")
    logs = evidence.put("\n".join(TEXTS).encode())
    candidates, pull_requests, builds = core(CandidateRow), core(PullRequestRow), core(AgentBuildRow)
    with store.write() as connection:

        def rename(model: Any, id_column: Any, values: Any) -> None:
            table = core(model)
            for number, row in enumerate(connection.execute(select(table)).all()):
                changed = values(number, row)
                connection.execute(update(table).where(id_column == getattr(row, id_column.name)).values(**changed))

        rename(
            AgentBuildRow,
            builds.c.id,
            lambda number, row: {
                "agent": f"{number}{TEXTS[number]}",
                "document": row.document | {"agent": f"{number}{TEXTS[number]}", "display_name": text(number + 3)},
            },
        )
        rename(
            PullRequestRow,
            pull_requests.c.id,
            lambda number, row: {
                "document": row.document
                | {
                    "title": " ".join(TEXTS),
                    "body": text(number),
                    "traits": {"language": TEXTS[1 + number], "domain": TEXTS[8 + number]},
                    "source": {"labels": {"x": {"risk_level": TEXTS[4 + number]}}},
                }
            },
        )
        rename(SweepRow, core(SweepRow).c.id, lambda number, row: {"name": f"{SCRIPT}\u202e{TEXTS[4]}"})
        rename(CorpusRow, core(CorpusRow).c.id, lambda number, row: {"name": TEXTS[2]})
        rename(JudgeRow, core(JudgeRow).c.id, lambda number, row: {"name": TEXTS[1]})
        for row in connection.execute(select(candidates.c.trial_id, candidates.c.position)).all():
            connection.execute(
                update(candidates)
                .where(candidates.c.trial_id == row.trial_id, candidates.c.position == row.position)
                .values(
                    file=text(row.position).replace("\x1b", "_")[:300],
                    message=text(row.position + row.trial_id),
                    producer=text(row.position + 5)[:300],
                )
            )
        connection.execute(update(core(CorrespondenceRow)).values(reasoning=" ".join(TEXTS)))
        connection.execute(
            update(core(AttemptRow)).values(
                evidence={"stdout": logs, "stderr": logs}, detail=" ".join(TEXTS), host=TEXTS[2], worker=TEXTS[0]
            )
        )
    store.close()
    lines = [each.replace("\n", " ").replace("\x0b", " ") for each in TEXTS]
    with_diff(home, new_file("src/<img src=x onerror=alert(1)>.py", lines), key="pr-0")


@pytest.fixture(scope="module")
def hostile_tabs(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabs]:
    home = made_once(tmp_path_factory.mktemp("hostile") / "home", hostile)
    with served(home) as (host, _):
        origin = f"http://{host}"
        tabs = Tabs(browser, origin)
        yield tabs
        tabs.close()


@pytest.fixture(scope="module")
def names(hostile_tabs: Tabs) -> dict[str, str]:
    """What the paths of the pages need."""
    page = hostile_tabs.open("/api/v1/sweeps")
    found = json.loads(page.evaluate("document.body.textContent"))["sweeps"][0]
    page.goto(f"{hostile_tabs.origin}/api/v1/leaderboard?sweep={found['id']}")
    builds = json.loads(page.evaluate("document.body.textContent"))["leaderboards"][0]["rows"]
    return {"sweep": found["id"], "build": builds[0]["build"], "other": builds[1]["build"]}


@pytest.fixture(scope="module")
def page(hostile_tabs: Tabs) -> Page:
    return hostile_tabs.open(width=360)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_of_a_text_comes_alive(hostile_tabs: Tabs, page: Page, names: dict[str, str], path: str) -> None:
    """No script, no dialog, no request to elsewhere, no element or link of theirs, no control of direction."""
    hostile_tabs.forget()
    answer = page.goto(hostile_tabs.origin + path.format(**names))
    assert answer is not None
    assert answer.status == 200
    page.wait_for_load_state("load")
    assert page.evaluate("window.ran") is None
    assert (hostile_tabs.outside, hostile_tabs.said, hostile_tabs.dialogs) == ([], [], [])
    assert page.locator("iframe, base, meta[http-equiv], img[src=x], svg[onload], [onerror]").count() == 0
    assert page.locator("script").evaluate_all("all => all.filter(each => !each.src.includes('/static/')).length") == 0
    assert page.locator("a").evaluate_all("all => all.filter(each => !/^https?:$/.test(each.protocol)).length") == 0
    assert (
        page.locator("a").evaluate_all(
            "(all, at) => all.filter(each => each.origin !== at).length", page.url[: page.url.index("/", 8)]
        )
        == 0
    )
    # What could be seen as something else is shown as its code point.
    assert (
        page.evaluate(
            r"/[\u202a-\u202e\u2066-\u2069\u200b\ufeff\u001b\u0007\u0008]/.test(document.documentElement.textContent)"
        )
        is False
    )
    assert page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert len(page.content()) < 3_000_000


def as_seen(written: str) -> str:
    """The first characters of a text as a page shows them: what cannot be seen as its code point, markup as markup."""
    shown = re.sub(r'<span class="code-point">(U\+[0-9A-F]+)</span>', r"\1", visible(written[:CLIP]))
    return html.unescape(shown)


def test_a_message_reads_as_it_was_written(hostile_tabs: Tabs, page: Page) -> None:
    """Letter by letter, and how much more there is where it was clipped."""
    page.goto(f"{hostile_tabs.origin}/trials/1")
    messages = page.locator(".findings .message").evaluate_all("all => all.map(each => each.textContent)")
    assert len(messages) == 10
    for place, shown in enumerate(messages):
        written = text(place + 1)
        rest = f" … and {len(written) - CLIP:,} characters more, in the API" if len(written) > CLIP else ""
        assert shown == as_seen(written) + rest
    assert any("more, in the API" in each for each in messages)
    assert any("U+202E" in each for each in messages)
    assert any("U+001B" in each for each in messages)


def test_a_log_opens_as_text(hostile_tabs: Tabs, page: Page) -> None:
    """Evidence is plain text or a download: no page of its own, no script, no sniffing."""
    page.goto(f"{hostile_tabs.origin}/trials/1")
    links = page.locator("a[href^='/api/v1/evidence/']").evaluate_all("all => all.map(each => each.href)")
    assert links
    for link in sorted(set(links)):
        answer = page.request.get(link)
        assert answer.headers["content-type"].split(";")[0] in {"text/plain", "application/octet-stream"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (
            "script-src 'self'" in answer.headers["content-security-policy"]
            or "sandbox" in answer.headers["content-security-policy"]
        )
    assert page.evaluate("window.ran") is None
