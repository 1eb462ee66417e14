"""``crb corpus effect``: a sweep's rows under other labels are those of a sweep that was judged with these labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crb_cli.main import app
from tests.crb_cli.commands import Commands
from tests.crb_cli.forecasts import assert_as_forecast, golden_id
from tests.crb_core.archived import SWEEP, make_store

commands = Commands(app)
run, read, refused = commands.run, commands.read, commands.refused


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a corpus and a judged sweep over it."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "home").close()
    return tmp_path / "home"


@pytest.fixture
def audited() -> str:
    """The corpus of the sweep with some labels by a person."""
    labels = [
        {"pull_request": "pr-1", "finding": golden_id(0), "tp_fp": "fp", "severity": "low"},
        {"pull_request": "pr-1", "finding": golden_id(1), "tp_fp": "fp"},
        {"pull_request": "pr-1", "finding": golden_id(2), "tp_fp": "tp"},
    ]
    Path("anna.json").write_text(json.dumps({"format": "crb.labels/1", "labels": labels}), encoding="utf-8")
    run("corpus", "audit", "little", "anna.json", "--save", "little-audited")
    return "little-audited"


def test_the_forecast_is_what_these_labels_give(home: Path, audited: str) -> None:
    """The same reviews and matches, imported over the audited corpus, have the forecast's numbers and ranks."""
    forecast = read("corpus", "effect", audited, SWEEP)
    assert_as_forecast(commands, home, audited, forecast)
    assert {(each["axis"], each["now"]) for each in forecast["changes"]} >= {("tp_fp", "fp"), ("severity", "low")}
    assert "ranks nobody" in run("corpus", "effect", audited, SWEEP)
    assert read("corpus", "effect", "little", SWEEP)["changes"] == []


def test_other_findings_have_no_forecast(audited: str) -> None:
    """What they match is not known; the sentence says what to do."""
    assert "has other golden findings" in refused("corpus", "effect", "showcase", SWEEP)
    assert "no sweep named nothing" in refused("corpus", "effect", audited, "nothing")
