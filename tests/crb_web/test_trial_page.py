"""The page of a trial and the list of trials: everything that is recorded, with the state of every artifact."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from sqlalchemy import insert, select, update
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.agent import Outcome
from crb_core.evidence import FolderEvidence
from crb_core.identity import RowIdentity, TrialIdentity
from crb_core.store.tables import AttemptRow, CandidateRow, JudgeCallRow, StepRow, StepState, TrialRow, core
from crb_web.audit_models import TrialAnswer, TrialsAnswer
from crb_web.show import seconds, visible
from tests.crb_web.audit_store import imported_home, opened
from tests.crb_web.conftest import client_of
from tests.crb_web.test_pages import BIDI, HOSTILE, Page, links, page

CHARGE = {"prompt_tokens": 1200, "total_tokens": 1500, "cost_usd": 0.25, "models": ["model-b", "model-a"]}


def change(home, model, values, *where):
    store = opened(home)
    with store.write() as connection:
        connection.execute(update(core(model)).where(*where).values(**values))
    store.close()


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A home with trial 1 of artifacts in every state, refused hosts, and trial 2 that ended as output_invalid."""
    home = imported_home(tmp_path_factory.mktemp("odd"))
    evidence = FolderEvidence(home / "evidence")
    changed = evidence.put(b"as it was")
    blob = home / "evidence" / changed[:2] / changed
    blob.chmod(0o644)
    blob.write_bytes(b"as it is")
    digests = {
        "findings": evidence.put(b'{"findings": 3}'),
        "stdout": evidence.put(f"said {HOSTILE}\n".encode() * 200),
        "stderr": "0" * 64,
        "diff": changed,
        "extra": "no digest",
        "stdout_truncated": True,
    }
    change(
        home,
        AttemptRow,
        {
            "evidence": digests,
            "usage": CHARGE,
            "review_ms": 1234.0,
            "engine_ms": 1100.0,
            "phases_ms": {"queue": 500.0, "snapshot": 1500.0, "wait": 2000.0},
            "refused_hosts": [{"host": HOSTILE, "port": 443, "why": "not declared", "count": 2}],
        },
        core(AttemptRow).c.trial_id == 1,
    )
    change(
        home,
        AttemptRow,
        {"outcome": Outcome.OUTPUT_INVALID.value, "detail": HOSTILE, "refused_hosts": []},
        core(AttemptRow).c.trial_id == 2,
    )
    change(
        home,
        StepRow,
        {"state": StepState.FAILED.value, "reason": f"gave up: {HOSTILE}"},
        core(StepRow).c.trial_id == 2,
    )
    store = opened(home)
    with store.write() as connection:
        connection.execute(
            insert(core(JudgeCallRow)),
            [
                {
                    "trial_id": 1,
                    "judge_id": "j-x",
                    "stage": "match",
                    "label": HOSTILE,
                    "request_hash": "h",
                    "secret": "5ec4e7",
                    "attempt": 1,
                    "model": "model-x",
                    "outcome": "answered",
                    "request_digest": evidence.put(b'{"ask": 1}'),
                    "answer_digest": "1" * 64,
                    "input_tokens": 1000,
                    "charge_usd": 0.5,
                    "started_at": "2999-01-01T00:00:00.000Z",
                }
            ],
        )
    store.close()
    return home


@pytest.fixture(scope="module")
def client(odd):
    with client_of(odd) as found:
        yield found


@pytest.fixture(scope="module")
def reviewed(shown):
    """The trials of the real sweep."""
    return [each["trial"] for each in shown.get("/api/v1/sweeps/demo/trials").json()["trials"]]


def test_the_api_answers_what_the_command_prints(shown, showcase, reviewed, monkeypatch):
    """``crb trial show --json``, for every trial of a real sweep."""
    monkeypatch.setenv("CRB_HOME", str(showcase))
    for number in (reviewed[0], reviewed[8], reviewed[-2]):
        result = CliRunner().invoke(app, ["trial", "show", str(number), "--json"], catch_exceptions=False)
        answer = shown.get(f"/api/v1/trials/{number}")
        assert answer.json() == json.loads(result.output)
        TrialAnswer.model_validate_json(answer.content)


def test_every_artifact_of_a_real_sweep_is_present(shown, reviewed):
    """Diff, findings, both streams, and request and answer of every call, each linked to its blob."""
    calls = 0
    for number in reviewed[::5]:
        answer = shown.get(f"/api/v1/trials/{number}").json()
        text = page(shown, f"/trials/{number}")
        assert {each["state"] for each in answer["artifacts"]} == {"present"}
        assert {"diff", "findings", "stderr", "stdout"} <= {each["name"] for each in answer["artifacts"]}
        assert len([each for each in answer["artifacts"] if each["name"] == "request"]) == len(answer["calls"])
        calls += len(answer["calls"])
        for each in answer["artifacts"]:
            assert f"/api/v1/evidence/{each['sha256']}" in links(text)
            blob = shown.get(f"/api/v1/evidence/{each['sha256']}")
            assert (blob.status_code, len(blob.content)) == (200, each["bytes"])
    assert calls


