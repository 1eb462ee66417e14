"""What a loaded sweep is kept under: every change of a record behind a leaderboard changes it, beats do not."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, insert, select, update

from benchmarks.filled_sweep import fill
from crb_core.store import tables
from crb_core.store.content import board_content, store_content
from crb_core.store.tables import core

CHANGES = {
    "a label": lambda: update(core(tables.ClassificationRow)).values(document={"tp_fp": "fp", "severity": "low"}),
    "a label of equal length": lambda: (
        update(core(tables.ClassificationRow))
        .where(core(tables.ClassificationRow).c.judgment_id == 1)
        .values(document=core(tables.ClassificationRow).c.document)
    ),
    "a label less": lambda: (
        delete(core(tables.ClassificationRow)).where(core(tables.ClassificationRow).c.judgment_id == 1)
    ),
    "a label more": lambda: insert(core(tables.ClassificationRow)).values(
        judgment_id=1, candidate=99, document={"tp_fp": "tp"}
    ),
    "a match": lambda: (
        update(core(tables.CorrespondenceRow))
        .where(core(tables.CorrespondenceRow).c.judgment_id == 1)
        .values(probability=0.5)
    ),
    "a match less": lambda: (
        delete(core(tables.CorrespondenceRow)).where(core(tables.CorrespondenceRow).c.judgment_id == 1)
    ),
    "a match more": lambda: insert(core(tables.CorrespondenceRow)).values(judgment_id=1, candidate=98, golden=1),
    "a finding more": lambda: insert(core(tables.CandidateRow)).values(
        trial_id=1, position=99, message="late", producer="x"
    ),
    "a finding less": lambda: delete(core(tables.CandidateRow)).where(core(tables.CandidateRow).c.trial_id == 1),
    "a golden label": lambda: (
        update(core(tables.GoldenRow)).where(core(tables.GoldenRow).c.id == 1).values(document={"message": "other"})
    ),
    "a golden finding more": lambda: insert(core(tables.GoldenRow)).values(
        pull_request_id=1, position=99, finding_id="g-1", document={}
    ),
    "traits of a pull request": lambda: update(core(tables.PullRequestRow)).values(document={"key": "x"}),
    "the duration of a review": lambda: update(core(tables.AttemptRow)).values(review_ms=5.0),
    "an attempt more": lambda: insert(core(tables.AttemptRow)).values(
        trial_id=1, number=2, tag="t", worker="w", started_at="2020-01-01T00:00:00Z"
    ),
    "an attempt less": lambda: delete(core(tables.AttemptRow)).where(core(tables.AttemptRow).c.trial_id == 1),
    "a judgment that is open again": lambda: update(core(tables.JudgmentRow)).values(scored_at=None),
    "a judgment at another time": lambda: update(core(tables.JudgmentRow)).values(scored_at="3000-01-01T00:00:00Z"),
    "a failed step": lambda: (
        update(core(tables.StepRow)).where(core(tables.StepRow).c.id == 1).values(state="failed", reason="no space")
    ),
    "a build": lambda: update(core(tables.AgentBuildRow)).values(kind="replay"),
    "a judge": lambda: update(core(tables.JudgeRow)).values(name="another"),
    "the name of the sweep": lambda: update(core(tables.SweepRow)).values(name="another"),
    "the corpus": lambda: update(core(tables.CorpusRow)).values(imported_at="3000-01-01T00:00:00Z"),
    "what was imported": lambda: insert(core(tables.ImportRow)).values(
        kind="sweep", target=select(core(tables.SweepRow).c.id).scalar_subquery(), format="x", fingerprint="f",
        document={}, imported_at="3000-01-01T00:00:00Z",
    ),
}  # fmt: skip


def content(store, sweep):
    """Both answers, each of which must notice every change."""
    with store.read() as connection:
        return store_content(connection, sweep[0]), board_content(connection, sweep[0], sweep[1].judge_id)


@pytest.mark.parametrize("what", CHANGES)
def test_every_kind_of_change_is_noticed(store, what):
    """Also one by hand that leaves every count as it was."""
    sweep = fill(store, builds=1, pull_requests=2, rounds=1)
    before = content(store, sweep)
    assert content(store, sweep) == before
    with store.write() as connection:
        assert connection.execute(CHANGES[what]()).rowcount != 0
    whole, board = content(store, sweep)
    assert whole != before[0]
    assert board != before[1]


def test_another_reason_of_a_failed_step_is_noticed(store):
    """The reason stands on the leaderboard."""
    sweep = fill(store, builds=1, pull_requests=2, rounds=1)
    steps = core(tables.StepRow)
    with store.write() as connection:
        connection.execute(update(steps).values(state="failed", reason="one"))
    before = content(store, sweep)
    with store.write() as connection:
        connection.execute(update(steps).values(reason="two"))
    whole, board = content(store, sweep)
    assert whole != before[0]
    assert board != before[1]


def test_beats_are_not_noticed(store):
    """Nor that steps are queued, taken and given back: nothing on a leaderboard is made of it."""
    sweep = fill(store, builds=1, pull_requests=2, rounds=1)
    steps, workers = core(tables.StepRow), core(tables.WorkerRow)
    before = content(store, sweep)
    with store.write() as connection:
        connection.execute(insert(workers).values(name="w", host="h", pid=1, slots={}, started_at="x"))
        connection.execute(update(workers).values(beat=workers.c.beat + 1))
        connection.execute(update(steps).values(state="running", beat=steps.c.beat + 1, worker="w", fence=1))
        connection.execute(update(steps).values(state="ready", losses=1))
    assert content(store, sweep) == before


def test_other_sweeps_that_grow_are_not_noticed(store):
    """A sweep that runs beside a finished one does not make it load again; the quick question only asks the other."""
    sweep = fill(store, builds=1, pull_requests=2, rounds=1)
    before = content(store, sweep)
    trials, attempts = core(tables.TrialRow), core(tables.AttemptRow)
    with store.write() as connection:
        row = connection.execute(select(core(tables.SweepRow))).one()._mapping
        connection.execute(insert(core(tables.SweepRow)).values({**row, "id": "s-2", "name": "other"}))
        trial = connection.execute(select(trials).limit(1)).one()._mapping
        number = connection.execute(
            insert(trials).values({**trial, "id": 999, "sweep_id": "s-2"}).returning(trials.c.id)
        ).scalar_one()
        connection.execute(insert(attempts).values(trial_id=number, number=1, tag="o", worker="w", started_at="x"))
        connection.execute(
            update(attempts).where(attempts.c.trial_id == number).values(outcome="succeeded", review_ms=1.0)
        )
    assert content(store, sweep)[1] == before[1]
