"""Comparing builds: the page, the API and the command line show one document, and its numbers are the leaderboard's."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.store.tables import CorrespondenceRow, JudgmentRow, TrialRow, core
from crb_web.audit_models import ComparisonAnswer
from crb_web.show import number, signed
from tests.crb_core.formats import imported_samples
from tests.crb_web.audit_store import opened
from tests.crb_web.conftest import client_of
from tests.crb_web.test_pages import Page, links, page

AGENTS = ("recorded-careful", "recorded-eager", "lint")


def command(home, monkeypatch, *arguments):
    monkeypatch.setenv("CRB_HOME", str(home))
    result = CliRunner().invoke(app, ["leaderboard", "compare", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, ()),
        ({"severity": ["high"], "beta": "0.5"}, ("--severity", "high", "--beta", "0.5")),
        ({"category": ["security", "correctness"]}, ("--category", "security", "--category", "correctness")),
        ({"judge": "reference", "allow_partial": "true"}, ("--judge", "reference", "--allow-partial")),
    ],
)
def test_the_api_answers_what_the_command_prints(shown, showcase, monkeypatch, options, arguments):
    """The whole document is equal: pairs, strata, pull requests, rounds and what only one found."""
    agents = AGENTS[:2] if "judge" in options else AGENTS
    expected = command(showcase, monkeypatch, *agents, *arguments)
    answer = shown.get("/api/v1/compare", params={"build": list(agents)} | options)
    assert answer.status_code == 200
    assert answer.json() == expected
    ComparisonAnswer.model_validate_json(answer.content)


def test_numbers_are_those_of_the_leaderboard(shown):
    """A pull request's values are the row's, and a stratum's difference is that of the filtered rows."""
    document = shown.get("/api/v1/compare", params={"build": list(AGENTS[:2])}).json()
    (board,) = [
        each
        for each in shown.get("/api/v1/leaderboard", params={"pull_requests": "true"}).json()["leaderboards"]
        if each["judge"]["fingerprint"] == document["judge"]["fingerprint"]
    ]
    rows = {row["build"]: row for row in board["rows"]}
    for record in document["pull_requests"]:
        for build, values in record["builds"].items():
            for place, each in enumerate(rows[build]["rounds"]):
                (found,) = [one for one in each["score"]["per_pull_request"] if one["key"] == record["key"]]
                for metric in document["metrics"]:
                    assert values[metric]["rounds"][place] == pytest.approx(found["overall"][metric])
    high = shown.get("/api/v1/leaderboard", params={"severity": "high", "judge": document["judge"]["fingerprint"]})
    filtered = {row["build"]: row for row in high.json()["leaderboards"][0]["rows"]}
    (pair,) = document["pairs"]
    for each in pair["strata"]["severity"]["high"]:
        one, other = (filtered[pair[side]]["macro"][each["metric"]]["mean"] for side in ("one", "other"))
        if one is None or other is None:
            assert each["difference"] is None
        else:
            assert each["difference"] == pytest.approx(one - other, abs=1e-9)
    for each in document["builds"]:
        assert each["stability"] == rows[each["build"]]["stability"]


def test_found_by_only_one(shown, showcase):
    """Exactly the golden true positives that one of the builds matches in some round and no other build ever."""
    document = shown.get("/api/v1/compare", params={"build": list(AGENTS)}).json()
    matched: dict[tuple[str, int], set[str]] = {}
    judgments, trials, links_ = core(JudgmentRow), core(TrialRow), core(CorrespondenceRow)
    store = opened(showcase)
    with store.read() as connection:
        for row in connection.execute(
            select(trials.c.pull_request_id, trials.c.build_id, links_.c.golden)
            .join(judgments, judgments.c.id == links_.c.judgment_id)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(judgments.c.judge_id == document["judge"]["fingerprint"])
        ):
            matched.setdefault((row.pull_request_id, row.golden), set()).add(row.build_id)
    store.close()
    builds = {each["build"] for each in document["builds"]}
    expected = dict.fromkeys(builds, 0)
    for by in matched.values():
        if len(by & builds) == 1:
            expected[(by & builds).pop()] += 1
    found = document["found_by"]
    listed = {each["build"]: each["findings"] for each in found["only"]}
    answers = {
        key: shown.get(f"/api/v1/pull-requests/{document['sweep_id']}/{key}").json()["golden"]
        for key in {finding["pull_request"] for findings in listed.values() for finding in findings}
    }
    fps = sum(len(findings) for findings in listed.values())
    assert fps <= sum(expected.values())
    for build, findings in listed.items():
        assert len(findings) <= expected[build]
        for finding in findings:
            golden = answers[finding["pull_request"]][finding["golden"]]
            assert (golden["finding_id"], golden["label"]["tp_fp"]) == (finding["finding_id"], "tp")
    assert found["all"] + found["none"] + fps <= found["golden_tp"]


