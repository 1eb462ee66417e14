"""The pages: what the API answers, readable without scripts, and inert whatever an agent wrote."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import pytest
from sqlalchemy import insert, text, update

from crb_core.store import open_store
from crb_core.store.tables import CandidateRow, JudgeCallRow, PullRequestRow, SweepRow, core
from crb_web.show import CLIP, number, visible
from tests.crb_core.archived import make_store
from tests.crb_web.conftest import client_of

BIDI = "\u202e"
HOSTILE = f"</p><script>alert(1)</script><img src=x onerror=alert(2)>{BIDI}txt.exe\x1b[31m\u200b\u2066"


class Page(HTMLParser):
    """A page's elements: (tag, attributes)."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page(client, path, status=200, **params):
    answer = client.get(path, params=params) if params else client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def links(source):
    return [each["href"] for each in Page(source).all("a") if each.get("href")]


def test_the_table_shows_the_numbers_of_the_api(served):
    """Every row with mean, interval, micro, trials and letters, at two decimals."""
    shown = {
        basis: page(served, "/", sweep="bench", severity="high", basis=basis) for basis in ("grounded", "augmented")
    }
    board = served.get("/api/v1/leaderboard", params={"sweep": "bench", "severity": "high"}).json()["leaderboards"][0]
    bodies = {basis: text.split("<tbody>")[1].split("</tbody>")[0].split("</tr>")[:-1] for basis, text in shown.items()}
    for place, row in enumerate(board["rows"]):
        for metric, value in row["macro"].items():
            cells = bodies["grounded" if metric.startswith("grounded") else "augmented"][place]
            assert row["agent"] in cells
            assert f"{row['scored']} of {row['planned']}" in cells
            assert f">{number(value['mean'])}</a>" in cells
            assert f"{number(value['interval']['low'])} – {number(value['interval']['high'])}" in cells
            assert f"micro {number(row['micro'][metric]['mean'])}" in cells


def test_the_whole_state_is_in_the_address(served):
    """The form holds what the address says, and links keep it."""
    shown = page(served, "/", sweep="bench", severity="high", beta="0.5", sort="grounded_recall", allow_partial="true")
    form = shown.split('<form id="filters"')[1].split("</form>")[0]
    fields = Page(f"<form{form}")
    checked = {(each["name"], each["value"]) for each in fields.all("input") if "checked" in each}
    assert checked == {("severity", "high"), ("allow_partial", "true"), ("basis", "grounded")}
    assert [each["value"] for each in fields.all("input") if each["name"] == "beta"] == ["0.5"]
    assert [each["value"] for each in fields.all("input") if each["name"] == "sort"] == ["grounded_recall"]
    assert {each.get("method") for each in fields.all("form")} == {"get"}
    sortable = [each for each in links(shown) if "sort=grounded_precision" in each]
    assert len(sortable) == 1
    assert "severity=high" in sortable[0]
    assert "beta=0.5" in sortable[0]
    assert "allow_partial=true" in sortable[0]


def test_three_clicks_from_a_number_to_its_evidence(served):
    """Number, pull request, finding, evidence; the blob has the digest that the address says."""
    first = page(served, "/", sweep="trial-run")
    rows = next(each for each in links(first) if "/rows/" in each)
    second = page(served, rows)
    pull_request = next(each for each in links(second) if "/pull-requests/" in each)
    third = page(served, pull_request)
    assert "Claims" in third
    evidence = [each for each in links(third) if each.startswith("/api/v1/evidence/")]
    found = [served.get(each) for each in evidence]
    kept = [answer for answer in found if answer.status_code == 200]
    assert kept
    for answer in kept:
        assert str(answer.url).endswith(hashlib.sha256(answer.content).hexdigest())
    trial = next(each for each in links(third) if each.startswith("/trials/"))
    assert "Attempt 1" in page(served, trial)


def test_an_undefined_value_says_why(served):
    """On focus as on hover: the reason is in the page, beside an element that takes focus."""
    shown = page(served, "/", sweep="bench", producer="human_review", basis="augmented")
    assert "filtered by producer" in shown
    reasons = re.findall(r'<span class="why" tabindex="0">–<span class="reason" role="note">([^<]+)</span>', shown)
    assert reasons


def test_a_list_price_is_marked_as_none_of_the_charges(tmp_path):
    """What the judge's model charged and what its calls would cost by list price are never one figure."""
    make_store(tmp_path).close()
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    with store.write() as connection:
        trial, judge = connection.execute(text("SELECT trial_id, judge_id FROM judgment LIMIT 1")).one()
        common = {
            "trial_id": trial,
            "judge_id": judge,
            "stage": "match",
            "label": "x",
            "secret": "",
            "attempt": 1,
            "model": "m",
            "request_digest": "a" * 64,
            "started_at": "x",
        }
        connection.execute(
            insert(core(JudgeCallRow)),
            [
                {**common, "request_hash": "1", "charge_usd": 0.5, "answer_digest": "b" * 64, "list_price_usd": None},
                {**common, "request_hash": "2", "charge_usd": None, "answer_digest": None, "list_price_usd": 1.25},
            ],
        )
        sweep = connection.execute(text("SELECT sweep_id FROM trial WHERE id = :id"), {"id": trial}).scalar_one()
    store.close()
    with client_of(tmp_path) as client:
        shown = " ".join(page(client, "/", sweep=sweep, judge=judge).split())
    assert "model calls here: 2; $0.50 charged, observed for 1; " in shown
    assert '<span class="mark">list price</span> $1.25 for 1, an estimate and no charge' in shown


