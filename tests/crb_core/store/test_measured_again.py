"""A sweep that runs is loaded again from what is new only, and is what a loading from nothing gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from benchmarks.filled_sweep import fill
from crb_core.dimensions import PullRequestFilter
from crb_core.store import Store
from crb_core.store.boards import LoadedBoard, board_json
from crb_core.store.results import StoredJudge
from crb_core.store.tables import (
    AttemptRow,
    ClassificationRow,
    CorrespondenceRow,
    JudgmentRow,
    StepRow,
    TrialRow,
    core,
)
from crb_core.strata import Subset

attempts = core(AttemptRow)
classifications = core(ClassificationRow)
correspondences = core(CorrespondenceRow)
judgments = core(JudgmentRow)
steps = core(StepRow)
trials = core(TrialRow)

FILTERS: list[dict[str, Any]] = [
    {},
    {"subset": Subset.parse(severity=["high"], category=["security", "correctness"]), "beta": 0.5},
    {"exclude_producers": ("llm_review:one",)},
    {"pull_requests": PullRequestFilter.parse(["repository=bench/bench"]), "allow_partial": True},
]


def whole(loaded: LoadedBoard) -> list[dict[str, object]]:
    """Every document of a loaded sweep, to the last digit."""
    return [
        board_json(loaded.board(**each), loaded.about, dimensions=each.get("pull_requests", PullRequestFilter()))
        for each in FILTERS
    ]


@pytest.fixture
def emptied(store: Store) -> tuple[str, StoredJudge, list[dict[str, Any]]]:
    """A sweep of which nothing has been reviewed, and by trial everything that will happen to it, in no order."""
    sweep_id, judge = fill(store, builds=2, pull_requests=3, rounds=2)
    events: dict[int, dict[str, Any]] = {}
    with store.write() as connection:
        for table in (attempts, judgments):
            for row in connection.execute(select(table)).all():
                events.setdefault(row.trial_id, {})[table.name] = dict(row._mapping)
        for table in (correspondences, classifications):
            for row in connection.execute(select(table)).all():
                events[row.judgment_id].setdefault(table.name, []).append(dict(row._mapping))
        for table in (correspondences, classifications, judgments, attempts):
            connection.execute(delete(table))
    found = list(events.values())
    random.Random(3).shuffle(found)
    return sweep_id, judge, found


def test_every_step_of_a_sweep_equals_a_loading_from_nothing(
    store: Store, emptied: tuple[str, StoredJudge, list[dict[str, Any]]]
) -> None:
    """Attempts that begin, end and fail, judgments that come in any order, under every kind of filter."""
    sweep_id, judge, events = emptied
    loaded = LoadedBoard.load(store, sweep_id, judge)
    for number, event in enumerate(events):
        trial = event["attempt"]["trial_id"]
        stages: list[Any] = [
            lambda c, e=event: c.execute(attempts.insert().values(**e["attempt"] | {"outcome": None, "usage": None})),
            lambda c, e=event, t=trial: c.execute(
                update(attempts)
                .where(attempts.c.trial_id == t)
                .values(outcome="succeeded", usage=e["attempt"]["usage"])
            ),
            lambda c, e=event: _judge(c, e),
        ]
        if number == 5:
            stages = [
                stages[0],
                lambda c, t=trial: (
                    c.execute(update(attempts).where(attempts.c.trial_id == t).values(outcome="timeout")),
                    c.execute(update(steps).where(steps.c.trial_id == t).values(state="failed", reason="timeout")),
                ),
            ]
        for stage in stages if number % 5 == 0 else [lambda c, s=stages: [each(c) for each in s]]:
            with store.write() as connection:
                stage(connection)
            before, loaded = loaded, LoadedBoard.load(store, sweep_id, judge, earlier=loaded)
            fresh = LoadedBoard.load(store, sweep_id, judge)
            assert loaded.about.trials == fresh.about.trials
            assert whole(loaded) == whole(fresh)
            # The earlier one may still be asked, and says what it said.
            assert whole(LoadedBoard(before.about, before.oversubscribed, before.dimensions)) == whole(before)


def _judge(connection: Any, event: dict[str, Any]) -> None:
    connection.execute(judgments.insert().values(**event["judgment"]))
    for table in (correspondences, classifications):
        if event.get(table.name):
            connection.execute(table.insert(), event[table.name])


def test_what_a_failed_attempt_used_is_read_at_once(store: Store) -> None:
    """A second attempt that fails changes neither the first one nor the outcome, but what was used."""
    sweep_id, judge = fill(store, builds=2, pull_requests=3, rounds=1)
    loaded = LoadedBoard.load(store, sweep_id, judge)
    with store.write() as connection:
        made = dict(connection.execute(select(attempts).order_by(attempts.c.trial_id)).first()._mapping)  # type: ignore[union-attr]
        del made["id"]
        for number in (2, 3):
            failed = {
                "number": number,
                "tag": f"again-{number}",
                "outcome": "timeout",
                "usage": {"total_tokens": number},
            }
            connection.execute(attempts.insert().values(**made | failed))
    again = LoadedBoard.load(store, sweep_id, judge, earlier=loaded)
    assert whole(again) == whole(LoadedBoard.load(store, sweep_id, judge)) != whole(loaded)
    row = next(row for row in again.board().rows if row.entry.failed.attempts)
    assert (row.entry.failed.attempts, row.entry.failed.total_tokens) == (2, 5)


def test_statistics_after_a_retry_are_of_the_whole_sweep(store: Store) -> None:
    """What was tried again joins what was there: scores, counts and durations are those of an undisturbed run."""
    sweep_id, judge = fill(store, builds=2, pull_requests=3, rounds=3)

    def figures() -> list[dict[str, Any]]:
        left_out = ("charge",)
        return [
            {name: value for name, value in row.to_json().items() if name not in left_out}
            for row in LoadedBoard.load(store, sweep_id, judge).board().rows
        ]

    undisturbed = figures()
    with store.write() as connection:
        made = [dict(row._mapping) for row in connection.execute(select(attempts).order_by(attempts.c.id).limit(2))]
        for row in made:
            again = {name: value for name, value in row.items() if name != "id"} | {"number": 2, "tag": f"r{row['id']}"}
            connection.execute(
                update(attempts).where(attempts.c.id == row["id"]).values(outcome="timeout", review_ms=9e9, usage=None)
            )
            connection.execute(attempts.insert().values(**again | {"outcome": None}))
        retried = judgments.c.trial_id.in_([row["trial_id"] for row in made])
        scored = connection.execute(select(judgments.c.id, judgments.c.scored_at).where(retried)).all()
        connection.execute(update(judgments).where(retried).values(scored_at=None))
    assert any(row["rounds_left_out"] for row in figures())
    with store.write() as connection:
        connection.execute(update(attempts).where(attempts.c.outcome.is_(None)).values(outcome="succeeded"))
        for judgment in scored:
            connection.execute(
                update(judgments).where(judgments.c.id == judgment.id).values(scored_at=judgment.scored_at)
            )
    assert figures() == undisturbed


def test_a_record_that_was_changed_is_read_again(store: Store) -> None:
    """Records are not changed, but a label that somebody changes by hand is noticed all the same."""
    sweep_id, judge = fill(store, builds=2, pull_requests=3, rounds=1)
    loaded = LoadedBoard.load(store, sweep_id, judge)
    earlier = whole(loaded)
    with store.write() as connection:
        connection.execute(update(classifications).values(document={"tp_fp": "fp", "severity": "high"}))
        connection.execute(delete(correspondences).where(correspondences.c.judgment_id == 1))
    again = LoadedBoard.load(store, sweep_id, judge, earlier=loaded)
    assert whole(again) == whole(LoadedBoard.load(store, sweep_id, judge)) != earlier


def test_what_did_not_change_is_the_same_record(store: Store) -> None:
    """Builds without news keep their trials, so that nothing is computed of them again."""
    sweep_id, judge = fill(store, builds=3, pull_requests=3, rounds=1)
    loaded = LoadedBoard.load(store, sweep_id, judge)
    loaded.board()
    with store.write() as connection:
        trial = connection.execute(select(trials.c.id, trials.c.build_id).order_by(trials.c.id)).first()
        assert trial is not None
        connection.execute(update(judgments).where(judgments.c.trial_id == trial.id).values(scored_at=None))
    partly = LoadedBoard.load(store, sweep_id, judge)
    with store.write() as connection:
        connection.execute(update(judgments).where(judgments.c.scored_at.is_(None)).values(scored_at="2999-01-02"))
    again = LoadedBoard.load(store, sweep_id, judge, earlier=partly)
    same = {build for build, of_build in again.about.trials.items() if of_build is partly.about.trials[build]}
    assert same == set(again.about.trials) - {trial.build_id}
