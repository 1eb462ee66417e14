"""Judges: the pages show what ``crb judge list|compare`` print, whole calibrations, and what is stale."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.calibration import Counts, ReviewAnswers, match_figures
from crb_core.label_calibration import LabelAnswers, axis_figures
from crb_core.store.calibrations import save_calibration
from crb_core.store.tables import JudgeRow, core
from crb_web.audit_models import JudgeAnswer, JudgeComparisonAnswer, StoredJudgesAnswer
from crb_web.show import number
from tests.crb_web.audit_store import opened
from tests.crb_web.conftest import client_of
from tests.crb_web.test_pages import BIDI, HOSTILE, Page, links, page


def command(home, monkeypatch, *arguments):
    monkeypatch.setenv("CRB_HOME", str(home))
    result = CliRunner().invoke(app, ["judge", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


#: (pull request, people's answers, the judge's) by axis; two severities differ upwards, one downwards.
LABELS = [
    ("one", {"tp_fp": "tp", "severity": "low"}, {"tp_fp": "tp", "severity": "high"}),
    ("one", {"tp_fp": "fp", "severity": "medium"}, {"tp_fp": "tp", "severity": "high"}),
    ("two", {"tp_fp": "tp", "severity": "high"}, {"tp_fp": "tp", "severity": "low"}),
    ("two", {"tp_fp": "tp", "severity": "high"}, {"tp_fp": "tp", "severity": "high"}),
    ("three", {"tp_fp": "fp", "severity": "low"}, {"tp_fp": "fp"}),
]


@pytest.fixture(scope="module")
def calibrated(showcase, tmp_path_factory):
    """A copy of the showcase home with two calibrations: one with labels, and one that is not held out."""
    home = tmp_path_factory.mktemp("calibrated") / "home"
    shutil.copytree(showcase, home)
    counts = Counts(tp=2, fp=1, fn=1)
    units = ((True, True), (False, True), (True, False), (False, False))
    answers = [
        ReviewAnswers(reviewer=name, pull_request=key, units=units[place:], judged=counts, reference=counts)
        for name in ("careful", "eager")
        for place, key in enumerate(("one", "two", "three"))
    ]
    axes = axis_figures(
        [LabelAnswers(pull_request=key, people=people, judge=judge) for key, people, judge in LABELS],
        severities=("high", "medium", "low"),
    )
    document = {
        "format": "crb.calibration/1",
        "reference": {"name": "people", "protocol": "reviewbench"},
        "examples": {"reported": 3, "held_out": 3, "motivating": 0},
        "judges": {"people": match_figures(answers).model_dump(mode="json")},
    }
    store = opened(home)
    with store.write() as connection:
        for name, held_out, classifier in (
            ("claude-fake-model", True, {"people": [axis.model_dump(mode="json") for axis in axes]}),
            ("offline", False, None),
        ):
            judge = connection.execute(select(core(JudgeRow)).where(core(JudgeRow).c.name == name)).one()
            save_calibration(
                connection,
                description=judge.document["description"],
                judge_name=name,
                reference="people",
                reference_sha256="a" * 64,
                held_out=held_out,
                document=document | {"classifier": classifier},
            )
    store.close()
    return home


def named(client, name):
    return next(each for each in client.get("/api/v1/judges").json()["judges"] if each["name"] == name)


def test_the_api_answers_what_the_commands_print(calibrated, monkeypatch):
    """Stored judges with versions, calibrations and staleness; the comparison of a sweep's judges."""
    listed = command(calibrated, monkeypatch, "list")
    with client_of(calibrated) as client:
        answer = client.get("/api/v1/judges")
        assert answer.json()["judges"] == listed["stored"]
        StoredJudgesAnswer.model_validate_json(answer.content)
        compared = client.get("/api/v1/sweeps/demo/judges/comparison")
        assert compared.json() == command(calibrated, monkeypatch, "compare", "demo")
        JudgeComparisonAnswer.model_validate_json(compared.content)
        for each in listed["stored"]:
            one = client.get(f"/api/v1/judges/{each['fingerprint']}")
            assert {name: one.json()[name] for name in each} == each
            JudgeAnswer.model_validate_json(one.content)