def test_the_download_holds_the_rows(served):
    """CSV with a line a row and the exact numbers."""
    found = list(csv.DictReader(io.StringIO(page(served, "/leaderboard.csv", sweep="bench", severity="high"))))
    board = served.get("/api/v1/leaderboard", params={"sweep": "bench", "severity": "high"}).json()["leaderboards"][0]
    assert [float(row["macro.grounded_f.mean"]) for row in found] == [
        row["macro"]["grounded_f"]["mean"] for row in board["rows"]
    ]


@pytest.fixture
def hostile(tmp_path):
    """A server over a store whose texts attack the reader."""
    make_store(tmp_path).close()
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    pull_requests = core(PullRequestRow)
    with store.write() as connection:
        connection.execute(update(core(SweepRow)).values(name=HOSTILE))
        connection.execute(update(core(CandidateRow)).values(message=HOSTILE, file=f"{HOSTILE}.py"))
        connection.execute(
            insert(core(CandidateRow)),
            [{"trial_id": 1, "position": 99, "message": "long " * 20_000, "producer": "x"}],
        )
        document = connection.execute(text("SELECT document FROM pull_request WHERE key = 'pr-1'")).scalar_one()
        changed = json.loads(document) | {"title": HOSTILE, "body": HOSTILE}
        connection.execute(update(pull_requests).where(pull_requests.c.key == "pr-1").values(document=changed))
    store.close()
    with client_of(tmp_path) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/trials/1", "pull request", "row"])
def test_hostile_text_is_inert(hostile, path):
    """No element, script or control character of an agent's reaches a page; its bidi controls are visible."""
    sweep = hostile.get("/api/v1/sweeps").json()["sweeps"][0]["id"]
    build = hostile.get(f"/api/v1/sweeps/{sweep}").json()["builds"][0]["build"]
    path = {
        "pull request": f"/sweeps/{sweep}/pull-requests/pr-1",
        "row": f"/sweeps/{sweep}/rows/{build}",
    }.get(path, path)
    shown = page(hostile, path)
    elements = Page(shown)
    assert [each.get("src") for each in elements.all("script")] == ["/static/crb.js"]
    assert all(each["src"].startswith("/leaderboard/") for each in elements.all("img"))
    assert not [name for _, attributes in elements.elements for name in attributes if name.startswith("on")]
    assert not [1 for _, attributes in elements.elements if "style" in attributes]
    assert not any(each in shown for each in (BIDI, "\x1b", "\u200b", "\u2066"))
    assert "U+202E" in shown
    assert len(shown) < 60_000


def test_a_long_text_is_cut_and_says_so(hostile):
    """A 100 kB line does not fill a page, and nothing is lost: the API has all of it."""
    shown = page(hostile, "/trials/1")
    assert f"{len('long ' * 20_000) - CLIP:,} characters more" in shown
    assert "long " * 20_000 in {each["message"] for each in hostile.get("/api/v1/trials/1").json()["findings"]}


def test_visible_names_what_cannot_be_seen():
    """Controls, bidi and zero-width characters become their code points; other text is only escaped."""
    assert str(visible("a<b & 'c'\nd")) == "a&lt;b &amp; &#39;c&#39;\nd"
    assert str(visible("naïve 漢字 😀")) == "naïve 漢字 😀"
    for each in "\x00\x1b\x7f\x85\u200b\u200e\u202e\u2066\ufeff\ud800\U000e0041\u3164\u2028":
        assert f"U+{ord(each):04X}" in visible(f"a{each}b")
        assert each not in visible(f"a{each}b")


def test_every_page_has_a_name_for_every_field(served):
    """Title, language, one h1, a label for every control, an accessible name for every region."""
    for path in ("/?sweep=bench", "/?sweep=trial-run", "/trials/1", "/nothing"):
        elements = Page(served.get(path).text)
        assert len(elements.all("h1")) == 1
        assert elements.all("html")[0]["lang"] == "en"
        labelled = {each.get("for") for each in elements.all("label")}
        for field in elements.all("select"):
            assert field["id"] in labelled
        identifiers = [each["id"] for _, each in elements.elements if "id" in each]
        assert len(identifiers) == len(set(identifiers))
        for _, attributes in elements.elements:
            for name in (attributes.get("aria-labelledby") or "").split():
                assert name in identifiers


def test_the_slider_holds_every_beta_that_is_allowed(served):
    """A browser would cut a value above the slider's end, and submit another than the address says."""
    for beta in ("0.1", "0.37", "4", "10"):
        slider = next(each for each in Page(page(served, "/", beta=beta)).all("input") if each["name"] == "beta")
        assert float(slider["min"]) <= float(slider["value"]) == float(beta) <= float(slider["max"])
        assert slider["step"] == "any"