def test_labels_stand_with_their_reasons(shown, reviewed):
    """What a judge said of a finding that matches nothing, under the finding, with each axis's justification."""
    seen = 0
    for number in reviewed:
        for judgment in shown.get(f"/api/v1/trials/{number}").json()["judgments"]:
            for label in judgment["labels"]:
                text = page(shown, f"/trials/{number}")
                finding = text[text.index(f'id="finding-{label["candidate"]}"') :]
                finding = finding[: finding.index("</li>")]
                assert judgment["judge"] in finding
                for axis in ("tp_fp", "severity", "category"):
                    if label[f"{axis}_justification"]:
                        assert visible(label[f"{axis}_justification"]) in finding
                seen += 1
        if seen > 3:
            return
    pytest.fail("no trial has a label")


def test_identity_of_trial_and_row(shown, reviewed):
    """Ten fields (rule 13), and of each judge's row its own hash, equal to the leaderboard's."""
    answer = shown.get(f"/api/v1/trials/{reviewed[0]}").json()
    assert len(answer["identity"]) == 10
    assert TrialIdentity.model_validate(answer["identity"]).sha256 == answer["identity_sha256"]
    text = page(shown, f"/trials/{reviewed[0]}")
    boards = shown.get("/api/v1/leaderboard", params={"intervals": "false"}).json()["leaderboards"]
    for row in answer["rows"]:
        assert RowIdentity.model_validate(row["row_identity"]).sha256 == row["row_sha256"]
        assert row["row_sha256"] in text
        (board,) = [each for each in boards if each["judge"]["fingerprint"] == row["judge_id"]]
        assert row["row_sha256"] in {each["row_sha256"] for each in board["rows"]}
    for value in answer["identity"].values():
        if isinstance(value, str):
            assert value in text


def test_the_timeline_has_every_phase_as_text(shown, reviewed):
    """A bar without text would say nothing to a screen reader; review_ms stands beside the engine's time."""
    (attempt,) = shown.get(f"/api/v1/trials/{reviewed[0]}").json()["attempts"]
    text = page(shown, f"/trials/{reviewed[0]}")
    assert attempt["phases_ms"]
    for name, milliseconds in attempt["phases_ms"].items():
        assert f"{name} {seconds(milliseconds)} s" in text
    bars = [each for each in Page(text).all("rect") if "phase" in (each["class"] or "")]
    assert sum(float(each["width"] or 0) for each in bars) == pytest.approx(1000, abs=1)
    assert f"{seconds(attempt['review_ms'])} s" in text
    assert "no engine ran it" in text


def test_every_artifact_has_its_state(client):
    """Present, missing, malformed and changed blobs are told apart, each with what is wrong."""
    answer = client.get("/api/v1/trials/1").json()
    states = {each["name"]: (each["state"], each["truncated"]) for each in answer["artifacts"]}
    assert states == {
        "findings": ("malformed", False),
        "stdout": ("present", True),
        "stderr": ("missing", False),
        "diff": ("digest differs", False),
        "extra": ("malformed", False),
        "request": ("present", False),
        "answer": ("missing", False),
    }
    text = page(client, "/trials/1")
    assert "5 artifacts cannot be audited" in text
    for words in ("no object with an array of findings", "is no SHA-256", "does not have that SHA-256 any more"):
        assert words in text
    assert "its beginning was dropped" in text
    for each in answer["artifacts"]:
        if each["state"] == "present":
            assert client.get(f"/api/v1/evidence/{each['sha256']}").status_code == 200
    assert "5ec4e7" not in text
    assert "5ec4e7" not in client.get("/api/v1/trials/1").text


def test_usage_names_models_and_evidence(client):
    """Tokens with the models that they count; a charge with the blob that states it."""
    answer = client.get("/api/v1/trials/1").json()
    findings = next(each for each in answer["artifacts"] if each["name"] == "findings")
    assert answer["usage"]["models"] == ["model-a", "model-b"]
    assert answer["usage"]["evidence"] == findings["sha256"]
    text = page(client, "/trials/1")
    assert "1,500" in text
    assert "model-a, model-b" in text
    assert '0.25 <span class="note">observed, stated in' in text
    assert "0.5 charged" in text


