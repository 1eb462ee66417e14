"""The documents behind a number are the same from SQLite and from PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_core.evidence import FolderEvidence
from crb_core.store import Store
from crb_core.store.audit_findings import pull_request_record, shown_diffs
from crb_core.store.boards import LoadedBoard
from crb_core.store.comparisons import comparison_json
from crb_core.store.finding_places import finding_places
from crb_core.store.judge_records import judge_document, stored_judges
from crb_core.store.results import sweep_judges
from crb_core.store.sweep_rows import RowOptions
from crb_core.store.sweeps import find_sweep
from crb_core.store.trial_audit import trial_document
from crb_core.store.trial_list import trial_list
from crb_core.store.trials import TrialFilter
from crb_core.strata import Subset
from tests.crb_core.archived import SWEEP, corpus, make_store


def documents(store: Store, home: Path) -> Any:
    """All of them, without times and the sweep's random id."""
    evidence = FolderEvidence(home / "evidence")
    with store.read() as connection:
        sweep_id = find_sweep(connection, SWEEP).id
        judge = sweep_judges(connection, sweep_id)[0]
        golden = corpus().entries[0].golden[0].finding_id("pr-1")
        found: list[Any] = [
            [trial_document(connection, evidence, number) for number in (1, 7, 18)],
            trial_list(connection, sweep_id, TrialFilter(outcome="timeout")),
            trial_list(connection, sweep_id, TrialFilter(agent="alpha"), scored="yes", offset=2, limit=3),
            pull_request_record(connection, sweep_id, "pr-1", judge.judge_id),
            shown_diffs(connection, sweep_id, "pr-1"),
            finding_places(connection, golden),
            stored_judges(connection),
            judge_document(connection, judge.judge_id),
        ]
    loaded = LoadedBoard.load(store, sweep_id, judge)
    options = RowOptions(beta=2.0, subset=Subset.parse(severity=["high", "low"]), allow_partial=True)
    found.append(comparison_json(store, loaded, ["alpha", "beta"], options))
    text = json.dumps(found, default=str).replace(sweep_id, "SWEEP")

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(each) for name, each in value.items() if not name.endswith("_at") and name != "tag"}
        return [timeless(each) for each in value] if isinstance(value, list) else value

    return timeless(json.loads(text))


@pytest.mark.docker
def test_postgresql_gives_the_same_documents(tmp_path: Path, postgres_url: str) -> None:
    """Trials, lists, findings, comparisons and judges, whole documents."""
    sqlite = make_store(tmp_path / "one")
    server = make_store(tmp_path / "other", url=postgres_url)
    try:
        expected = documents(sqlite, tmp_path / "one")
        assert documents(server, tmp_path / "other") == expected
        assert [each is not None for each in expected] == [True] * 9
    finally:
        sqlite.close()
        server.close()


@pytest.mark.parametrize("number", [0, 10**6])
def test_what_is_not_there_is_none(tmp_path: Path, number: int) -> None:
    """The callers say so in their own words."""
    store = make_store(tmp_path)
    with store.read() as connection:
        assert trial_document(connection, FolderEvidence(tmp_path / "evidence"), number) is None
        assert judge_document(connection, "nobody") is None
        assert pull_request_record(connection, "nothing", "pr-1", "nobody") is None
        assert shown_diffs(connection, "nothing", "pr-1") is None
        assert finding_places(connection, "g-000000000000") == []
    store.close()
