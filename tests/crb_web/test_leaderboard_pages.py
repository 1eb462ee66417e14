"""Dimensions, pictures and downloads: numbers of the command line, inert drawings, files that parse."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import re
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace
from urllib.parse import quote

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from benchmarks.filled_sweep import fill
from crb_cli.main import app
from crb_core.distribution import percentile
from crb_core.pictures import PICTURES
from crb_core.store import open_store
from crb_core.store.tables import AgentBuildRow, AttemptRow, CorpusRow, PullRequestRow, core
from crb_web.drawings import _text, svg
from crb_web.query import BoardQuery
from crb_web.renderer import HERE
from tests.crb_web.conftest import client_of

NAMES = ("=cmd()", "</svg><script>alert(1)</script>", "a\u202eb\x1b[31m\u200b\ud800")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def labelled_home(tmp_path_factory):
    """A sweep whose pull requests have every dimension, whose reviews have charges, and whose texts are hostile."""
    folder = tmp_path_factory.mktemp("labelled")
    store = open_store(f"sqlite:///{folder / 'crb.sqlite'}")
    fill(store, builds=3, pull_requests=6, rounds=3)
    pull_requests, builds, corpora = core(PullRequestRow), core(AgentBuildRow), core(CorpusRow)
    with store.write() as connection:
        for number, row in enumerate(connection.execute(select(pull_requests)).all()):
            traits = {
                "language": ("Go", "C++ & <b>", None)[number % 3],
                "change_type": ("feature", "fix")[number % 2],
                "domain": f"d{number}",
                "complexity": "simple",
                "lines_added": 40 * number,
                "lines_removed": 1,
            }
            labels = {
                "llm_pr_labels": {"risk_level": ("high", "low")[number % 2], "bug_categories": ["x", f"y{number}"]}
            }
            document = row.document | {"traits": traits, "source": {"labels": labels}}
            connection.execute(update(pull_requests).where(pull_requests.c.id == row.id).values(document=document))
        corpus = connection.execute(select(corpora)).one()
        connection.execute(update(corpora).values(document=corpus.document | {"subsets": {"first": ["pr-0", "pr-1"]}}))
        for name, row in zip(NAMES, connection.execute(select(builds).order_by(builds.c.agent)).all(), strict=True):
            document = json.loads(json.dumps(row.document)) | {"agent": name.encode("utf-8", "replace").decode()}
            connection.execute(
                update(builds).where(builds.c.id == row.id).values(document=document, agent=document["agent"])
            )
        attempts = core(AttemptRow)
        connection.execute(
            update(attempts).values(usage={"cost_usd": 0.25, "models": ["m"]}, evidence={"findings": "a" * 64})
        )
    store.close()
    return folder


@pytest.fixture(scope="module")
def labelled(labelled_home):
    with client_of(labelled_home) as client:
        yield client


def command(home, monkeypatch, *arguments):
    monkeypatch.setenv("CRB_HOME", str(home))
    result = CliRunner().invoke(app, ["leaderboard", "bench", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


DIMENSIONS = [
    ["language=Go"],
    ["language=Go", "language=C++ & <b>"],
    ["size=XS: under 10 lines"],
    ["change_type=fix", "language=Go"],
    ["domain=d3"],
    ["complexity=simple"],
    ["repository=bench/bench"],
    ["subset=first"],
    ["risk_level=high", "bug_categories=y0", "bug_categories=y2"],
]


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_every_dimension_gives_the_numbers_of_the_command_line(labelled, labelled_home, monkeypatch, dimensions):
    """Whole documents, with a filter of findings beside; a round over the pull requests inside is complete."""
    arguments = [text for each in dimensions for text in ("--dimension", each)]
    for more, params in (([], {}), (["--severity", "high", "--beta", "2"], {"severity": "high", "beta": "2"})):
        expected = command(labelled_home, monkeypatch, *arguments, *more)
        found = labelled.get(
            "/api/v1/leaderboard",
            params={"sweep": "bench", "dimension": dimensions, "pull_requests": "true"} | params,
        )
        assert found.json() == expected
    board = expected["leaderboards"][0]
    assert board["dimensions"] == {
        name: sorted(each.partition("=")[2] for each in dimensions if each.startswith(f"{name}="))
        for name in {each.partition("=")[0] for each in dimensions}
    }
    for row in board["rows"]:
        # Complete, so only an undefined value keeps it from a rank.
        assert row["ranked"] == (row["macro"][board["sort"]]["mean"] is not None)
        assert row["scored"] == row["planned"] == 3 * len(row["rounds"][0]["score"]["per_pull_request"])


def test_a_dimension_is_as_if_the_others_had_never_been_run(labelled, tmp_path):
    """Metrics of the pull requests inside are those of a sweep of just these."""
    whole = labelled.get("/api/v1/leaderboard", params={"pull_requests": "true"}).json()["leaderboards"][0]
    some = labelled.get("/api/v1/leaderboard", params={"pull_requests": "true", "dimension": "language=Go"}).json()[
        "leaderboards"
    ][0]
    for row in some["rows"]:
        other = next(each for each in whole["rows"] if each["build"] == row["build"])
        for mine, theirs in zip(row["rounds"], other["rounds"], strict=True):
            records = [each for each in theirs["score"]["per_pull_request"] if each["key"] in {"pr-0", "pr-3"}]
            assert mine["score"]["per_pull_request"] == records
            for name in ("candidate_count", "matched_count", "golden_covered_count"):
                assert mine["score"]["micro"]["overall"][name] == sum(each["overall"][name] for each in records)
        assert (
            sum(row["counts"][name] for name in ("matched_count", "unmatched_count"))
            == row["counts"]["candidate_count"]
        )


def test_the_form_offers_every_dimension(labelled):
    """With how many pull requests have each value; what all of them share is no choice."""
    text = labelled.get("/", params={"dimension": "language=Go"}).text
    for each in ("language=Go", "size=XS: under 10 lines", "change_type=fix", "risk_level=high", "subset=first"):
        assert f'name="dimension" value="{each}"' in text
    assert 'value="language=Go" checked' in text
    assert 'value="language=C++ &amp; &lt;b&gt;"' in text
    assert "complexity=simple" not in text
    assert "2 of 6 pull requests" in text
    found = labelled.get("/api/v1/sweeps/bench/dimensions").json()
    assert found["pull_requests"] == 6
    assert found["dimensions"]["language"] == {"C++ & <b>": 2, "Go": 2}


@pytest.mark.parametrize("dimension", ["language", "language=Rust", "nothing=x", "="])
def test_a_dimension_that_nothing_has_is_an_error(labelled, dimension):
    """One sentence, the field, what to do; on the page as in the API."""
    for path in ("/", "/api/v1/leaderboard", "/leaderboard/strata.svg", "/leaderboard.csv"):
        answer = labelled.get(f"{path}?dimension={dimension}")
        assert answer.status_code == 400
    error = labelled.get("/api/v1/leaderboard", params={"dimension": "language=Rust"}).json()["error"]
    assert (error["field"], error["remedy"]) == ("dimension", "The values are: C++ & <b>, Go")


def test_drawings_are_inert_and_deterministic(labelled):
    """No script, style, link or control character, whatever an agent is called; the same bytes each time."""
    for name in PICTURES:
        for more in ({}, {"theme": "dark"}, {"narrow": "true"}, {"download": "true"}):
            answer = labelled.get(f"/leaderboard/{name}.svg", params={"sweep": "bench"} | more)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "image/svg+xml"
            assert "style-src 'self'" in answer.headers["content-security-policy"]
            root = ET.fromstring(answer.text)
            assert root.get("role") == "img"
            assert root.find(f"{SVG}title").text == PICTURES[name]
            assert len(root.find(f"{SVG}desc").text) > 20
            for element in root.iter():
                assert element.tag not in {
                    f"{SVG}script",
                    f"{SVG}style",
                    f"{SVG}foreignObject",
                    f"{SVG}image",
                    f"{SVG}a",
                }
                assert not [key for key in element.attrib if key == "style" or key.startswith("on") or "href" in key]
            assert not any(each in answer.text for each in ("\u202e", "\x1b", "\u200b"))
            again = labelled.get(f"/leaderboard/{name}.svg", params={"sweep": "bench"} | more)
            assert again.content == answer.content


@pytest.mark.parametrize("narrow", [False, True])
def test_another_theme_and_a_background_are_as_if_drawn(labelled, narrow):
    """Byte for byte, and a label that looks like a colour stays as it is."""
    boards, query = labelled.app.state.boards, BoardQuery(sweep="bench")
    sweep_id, protocol, judges = boards.chosen(query)
    pictures = boards.pictures(query, judges[0], sweep_id, protocol, intervals="made")
    odd = [each | {"agent": 'fill="#0b5cad" #16191d'} for each in pictures["union"].records]
    pictures = pictures | {"odd": replace(pictures["union"], records=odd)}
    for name, picture in pictures.items():
        for theme in ("light", "dark"):
            ground = {"light": "#ffffff", "dark": "#14171a"}[theme]
            for background in (None, ground):
                spec = json.loads(_text(picture, theme, narrow)) | {"background": background}
                drawn = HERE.svg(json.dumps(spec, sort_keys=True))
                found = svg(picture, theme=theme, narrow=narrow, ground=background is not None)
                assert found.endswith(drawn[drawn.index(">") + 1 :]), (name, theme, background)
                assert name != "odd" or "#16191d</text>" in found


def test_a_drawing_does_not_depend_on_those_before_it():
    """The renderer numbers parts on and on; a picture is the same in another process."""
    import subprocess
    import sys

    code = (
        "from crb_core.pictures import Picture; from crb_web.drawings import svg; import hashlib, sys\n"
        "r = {'place': 1, 'agent': 'a', 'build': 'b', 'only': 1, 'covered': 3, 'step': 1, 'adds': 3}\n"
        "p = Picture(name='union', caption='c', records=[r])\n"
        "if len(sys.argv) > 1:\n"
        "    for theme in ('dark', 'light'): "
        "svg(Picture(name='union', caption='x', records=[r, r | {'place': 2}]), theme=theme)\n"
        "print(hashlib.sha256(svg(p).encode()).hexdigest())"
    )
    found = [
        subprocess.run([sys.executable, "-c", code, *more], check=True, capture_output=True, text=True).stdout
        for more in ([], ["others first"])
    ]
    assert found[0] == found[1]


def test_pictures_hold_the_numbers_of_the_leaderboard(labelled):
    """Under a filter too: what is drawn is what the table says."""
    params = {"sweep": "bench", "severity": "high", "dimension": "change_type=fix", "beta": "0.5"}
    board = labelled.get("/api/v1/leaderboard", params=params | {"pull_requests": "true"}).json()["leaderboards"][0]
    answer = labelled.get("/api/v1/leaderboard/pictures", params=params).json()["leaderboards"][0]
    found = {each["name"]: each for each in answer["pictures"]}
    assert list(found) == list(PICTURES)
    for place, row in enumerate(board["rows"], start=1):
        mine = {name: [each for each in found[name]["records"] if each["place"] == place] for name in found}
        (point,) = mine["precision-recall"]
        for name in ("precision", "recall"):
            metric = row["macro"][f"grounded_{name}"]
            assert point[name] == metric["mean"]
            assert (point[f"{name}_low"], point[f"{name}_high"]) == (
                metric["interval"]["low"],
                metric["interval"]["high"],
            )
        assert mine["quality-duration"][0]["seconds"] == row["duration"]["mean_ms"] / 1000
        assert mine["quality-duration"][0]["f"] == row["macro"]["grounded_f"]["mean"]
        assert mine["quality-cost"][0]["usd"] == 0.25
        for cell in mine["strata"]:
            values = [
                each["score"]["macro"][f"by_{cell['axis']}"].get(cell["stratum"], {}).get("grounded_f")
                for each in row["rounds"]
            ]
            if None in values:
                assert (cell["f"], bool(cell["reason"])) == (None, True)
            else:
                assert cell["f"] == pytest.approx(sum(values) / 3, abs=1e-12)
        by_key: dict[str, list[float]] = {}
        for each in row["rounds"]:
            for record in each["score"]["per_pull_request"]:
                by_key.setdefault(record["key"], []).append(record["overall"]["grounded_f"])
        means = []
        for values in by_key.values():
            known = [value for value in values if value is not None]
            means += [sum(known) / len(known)] if known else []
        (spread,) = mine["distribution"]
        assert spread["values"] == pytest.approx(sorted(means))
        assert spread["p50"] == pytest.approx(percentile(means, 0.5))
        assert spread["pull_requests"] + spread["undefined"] == 3


def test_the_union_adds_up(labelled):
    """Steps add up to the union; what only one covers is a part of what it covers."""
    picture = labelled.get("/leaderboard/union.json").json()
    assert sum(each["adds"] for each in picture["records"]) == picture["union"]
    assert sorted(each["step"] for each in picture["records"]) == [1, 2, 3]
    for each in picture["records"]:
        assert 0 <= each["only"] <= each["adds"] <= each["covered"] <= picture["union"]


def test_no_picture_of_what_was_not_observed(served):
    """A list price or an amount without evidence is no charge: the rows are absent, with the reason."""
    picture = served.get("/leaderboard/quality-cost.json", params={"sweep": "bench"}).json()
    assert picture["records"] == []
    assert all("observed charge" in each["reason"] for each in picture["absent"])
    drawn = ET.fromstring(served.get("/leaderboard/quality-cost.svg", params={"sweep": "bench"}).text)
    assert "No row has what this picture needs" in "".join(drawn.itertext())


def test_augmented_metrics_come_with_the_warning(labelled):
    """Their columns, their pictures, and that agents cannot be ranked by augmented recall."""
    text = labelled.get("/", params={"basis": "augmented"}).text
    assert "denominator of each agent" in text
    assert "novel TP yield" in text
    assert "denominator of each agent" not in labelled.get("/").text
    points = labelled.get("/leaderboard/precision-recall.json", params={"basis": "augmented"}).json()["records"]
    board = labelled.get("/api/v1/leaderboard").json()["leaderboards"][0]
    assert [each["recall"] for each in points] == [row["macro"]["augmented_recall"]["mean"] for row in board["rows"]]


def test_downloads_parse_and_hold_what_is_shown(labelled):
    """CSV, XLSX, JSON, SVG and PNG of one state."""
    params = {"sweep": "bench", "dimension": "language=Go", "severity": ["high", "low"]}
    board = labelled.get("/api/v1/leaderboard", params=params).json()["leaderboards"][0]
    rows = list(csv.DictReader(io.StringIO(labelled.get("/leaderboard.csv", params=params).text)))
    assert [float(row["macro.grounded_f.mean"]) for row in rows] == [
        row["macro"]["grounded_f"]["mean"] for row in board["rows"]
    ]
    assert not any(row["agent"].startswith("=") for row in rows)
    book = labelled.get("/leaderboard.xlsx", params=params)
    assert "attachment" in book.headers["content-disposition"]
    assert book.content == labelled.get("/leaderboard.xlsx", params=params).content
    with zipfile.ZipFile(io.BytesIO(book.content)) as archive:
        sheets = archive.read("xl/workbook.xml").decode()
        everything = b"".join(archive.read(name) for name in archive.namelist())
    for name in ("leaderboard", *PICTURES, "state"):
        assert f'name="{name}"' in sheets
    assert b"language=Go" in everything
    assert b"<f>" not in everything
    for name in PICTURES:
        image = labelled.get(f"/leaderboard/{name}.png", params=params | {"download": "true"})
        assert image.headers["content-type"] == "image/png"
        assert image.content.startswith(b"\x89PNG\r\n\x1a\n")
        assert (
            hashlib.sha256(image.content).digest()
            == hashlib.sha256(
                labelled.get(f"/leaderboard/{name}.png", params=params | {"download": "true"}).content
            ).digest()
        )
        table = list(csv.DictReader(io.StringIO(labelled.get(f"/leaderboard/{name}.csv", params=params).text)))
        picture = labelled.get(f"/leaderboard/{name}.json", params=params).json()
        assert len(table) == len(picture["records"]) + len(picture["absent"])
    assert labelled.get("/leaderboard/nothing.svg").status_code == 404


def test_every_picture_has_its_table(labelled):
    """Readable without seeing: the page of pictures holds every number, and hostile names as text."""
    text = labelled.get("/pictures", params={"sweep": "bench"}).text
    answer = labelled.get("/api/v1/leaderboard/pictures", params={"sweep": "bench"}).json()["leaderboards"][0]
    for picture in answer["pictures"]:
        assert f'id="{picture["name"]}"' in text
    for each in answer["pictures"][5]["records"]:
        assert f'<td class="value">{each["covered"]}</td>' in text
    assert "<script>alert" not in text
    assert "U+202E" in text
    assert not any(each in text for each in ("\u202e", "\x1b", "\u200b"))


def test_pictures_link_to_the_same_state(labelled):
    """Images, tables and downloads on a page are of the filters in its address."""
    text = labelled.get("/", params={"dimension": "language=Go", "beta": "2", "basis": "augmented"}).text
    addresses = [each.split('"')[0] for each in text.split('"/leaderboard/')[1:]]
    assert len(addresses) == len(PICTURES) * 8
    for each in addresses:
        assert all(part in each for part in ("dimension=language%3DGo", "beta=2", "basis=augmented"))


def test_every_page_behind_a_number_says_what_is_counted(served):
    """Each filter, and beta in all its digits: without them a number there is another one than it seems."""
    build = served.get("/api/v1/sweeps/bench").json()["builds"][0]["build"]
    dimensions = served.get("/api/v1/sweeps/bench/dimensions").json()["dimensions"]
    name, values = next(iter(dimensions.items()))
    value = next(iter(values))
    query = (
        f"severity=high&severity=low&producer=human_review&dimension={quote(f'{name}={value}')}"
        "&beta=0.3333333333333333&allow_partial=true"
    )
    pages = (
        f"/sweeps/bench/rows/{build}?",
        "/pictures?sweep=bench&",
        "/compare?sweep=bench&build=agent-0&build=agent-1&",
    )
    for path in pages:
        shown = html.unescape(served.get(path + query).text)
        for text in (
            "severity high or low", "producer human_review", f"{name} {value}", "beta 0.3333333333333333",
            "incomplete rounds averaged too",
        ):  # fmt: skip
            assert text in shown, (path, text)


def test_the_form_sends_back_the_beta_that_it_was_given(served):
    """In all its digits, so that the next filter does not change it."""
    shown = served.get("/?sweep=bench&beta=0.3333333333333333").text
    assert 'value="0.3333333333333333"' in shown


def test_a_workbook_has_the_digits_of_the_document(served):
    """As CSV and JSON have them."""
    board = served.get("/api/v1/leaderboard?sweep=bench&severity=low").json()["leaderboards"][0]
    with zipfile.ZipFile(io.BytesIO(served.get("/leaderboard.xlsx?sweep=bench&severity=low").content)) as archive:
        written = set(re.findall(r"<v>([^<]+)</v>", archive.read("xl/worksheets/sheet1.xml").decode()))
    csv_text = served.get("/leaderboard.csv?sweep=bench&severity=low").text
    for row in board["rows"]:
        for metric in row["macro"].values():
            for value in (metric["mean"], metric["std"], metric["interval"]["low"]):
                assert value is None or (repr(value) in written and repr(value) in csv_text)