def test_usage_of_a_failed_attempt_is_shown_or_said_to_be_unknown(tmp_path):
    """What an attempt used that did not succeed is in no figure of a review; unsaid, it is not 0."""
    home = imported_home(tmp_path)
    for trial, usage in ((1, {"total_tokens": 1500, "cost_usd": 0.25}), (2, None)):
        of_trial = core(AttemptRow).c.trial_id == trial
        change(home, AttemptRow, {"outcome": Outcome.TIMEOUT.value, "usage": usage}, of_trial)
    with client_of(home) as client:
        told, silent = (" ".join(re.sub("<[^>]+>", " ", page(client, f"/trials/{n}")).split()) for n in (1, 2))
    assert "total tokens 1,500, cost usd 0.25 in no figure of a review" in told
    assert "usage none was reported; it is not 0" in silent


def test_a_trial_of_hostile_texts_is_inert(client):
    """Host names, labels, logs, reasons and details of agents and models."""
    for path in ("/trials/1", "/trials/2", "/sweeps/trial-run/trials"):
        text = page(client, path)
        elements = Page(text)
        assert [each.get("src") for each in elements.all("script")] == ["/static/crb.js"]
        assert elements.all("img") == []
        assert not any(each in text for each in (BIDI, "\x1b", "\u200b", "\u2066"))
        assert "U+202E" in text
        identifiers = [each["id"] for _, each in elements.elements if "id" in each]
        assert len(identifiers) == len(set(identifiers))


def test_malformed_and_unscored_trials_are_listed(client):
    """All of them by default; by outcome and by score on request; the reason stands beside."""
    everything = client.get("/api/v1/sweeps/trial-run/trials")
    TrialsAnswer.model_validate_json(everything.content)
    answer = everything.json()
    assert answer["total"] == len(answer["trials"]) == 18
    assert sum(answer["outcomes"].values()) == 18
    text = page(client, "/sweeps/trial-run/trials")
    for each in answer["trials"]:
        assert f"/trials/{each['trial']}" in links(text)
    invalid = client.get("/api/v1/sweeps/trial-run/trials", params={"outcome": "output_invalid"}).json()
    assert [each["trial"] for each in invalid["trials"]] == [2]
    assert "review failed: gave up" in page(client, "/sweeps/trial-run/trials", outcome="output_invalid")
    unscored = client.get("/api/v1/sweeps/trial-run/trials", params={"scored": "no"}).json()
    scored = client.get("/api/v1/sweeps/trial-run/trials", params={"scored": "yes"}).json()
    assert unscored["total"] + scored["total"] == 18
    assert {each["result"] for each in unscored["trials"]} == {"timeout"}
    assert "There is no outcome" in page(client, "/sweeps/trial-run/trials", 400, outcome="nonsense")


def test_the_list_comes_in_pages(client):
    """Every trial is on exactly one page, and the links lead through all of them."""
    seen = []
    offset = 0
    while True:
        answer = client.get("/api/v1/sweeps/trial-run/trials", params={"limit": 7, "offset": offset}).json()
        if not answer["trials"]:
            break
        seen += [each["trial"] for each in answer["trials"]]
        offset += 7
    assert seen == sorted(set(seen))
    assert len(seen) == 18
    text = page(client, "/sweeps/trial-run/trials", limit="7", agent="")
    assert any("offset=7" in each for each in links(text))


def test_a_trial_before_its_first_attempt(tmp_path):
    """It is listed as such, and its page says that there is nothing yet."""
    home = imported_home(tmp_path)
    store = opened(home)
    with store.write() as connection:
        attempts, candidates = core(AttemptRow), core(CandidateRow)
        connection.execute(attempts.delete().where(attempts.c.trial_id == 1))
        connection.execute(candidates.delete().where(candidates.c.trial_id == 1))
        assert connection.execute(select(core(TrialRow).c.id).where(core(TrialRow).c.id == 1)).first() is not None
    store.close()
    with client_of(home) as client:
        answer = client.get("/api/v1/sweeps/trial-run/trials", params={"outcome": "no attempt"}).json()
        assert [each["trial"] for each in answer["trials"]] == [1]
        assert "None yet." in page(client, "/trials/1")
        assert page(client, "/sweeps/trial-run/pull-requests/pr-1")


def test_evidence_that_is_away_is_said(showcase, tmp_path):
    """A whole evidence folder that is gone: every artifact is missing, and the page still stands."""
    home = tmp_path / "home"
    shutil.copytree(showcase, home)
    shutil.rmtree(home / "evidence")
    with client_of(home) as client:
        answer = client.get("/api/v1/trials/1").json()
        assert {each["state"] for each in answer["artifacts"]} == {"missing"}
        assert "cannot be audited" in page(client, "/trials/1")
