"""``crb corpus propose ... sweep``: a round's findings, and by name what that round lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crb_cli.main import app
from tests.crb_cli.commands import Commands
from tests.crb_core.archived import SWEEP, make_store, reviews

commands = Commands(app)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "home").close()
    return tmp_path


@pytest.mark.parametrize(("number", "missing"), [(1, []), (2, ["pr-3"])])
def test_reviews_that_a_round_lacks_are_named(number: int, missing: list[str]) -> None:
    """Fewer findings because a review failed are told from fewer findings; places and messages are the agent's."""
    given = ("corpus", "propose", "little", "sweep", SWEEP, "--agent", "beta", "--round", str(number))
    summary = commands.read(*given, "--out", "p.json")
    assert [(each["kind"], each["field"]) for each in summary["left_out"] if "review" in each["kind"]] == [
        ("review that is not there", key) for key in missing
    ]
    made = json.loads(Path("p.json").read_text(encoding="utf-8"))["proposals"]
    expected = {
        (review.pull_request, each.finding.file, each.finding.start_line, each.finding.message)
        for review in reviews("beta", skip=(2, 3))
        if review.round == number
        for each in review.candidates
        if each.finding.file is not None
    }
    found = [(each["pull_request"], each["file"], each["start_line"], each["message"]) for each in made]
    assert set(found) == expected
    assert len(found) == len(expected)
