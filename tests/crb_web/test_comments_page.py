"""A sweep of golden comments has its own table, and the numbers of the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.formats.imported import ImportedCandidate, ImportedJudgment, ImportedPair, ImportedReview
from crb_core.pull_request import PullRequest
from crb_core.store import open_store
from crb_core.store.imports import import_corpus, import_reviews
from tests.crb_web.conftest import client_of


def _corpus() -> Corpus:
    return Corpus(
        name="comments",
        version="1",
        title="Comments",
        source="none",
        protocol="golden-comments",
        entries=tuple(
            CorpusEntry(
                pull_request=PullRequest.model_validate(
                    {
                        "key": f"acme_shop_{number}",
                        "repo": "https://github.com/acme/shop",
                        "number": number,
                        "base": None,
                        "head": None,
                        "title": "t",
                        "traits": {"language": ("Go", "Go", "C")[number - 1]},
                    }
                ),
                golden=tuple(
                    GoldenFinding(
                        message=f"{text} {number}",
                        producer="people",
                        label=Label(tp_fp=TpFp.TP, severity="High", category=category),
                    )
                    for text, category in (("one", "bug"), ("two", "security"))
                ),
            )
            for number in (1, 2, 3)
        ),
    )


def _review(number: int) -> ImportedReview:
    return ImportedReview(
        agent="alpha",
        pull_request=f"acme_shop_{number}",
        round=1,
        candidates=tuple(
            ImportedCandidate(finding=CandidateFinding(message=text, producer="alpha")) for text in ("a", "b", "c")
        ),
        judgments=(
            ImportedJudgment(
                judge="people",
                description={"kind": "imported", "name": "people"},
                classifies=False,
                pairs=(ImportedPair(candidate=0, golden=0),),
                classifications=(),
            ),
        ),
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    with store.write() as connection:
        corpus_id = import_corpus(connection, _corpus(), {"files": {}}, "x").corpus_id
        reviews = [_review(number) for number in (1, 2, 3)]
        import_reviews(connection, reviews, name="comments", corpus_id=corpus_id, format_name="x", record={"files": {}})
    store.close()
    return tmp_path


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ({}, []),
        ({"profile": "all", "beta": "2"}, ["--profile", "all", "--beta", "2"]),
        ({"compatible": "true"}, ["--compatible"]),
        ({"no_dedup": "true", "category": "bug"}, ["--no-dedup", "--category", "bug"]),
        ({"dimension": "language=Go"}, ["--dimension", "language=Go"]),
        ({"dimension": "language=C", "compatible": "true"}, ["--dimension", "language=C", "--compatible"]),
    ],
)
def test_counted_as_the_command_line_counts(home: Path, monkeypatch: Any, query: Any, arguments: list[str]) -> None:
    """Strict and compatible, and the page shows the counts."""
    monkeypatch.setenv("CRB_HOME", str(home))
    printed = CliRunner().invoke(app, ["leaderboard", *arguments, "--json"], catch_exceptions=False)
    assert printed.exit_code == 0, printed.output
    with client_of(home) as client:
        answer = client.get("/api/v1/leaderboard", params=query)
        assert answer.json() == {"leaderboards": [json.loads(printed.output)]}
        row = answer.json()["leaderboards"][0]["rows"][0]
        shown = client.get("/", params=query)
        assert shown.status_code == 200
        for name in ("tp", "fp", "fn"):
            assert f'<td class="value">{row[name]}</td>' in shown.text
        for path in (f"/sweeps/comments/rows/{row['build']}", "/sweeps/comments/pull-requests/acme_shop_1"):
            assert client.get(path).status_code == 200


def test_a_row_leads_to_the_counts_of_each_pull_request(home: Path) -> None:
    """They sum to the row's own; counted as the public tool does, there are only the pull requests."""
    with client_of(home) as client:
        row = client.get("/api/v1/leaderboard?profile=all").json()["leaderboards"][0]["rows"][0]
        path = f"/sweeps/comments/rows/{row['build']}"
        shown = client.get(path, params={"profile": "all"}).text
        assert "profile all" in shown
        cells = re.findall(r'<td class="value">(\d+)</td>', shown)
        of_each = [tuple(map(int, cells[place : place + 4])) for place in range(0, len(cells), 4)]
        assert [each[0] for each in of_each] == [1, 1, 1]
        assert tuple(map(sum, zip(*(each[1:] for each in of_each), strict=True))) == (row["tp"], row["fp"], row["fn"])
        compatible = client.get(path, params={"compatible": "true"}).text
        assert "acme_shop_3" in compatible
        assert "<table" not in compatible


def test_without_groups_nothing_is_deduplicated_and_the_page_says_so(home: Path) -> None:
    """Counting one false positive a group means nothing where no review has any."""
    said = "No review here has dedup groups"
    with client_of(home) as client:
        assert said in client.get("/").text
        assert said not in client.get("/", params={"no_dedup": "true"}).text
        assert said not in client.get("/", params={"compatible": "true"}).text


def test_a_dimension_restricts_what_a_complete_round_has(home: Path) -> None:
    """Two of three pull requests, all scored: ranked, with their counts only."""
    with client_of(home) as client:
        row = client.get("/api/v1/leaderboard?dimension=language%3DGo").json()["leaderboards"][0]["rows"][0]
        assert (row["tp"], row["fp"], row["fn"], row["reviews"], row["planned"]) == (2, 4, 2, 2, 2)
        assert row["ranked"]
        assert "2 of 3 pull requests" in client.get("/?dimension=language%3DGo").text


def test_pictures_of_golden_comments(home: Path) -> None:
    """Micro precision and recall, strata of categories, what is covered; what has no duration is absent."""
    with client_of(home) as client:
        answer = client.get("/api/v1/leaderboard/pictures").json()["leaderboards"][0]
        found = {each["name"]: each for each in answer["pictures"]}
        (point,) = found["precision-recall"]["records"]
        assert (point["precision"], point["recall"], point["f"]) == (1 / 3, 1 / 2, 0.4)
        assert "duration" in found["quality-duration"]["absent"][0]["reason"]
        cells = {(each["axis"], each["stratum"]): each["f"] for each in found["strata"]["records"]}
        assert cells["category", "bug"] == 0.5
        assert cells["category", "security"] == 0.0
        (union,) = found["union"]["records"]
        assert (union["covered"], union["only"], found["union"]["union"]) == (3, 3, 3)
        (spread,) = found["distribution"]["records"]
        assert spread["values"] == [0.4, 0.4, 0.4]
        (missing,) = client.get("/leaderboard/union.json?compatible=true").json()["absent"]
        assert "not known" in missing["reason"]
        for query in ("", "?compatible=true", "?profile=none&category=bug"):
            for name in found:
                assert client.get(f"/leaderboard/{name}.svg{query}").status_code == 200, (name, query)
            assert client.get(f"/pictures{query}").status_code == 200
            assert client.get(f"/leaderboard.xlsx{query}").status_code == 200


def test_options_of_other_protocols_are_refused(home: Path) -> None:
    """None of them is ignored."""
    for option in (("--sort", "grounded_f"), ("--exclude-producer", "people")):
        with pytest.raises(InputError, match="golden-comments"):
            CliRunner().invoke(app, ["leaderboard", *option], env={"CRB_HOME": str(home)}, catch_exceptions=False)
    with client_of(home) as client:
        for query in ("exclude_producer=people", "sort=grounded_f", "beta=9", "compatible=true&beta=2", "profile=no"):
            assert client.get(f"/api/v1/leaderboard?{query}").status_code == 400, query
