"""Size (and language) of a pull request whose corpus records neither come from its diff, and every place says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.store.tables import AttemptRow, core
from tests.crb_web.audit_store import imported_home, opened
from tests.crb_web.conftest import client_of

SWEEP = "trial-run"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported sweep with a diff of pr-1, and none of its other pull requests."""
    return imported_home(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def client(described: Path) -> Iterator[TestClient]:
    with client_of(described) as found:
        yield found


def command(home: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setenv("CRB_HOME", str(home))
    return CliRunner().invoke(app, ["leaderboard", "show", SWEEP, *arguments], catch_exceptions=False)


def test_the_document_names_what_was_computed(client: TestClient) -> None:
    """Values as for recorded ones, and beside them of how many pull requests they were computed."""
    found = client.get(f"/api/v1/sweeps/{SWEEP}/dimensions").json()
    assert found["dimensions"]["language"] == {"Python": 3}
    assert found["dimensions"]["size"] == {"XS: under 10 lines": 1}
    assert found["computed"] == {"size": 1}


def test_a_filter_by_it_gives_the_same_everywhere(
    client: TestClient, described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API and command line: the same document, with what was computed; the table says it in words."""
    arguments = ("--dimension", "size=XS: under 10 lines")
    expected = json.loads(command(described, monkeypatch, *arguments, "--json", "--no-pull-requests").output)
    answer = client.get("/api/v1/leaderboard", params={"sweep": SWEEP, "dimension": "size=XS: under 10 lines"}).json()
    assert answer == expected
    (board,) = [each for each in answer["leaderboards"] if each["dimensions"]][:1]
    assert (board["dimensions"], board["dimensions_computed"]) == ({"size": ["XS: under 10 lines"]}, {"size": 1})
    assert {row["rounds"][0]["planned"] for row in board["rows"]} == {1}
    said = " ".join(command(described, monkeypatch, *arguments).output.split())
    assert "size XS: under 10 lines (computed from the diffs of 1)" in said


def test_the_page_marks_it(client: TestClient) -> None:
    """Beside the name of the dimension."""
    text = client.get("/", params={"sweep": SWEEP}).text
    assert "computed from the diff of 1, which the corpus does not describe" in text


def test_a_diff_that_is_gone_describes_nothing(tmp_path: Path) -> None:
    """Neither a blob that is missing, nor one that is no diff, is an empty diff."""
    home = imported_home(tmp_path)
    store = opened(home)
    with store.write() as connection:
        connection.execute(update(core(AttemptRow)).values(evidence={"diff": "0" * 64}))
    store.close()
    with client_of(home) as client:
        assert client.get(f"/api/v1/sweeps/{SWEEP}/dimensions").json()["computed"] == {}


def test_a_charge_stands_in_the_table_or_the_reason_why_not(client: TestClient) -> None:
    """Only where every scored review has an observed one; the reason is text of the page."""
    board = client.get("/api/v1/leaderboard", params={"sweep": SWEEP}).json()["leaderboards"][0]
    text = client.get("/", params={"sweep": SWEEP}).text
    for row in board["rows"]:
        charge = row["charge"]
        assert (charge["mean_usd"] is None) == (charge["reason"] is not None)
        if charge["mean_usd"] is None:
            assert f"Not known, not 0: {charge['reason']}." in text
        else:
            assert charge["observed"] == charge["reviews"]
            assert f"{charge['mean_usd']:.4f}" in text
