"""The API: numbers of ``crb leaderboard --json``, answers of its schema, errors of one shape."""

from __future__ import annotations

import hashlib
import json

import pytest
from sqlalchemy import insert, update
from starlette.testclient import TestClient
from typer.testing import CliRunner

from benchmarks.filled_sweep import PRODUCERS, fill
from crb_cli.main import app
from crb_core.evidence import FolderEvidence
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.tables import ClassificationRow, GoldenRow, StepRow, SweepRow, WorkerRow, core
from crb_web import models
from crb_web.app import create_app
from tests.crb_web.conftest import client_of


def command(home, monkeypatch, *arguments):
    """The document of ``crb leaderboard --json``."""
    monkeypatch.setenv("CRB_HOME", str(home))
    result = CliRunner().invoke(app, ["leaderboard", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"severity": ["high"]},
        {"severity": ["high", "medium"], "category": ["security", "correctness"], "beta": ["0.5"]},
        {"scope": ["introduced-by-pr"], "difficulty": ["easy", "hard"], "context_required": ["diff-only"]},
        {"actionability": ["actionable"]},
        {"producer": [PRODUCERS[1]], "beta": ["2"]},
        {"exclude_producer": ["llm_review:"], "sort": ["grounded_recall"]},
        {"sort": ["augmented_recall"]},
    ],
)
def test_every_filter_gives_the_numbers_of_the_command_line(served, home, monkeypatch, options):
    """The whole document is equal: rows, intervals, letters, pairs, strata and pull requests."""
    arguments = [
        text for name, values in options.items() for each in values for text in (f"--{name.replace('_', '-')}", each)
    ]
    expected = command(home, monkeypatch, "bench", *arguments)
    found = served.get("/api/v1/leaderboard", params={"sweep": "bench", "pull_requests": "true"} | options)
    assert found.status_code == 200
    assert found.json() == expected
    brief = served.get("/api/v1/leaderboard", params={"sweep": "bench"} | options).json()
    assert brief == command(home, monkeypatch, "bench", *arguments, "--no-pull-requests")


def test_partial_rounds_give_the_numbers_of_the_command_line(served, home, monkeypatch):
    """Also for an imported sweep."""
    for name, argument in (("", ()), ("true", ("--allow-partial",))):
        found = served.get("/api/v1/leaderboard", params={"sweep": "trial-run", "allow_partial": name}).json()
        assert found == command(home, monkeypatch, "trial-run", "--no-pull-requests", *argument)


def test_without_intervals_every_other_number_is_the_same(served):
    """A big sweep answers at once without them."""
    plain = served.get("/api/v1/leaderboard", params={"sweep": "bench", "intervals": "false"}).json()
    full = served.get("/api/v1/leaderboard", params={"sweep": "bench"}).json()
    for board, other in zip(plain["leaderboards"], full["leaderboards"], strict=True):
        assert "uncertainty" not in board
        for row, with_intervals in zip(board["rows"], other["rows"], strict=True):
            for metric, value in row["macro"].items():
                assert value == {
                    name: each for name, each in with_intervals["macro"][metric].items() if name != "interval"
                }
            assert row["counts"] == with_intervals["counts"]


def test_every_answer_is_of_its_model(served):
    """The OpenAPI schema describes what is answered."""
    schema = served.get("/api/v1/openapi.json").json()
    assert {
        "/api/v1/evidence/{sha256}",
        "/api/v1/leaderboard",
        "/api/v1/leaderboard/pictures",
        "/api/v1/pull-requests/{sweep}/{key}",
        "/api/v1/sweeps",
        "/api/v1/sweeps/{sweep}",
        "/api/v1/sweeps/{sweep}/dimensions",
        "/api/v1/sweeps/{sweep}/judges",
        "/api/v1/trials/{trial}",
    } <= set(schema["paths"])
    assert {method for path in schema["paths"].values() for method in path} == {"get"}
    for path, model in (
        ("/api/v1/sweeps", models.SweepsAnswer),
        ("/api/v1/sweeps/bench", models.SweepDetail),
        ("/api/v1/sweeps/trial-run/judges", models.JudgesAnswer),
        ("/api/v1/sweeps/trial-run/dimensions", models.DimensionsAnswer),
        ("/api/v1/leaderboard?sweep=bench", models.BoardsAnswer),
        ("/api/v1/leaderboard/pictures?sweep=bench", models.PicturesAnswer),
        ("/api/v1/pull-requests/trial-run/pr-1", models.PullRequestAnswer),
        ("/api/v1/trials/1", models.TrialAnswer),
        ("/api/v1/trials/0", models.ErrorAnswer),
        ("/api/v1/sweeps/nobody", models.ErrorAnswer),
    ):
        model.model_validate_json(served.get(path).content)