def test_the_page_shows_the_document(shown):
    """Differences with interval and p, links to each finding that only one has, rounds, stability, judges."""
    document = shown.get("/api/v1/compare", params={"build": list(AGENTS[:2])}).json()
    text = page(shown, "/compare", build=list(AGENTS[:2]))
    (pair,) = document["pairs"]
    for each in pair["comparisons"]:
        if each["difference"] is not None:
            assert f"{signed(each['difference'])}</span>" in text
            assert f"{signed(each['low'], 2)} to {signed(each['high'], 2)}" in text
    found = links(text)
    for build in document["found_by"]["only"]:
        for finding in build["findings"]:
            assert any(
                f"/pull-requests/{finding['pull_request']}?" in each and each.endswith(f"#golden-{finding['golden']}")
                for each in found
            )
    for each in document["builds"]:
        assert f"mean {number(each['stability']['pooled'])}" in text
    judges = shown.get(f"/api/v1/sweeps/{document['sweep_id']}/judges").json()["judges"]
    for judge in judges:
        assert any(each.startswith(f"/judges/{judge['fingerprint']}") for each in found)
    assert "does not classify" in text


def test_a_link_of_the_page_leads_to_its_anchor(shown):
    """A finding that only one has is on the page that its link names."""
    text = page(shown, "/compare", build=list(AGENTS[:2]))
    target = next(each for each in links(text) if "#golden-" in each)
    path, anchor = target.split("#")
    assert f'id="{anchor}"' in page(shown, path)


def test_the_choice_is_there_without_builds(shown):
    """A form with every build; too few or too many are said, not refused."""
    text = page(shown, "/compare")
    assert len([each for each in Page(text).all("input") if each.get("name") == "build"]) == 4
    assert "choose two to 4" in page(shown, "/compare", build=["lint"])
    answer = shown.get("/api/v1/compare", params={"build": ["lint"]})
    assert (answer.status_code, answer.json()["error"]["problem"]) == (
        400,
        "a comparison takes two to 4 builds, not 1",
    )


@pytest.mark.parametrize(
    ("params", "status", "problem"),
    [
        ({"build": ["lint", "nobody"]}, 400, "There is no agent nobody here"),
        ({"build": ["lint", "minimal"], "severity": "extreme"}, 400, "'extreme' is not a severity of this protocol"),
        ({"build": ["lint", "minimal"], "sweep": "nothing"}, 404, "There is no sweep"),
        ({"build": ["lint", "minimal"], "profile": "core"}, 400, "profile belongs to the protocol golden-comments"),
        ({"build": ["lint", "minimal"], "colour": "red"}, 400, "There is no parameter colour"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(shown, params, status, problem):
    """On the page as in the API."""
    assert problem.split("'")[-1] in page(shown, "/compare", status, **params)
    answer = shown.get("/api/v1/compare", params=params)
    assert (answer.status_code, answer.json()["error"]["problem"][: len(problem)]) == (status, problem)


def test_an_imported_sweep_is_compared(served):
    """With a round that one build lacks: only what both have."""
    document = served.get("/api/v1/compare", params={"sweep": "trial-run", "build": ["alpha", "beta"]}).json()
    (pair,) = document["pairs"]
    assert {tuple(each["rounds"]) for each in pair["comparisons"]} == {(1, 3)}
    text = page(served, "/compare", sweep="trial-run", build=["alpha", "beta"])
    assert "not averaged" in text


@pytest.fixture(scope="module")
def comments(tmp_path_factory):
    """A client over an imported golden-comments benchmark: two agents, one of which reviewed a part."""
    home = tmp_path_factory.mktemp("comments")
    folder = imported_samples.write_files(home / "benchmark", imported_samples.benchmark_files())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRB_HOME", str(home))
        for arguments in (
            ("corpus", "import", "golden-comments", str(folder), "--name", "widgets"),
            ("sweep", "import", "golden-comments", str(folder), "--corpus", "widgets", "--name", "published"),
        ):
            result = CliRunner().invoke(app, arguments, catch_exceptions=False)
            assert result.exit_code == 0, result.output
    with client_of(home) as client:
        yield home, client


def test_golden_comments_are_compared(comments, monkeypatch):
    """Counted strictly inside the profile, as the command line does; findings without a place have a section."""
    home, client = comments
    arguments = ("alpha", "beta", "--profile", "none", "--allow-partial")
    params = {"build": ["alpha", "beta"], "profile": "none", "allow_partial": "true"}
    assert client.get("/api/v1/compare", params=params).json() == command(home, monkeypatch, *arguments)
    text = page(client, "/compare", **params)
    assert "profile none, dedup on" in text
    key = client.get("/api/v1/compare", params=params).json()["pull_requests"][0]["key"]
    shown = page(client, f"/sweeps/published/pull-requests/{key}")
    assert "Without a location" in shown
    assert 'id="golden-0"' in shown
    assert "records no commits" in shown
    assert page(client, "/sweeps/published/trials")
    assert page(client, "/trials/1")
    assert page(client, "/compare", 400, **params, compatible="true")


def test_the_leaderboard_leads_here_with_its_state(shown):
    """Its form sends the filters and the chosen builds; the way back has the same filters."""
    text = page(shown, "/", severity="high", beta="0.5")
    form = Page(text[text.index('<form id="compare"') :].split("</form>")[0])
    fields = [(each["name"], each["value"]) for each in form.all("input")]
    chosen = [each["value"] for each in Page(text).all("input") if each.get("name") == "build"][:2]
    assert {("severity", "high"), ("beta", "0.5")} <= set(fields)
    answer = shown.get("/compare", params=[*fields, *(("build", build) for build in chosen)])
    assert answer.status_code == 200
    assert "only findings of severity high; beta 0.5" in answer.text
    assert any("severity=high" in each and "beta=0.5" in each for each in links(answer.text) if each.startswith("/?"))
