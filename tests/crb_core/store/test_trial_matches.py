"""Every raw match of a trial is there with its golden id, and exactly the claiming ones are marked."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import delete, insert, select

from crb_core.store.tables import CorrespondenceRow, GoldenRow, JudgmentRow, TrialRow, core
from crb_core.store.trial_audit import trial_record
from crb_core.store.trial_matches import matches_of_trial
from tests.crb_core.archived import make_store

links = core(CorrespondenceRow)
goldens = core(GoldenRow)


def test_the_matches_of_a_trial(tmp_path: Path) -> None:
    """Many to many: each candidate claims the first golden that is free, the rest only covers; by hand."""
    store = make_store(tmp_path)
    judgments, trials = core(JudgmentRow), core(TrialRow)
    with store.write() as connection:
        judgment = connection.execute(select(judgments.c.id).where(judgments.c.trial_id == 1).limit(1)).scalar_one()
        ids = list(
            connection.execute(
                select(goldens.c.finding_id)
                .join(trials, trials.c.pull_request_id == goldens.c.pull_request_id)
                .where(trials.c.id == 1)
                .order_by(goldens.c.position)
            ).scalars()
        )
        assert len(ids) >= 2
        connection.execute(delete(links).where(links.c.judgment_id == judgment))
        pairs = [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
        connection.execute(
            insert(links),
            [
                {"judgment_id": judgment, "candidate": candidate, "golden": golden, "reasoning": f"{candidate}{golden}"}
                for candidate, golden in pairs
            ],
        )
    with store.read() as connection:
        found = matches_of_trial(connection, 1, "reviewbench")[judgment]
        assert [(each["candidate"], each["golden"], each["claims"]) for each in found] == [
            (0, 1, True),
            (1, 0, True),
            (1, 1, False),
            (2, 0, False),
            (2, 1, False),
        ]
        assert [each["finding_id"] for each in found] == [ids[golden] for _, golden in pairs]
        assert [each["reasoning"] for each in found] == ["01", "10", "11", "20", "21"]
        assert {each["claims"] for each in matches_of_trial(connection, 1, "answer-key")[judgment]} == {None}
        record = trial_record(connection, 1)
        assert record is not None
        assert found in [each["matches"] for each in record["judgments"]]
        assert matches_of_trial(connection, 10**6, "reviewbench") == {}
    store.close()