def test_findings_add_up_to_the_row(served):
    """What a pull-request page shows as matched is what the row counts."""
    row = served.get("/api/v1/leaderboard", params={"sweep": "bench"}).json()["leaderboards"][0]["rows"][0]
    states: dict[str, int] = {}
    covered = 0
    for key in served.get("/api/v1/sweeps/bench").json()["pull_requests"]:
        answer = served.get(f"/api/v1/pull-requests/bench/{key}").json()
        verdicts = [each["label"]["tp_fp"] for each in answer["golden"]]
        for trial in answer["trials"]:
            if trial["build"] == row["build"]:
                for each in trial["candidates"]:
                    states[each["state"]] = states.get(each["state"], 0) + 1
                covered += sum(each["covered"] and verdicts[each["position"]] == "tp" for each in trial["golden"])
    counts = row["counts"]
    assert states.pop("matched") == counts["matched_count"]
    assert states.pop("novel") == counts["unmatched_tp_count"]
    assert states.pop("false positive") == counts["unmatched_fp_count"]
    assert states == {}
    assert covered == counts["golden_covered_count"]


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/api/v1/leaderboard?beta=nan", 400, "beta"),
        ("/api/v1/leaderboard?beta=0", 400, "beta"),
        ("/api/v1/leaderboard?beta=1e999", 400, "beta"),
        ("/api/v1/leaderboard?severity=dreadful", 400, "severity"),
        ("/api/v1/leaderboard?scope=dreadful", 400, "scope"),
        ("/api/v1/leaderboard?producer=nobody", 400, "producer"),
        ("/api/v1/leaderboard?sort=rank", 400, None),
        ("/api/v1/leaderboard?profile=core", 400, None),
        ("/api/v1/leaderboard?severety=high", 400, "severety"),
        ("/api/v1/leaderboard?sweep=' OR 1=1 --", 404, None),
        ("/api/v1/leaderboard?judge=nobody", 404, None),
        ("/api/v1/sweeps/nobody", 404, None),
        ("/api/v1/pull-requests/bench/pr-999", 404, None),
        ("/api/v1/pull-requests/bench/pr-1?judge=nobody", 404, None),
        ("/api/v1/trials/99999", 404, None),
        ("/api/v1/trials/99999999999999999999999", 400, "trial"),
        ("/api/v1/trials/one", 400, "trial"),
        ("/api/v1/evidence/..%2f..%2fcrb.sqlite", 404, None),
        ("/api/v1/evidence/" + "a" * 64, 404, None),
        ("/api/v1/evidence/" + "A" * 64, 400, "sha256"),
        ("/api/v1/nothing", 404, None),
    ],
)
def test_errors_have_one_shape(served, path, status, field):
    """Status, problem, field and remedy, whatever is wrong."""
    answer = served.get(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"], error["field"]) == (status, status, field)
    assert sorted(error) == ["field", "problem", "remedy", "status"]
    assert error["problem"]


def test_evidence_is_text_or_a_download(served, home):
    """Text that a browser might take for a page stays text; everything else is downloaded, exactly."""
    store = FolderEvidence(home / "evidence")
    page, log = b"<script>alert(1)</script>", b"\x1b[31mred\x1b[0m"
    for data, kind, disposition in ((page, "text/plain", "inline"), (log, "application/octet-stream", "attachment")):
        answer = served.get(f"/api/v1/evidence/{store.put(data)}")
        assert answer.content == data
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["content-disposition"].startswith(disposition)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]


def test_a_changed_blob_is_not_served(served, home):
    """Evidence that lost its digest is an error of the store."""
    digest = FolderEvidence(home / "evidence").put(b"to be changed")
    blob = home / "evidence" / digest[:2] / digest
    blob.chmod(0o644)
    blob.write_bytes(b"changed")
    answer = served.get(f"/api/v1/evidence/{digest}")
    assert answer.status_code == 503
    assert hashlib.sha256(b"changed").hexdigest() != digest
    assert b"changed" not in answer.content


def test_a_commit_is_seen_by_the_next_request(tmp_path):
    """Nothing that was loaded before a commit of anybody is answered after it; also for a store that was replaced."""
    url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    store = open_store(url)
    fill(store, builds=1, pull_requests=3, rounds=1)
    with TestClient(create_app(Settings(home=tmp_path)), base_url="http://127.0.0.1") as client:

        def false_positives():
            board = client.get("/api/v1/leaderboard").json()["leaderboards"][0]
            return board["rows"][0]["counts"]["unmatched_fp_count"]

        before = false_positives()
        assert before == false_positives() > 0
        with store.write() as connection:
            connection.execute(update(core(ClassificationRow)).values(document={"tp_fp": "tp"}))
        assert false_positives() == 0
        store.close()
        for name in ("crb.sqlite", "crb.sqlite-wal", "crb.sqlite-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        other = open_store(url)
        fill(other, builds=2, pull_requests=3, rounds=1)
        other.close()
        assert len(client.get("/api/v1/leaderboard").json()["leaderboards"][0]["rows"]) == 2


def test_small_answers_are_kept_until_somebody_commits(tmp_path):
    """What pages ask of the store again and again is read once, and anew after any commit."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    fill(store, builds=1, pull_requests=1, rounds=1)
    with client_of(tmp_path) as client:
        sources = client.app.state.sources
        first = sources.sweeps()
        assert sources.sweeps() is first
        with store.write() as connection:
            connection.execute(update(core(SweepRow)).values(name="renamed"))
        assert [each["name"] for each in sources.sweeps()] == ["renamed"]
        assert client.get("/api/v1/leaderboard?sweep=renamed").json()["leaderboards"][0]["sweep"] == "renamed"
        assert client.get("/api/v1/leaderboard?sweep=bench").status_code == 404
    store.close()


def test_beats_do_not_load_a_sweep_again(tmp_path):
    """A running sweep's workers commit all the time; only records behind the leaderboard make it load anew."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    fill(store, builds=1, pull_requests=3, rounds=1)
    steps, workers = core(StepRow), core(WorkerRow)
    with client_of(tmp_path) as client:
        sources = client.app.state.sources
        sweep = sources.sweep("bench").id

        def loading():
            client.get("/api/v1/leaderboard")
            token = sources.token()
            return token, sources.loaded(sweep, sources.judge(sweep, None), "reviewbench")[0]

        first = loading()
        with store.write() as connection:
            connection.execute(insert(workers).values(name="w", host="h", pid=1, slots={}, started_at="x"))
            connection.execute(update(steps).values(beat=steps.c.beat + 1))
        second = loading()
        assert second[0] != first[0]
        assert second[1] == first[1]
        with store.write() as connection:
            connection.execute(update(core(GoldenRow)).values(finding_id="g-changed"))
        assert loading()[1] != first[1]
    store.close()