def test_the_page_shows_calibrations_whole(calibrated):
    """Every figure with its interval, confusion tables that sum to n, and which way severities err."""
    with client_of(calibrated) as client:
        judge = named(client, "claude-fake-model")
        text = page(client, f"/judges/{judge['fingerprint']}")
        (measured,) = client.get(f"/api/v1/judges/{judge['fingerprint']}").json()["measured"]
        offline = page(client, f"/judges/{named(client, 'offline')['fingerprint']}")
    for figures in measured["document"]["judges"].values():
        for name in ("agreement", "kappa", "precision", "recall", "f1"):
            assert f"{number(figures[name])}<span" in text
            assert f"{number(figures[f'{name}_low'])} – {number(figures[f'{name}_high'])}" in text
    for axes in measured["document"]["classifier"].values():
        for axis in axes:
            table = text.split(f'aria-label="Confusion of {axis["axis"]}"')[1].split("</table>")[0]
            cells = re.findall(r'<td class="value[a-z ]*">([0-9]+)</td>', table)
            assert sum(map(int, cells)) == axis["n"]
    assert "2 judged more severe than people did, 1 less" in text
    assert "not held out" in offline


def test_a_model_is_named_whole(shown):
    """Of two models whose names begin alike each is told from the other; only a digest is shortened."""
    models = {each["name"]: each["models"] for each in shown.get("/api/v1/judges").json()["judges"]}
    for name in ("maker_model-a", "maker_model-b", "vendor_model-1"):
        assert models[name] == {"matcher": name}
    assert re.fullmatch("[0-9a-f]{12}", models["offline"]["matcher"])
    assert "matcher: maker_model-b<" in page(shown, "/judges")


def test_the_page_shows_agreement_and_prompts(shown):
    """Kappa of every pair with its interval; each prompt with version, digest and text."""
    judge = named(shown, "claude-fake-model")
    text = page(shown, f"/judges/{judge['fingerprint']}", sweep="demo")
    pairs = shown.get("/api/v1/sweeps/demo/judges/comparison").json()["agreement"]
    mine = [each for each in pairs if judge["fingerprint"] in each["fingerprints"]]
    assert len(mine) == 2
    for pair in mine:
        assert number(pair["pairs"]["kappa"]) in text
        assert f"{number(pair['covered']['kappa_low'])} – {number(pair['covered']['kappa_high'])}" in text
    assert judge["prompts"]
    for prompt in judge["prompts"]:
        assert prompt["sha256"] in text
    assert "senior" in text
    assert "every prompt is still the one that it used" in text


def test_a_changed_prompt_is_stale(showcase, tmp_path):
    """The page says which, what a new judging would replace, and that today's text is not the one that was used."""
    home = tmp_path / "home"
    shutil.copytree(showcase, home)
    store = opened(home)
    judges = core(JudgeRow)
    with store.write() as connection:
        row = connection.execute(select(judges).where(judges.c.name == "claude-fake-model")).one()
        document = json.loads(json.dumps(row.document))
        described = document["description"].get("requests", document["description"])
        described["prompts"]["guidelines"]["sha256"] = "0" * 64
        described["prompts"]["repair"] = {"version": 7, "sha256": "1" * 64}
        connection.execute(update(judges).where(judges.c.id == row.id).values(document=document, name=HOSTILE))
    store.close()
    with client_of(home) as client:
        judge = client.get(f"/api/v1/judges/{row.id}").json()
        text = page(client, f"/judges/{row.id}")
        listed = page(client, "/judges")
        assert judge["stale"] == {"matching": True, "classifying": True}
        assert f"its {judge['labels']} labels" in text
        assert "is not in this installation, which has version" in text
        assert '<strong class="state unclassified">matching, classifying</strong>' in listed
        for each in (text, listed):
            assert [one.get("src") for one in Page(each).all("script")] == ["/static/crb.js"]
            assert BIDI not in each


def test_every_judge_is_linked(shown):
    """From the leaderboard's header to the list, from the list to each judge."""
    assert "/judges" in links(page(shown, "/"))
    found = links(page(shown, "/judges"))
    for judge in shown.get("/api/v1/judges").json()["judges"]:
        assert f"/judges/{judge['fingerprint']}" in found


def test_an_unknown_judge_is_a_sentence(shown):
    """404 with what to do; a sweep with one judge has no agreement to show."""
    assert "There is no judge nobody" in page(shown, "/judges/nobody", 404)
    assert shown.get("/api/v1/judges/nobody").json()["error"]["status"] == 404


def test_one_judge_alone(served):
    """A sweep with one judge has no agreement to show, and says so."""
    judge = named(served, "people")
    assert "fewer than two judges to compare" in page(served, f"/judges/{judge['fingerprint']}").lower()
    assert "Uncalibrated" in page(served, f"/judges/{judge['fingerprint']}")
    assert served.get("/api/v1/sweeps/trial-run/judges/comparison").status_code == 400
