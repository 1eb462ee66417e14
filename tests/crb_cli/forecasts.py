"""Forecasts of what other labels make of the sweep of ``archived``, held against a sweep that was judged with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crb_core.store import open_store
from crb_core.store.corpora import find_corpus
from crb_core.store.imports import import_reviews
from tests.crb_cli.commands import Commands
from tests.crb_core.archived import SWEEP, corpus, reviews

__all__ = ["assert_as_forecast", "golden_id"]


def golden_id(place: int, pull_request: str = "pr-1") -> str:
    return corpus().entry(pull_request).golden[place].finding_id(pull_request)


def assert_as_forecast(commands: Commands, home: Path, relabelled: str, forecast: dict[str, Any]) -> None:
    """The same reviews and matches, imported over the corpus ``relabelled``, have the forecast's numbers and ranks."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        import_reviews(
            connection,
            [*reviews("alpha"), *reviews("beta", skip=(2, 3))],
            name="again",
            corpus_id=find_corpus(connection, relabelled),
            format_name="reviewbench",
            record={"files": {}},
        )
    store.close()
    for sweep, which in ((SWEEP, "was"), ("again", "now")):
        rows = {row["agent"]: row for row in commands.read("leaderboard", sweep)["leaderboards"][0]["rows"]}
        assert rows.keys() == {row["agent"] for row in forecast["rows"]}
        for row in forecast["rows"]:
            shown = rows[row["agent"]]
            assert row[which] == {
                "rank": shown["rank"],
                **{name: shown["macro"][name]["mean"] for name in forecast["metrics"]},
                "unclassified_count": shown["counts"]["unclassified_count"],
            }
    assert any(row["was"] != row["now"] for row in forecast["rows"])
