"""The picture of a running sweep, read from the store alone, on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from crb_core.agent import Outcome
from crb_core.store import Store
from crb_core.store.steps import beat, lose
from crb_core.store.tables import AttemptRow, JudgmentRow, Stage, StepRow, SweepBuildRow, SweepRow, core
from crb_scheduler.beats import BeatWatch
from crb_scheduler.progress import SweepProgress, read_progress, sweep_progress
from tests.crb_core.store.planned import LIMITS
from tests.crb_scheduler.running_sweeps import RunningSweep, fill


def look(sweep: RunningSweep, **how: Any) -> SweepProgress:
    with sweep.store.read() as connection:
        return sweep_progress(connection, sweep.sweep_id, **how)


def cells(progress: SweepProgress) -> dict[tuple[str, int], str]:
    return {(row.agent, row.round): row.cells for row in progress.heat_map.rows}


def test_the_heat_map_shows_every_state_of_a_trial(any_store: Store) -> None:
    """One cell a trial, pull requests in corpus order, a row for every build and round."""
    sweep = RunningSweep(any_store, pull_requests=4, rounds=2)
    sweep.worker()
    sweep.done("alpha", 0)
    sweep.review(sweep.step("alpha", 1))
    sweep.take(sweep.step("alpha", 2))
    for _ in range(LIMITS.agent):
        sweep.review(sweep.step("beta", 3), Outcome.TIMEOUT, detail="The agent was not done after 5 seconds.")
    progress = look(sweep)
    assert progress.heat_map.pull_requests == ("pr-1", "pr-2", "pr-3", "pr-4")
    assert cells(progress) == {
        ("alpha", 1): "sjrw",
        ("alpha", 2): "wwww",
        ("beta", 1): "wwwF",
        ("beta", 2): "wwww",
    }
    assert progress.by_state == {"scored": 1, "judging": 1, "reviewing": 1, "failed": 1, "waiting": 12}
    assert (progress.ended, progress.trials, progress.finished, progress.rounds) == (2, 16, False, 2)
    assert progress.queues == {
        "match": {"ready": 1},
        "review": {"failed": 1, "ready": 12, "running": 1},
    }


def test_both_ways_of_counting_agree(any_store: Store) -> None:
    """What the list of sweeps counts in the database is what the heat map shows."""
    sweep = RunningSweep(any_store, pull_requests=3)
    sweep.done("alpha", 0)
    sweep.review(sweep.step("beta", 2))
    sweep.take(sweep.step("beta", 1))
    with any_store.read() as connection:
        counts = read_progress(connection, sweep.sweep_id)
    progress = look(sweep)
    assert {name: getattr(progress, name) for name in type(counts).model_fields} == counts.model_dump() | {
        "failures": counts.failures
    }
    assert counts.to_json()["ended"] == 1


def test_attempts_that_failed_are_grouped_with_examples(any_store: Store) -> None:
    """By agent and outcome, with whose fault it was, how many trials failed for good, and the latest trials first."""
    sweep = RunningSweep(any_store, agents=("alpha",), pull_requests=5)
    for place in range(4):
        sweep.review(sweep.step("alpha", place), Outcome.TIMEOUT, detail=f"slow {place}")
    sweep.review(sweep.step("alpha", 0), Outcome.TIMEOUT, detail="slow again")
    sweep.review(sweep.step("alpha", 1))
    sweep.review(sweep.step("alpha", 4), Outcome.ENGINE_ERROR, detail="the engine is gone")
    sweep.review(sweep.step("alpha", 4), Outcome.CANCELLED, detail="cancelled")
    groups = look(sweep).failure_groups
    told = [(each.outcome, each.fault, each.attempts, each.trials, each.failed_trials) for each in groups]
    assert told == [
        ("timeout", "agent", 5, 4, 1),
        ("cancelled", "nobody", 1, 1, 0),
        ("engine_error", "farm", 1, 1, 0),
    ]
    trials = [trial_of(sweep, place) for place in range(5)]
    assert groups[0].examples == (trials[0], trials[3], trials[2])
    assert (groups[0].example, groups[2].example) == ("slow again", "the engine is gone")
    assert {(each.agent, each.stage) for each in groups} == {("alpha", "review")}


def trial_of(sweep: RunningSweep, place: int) -> int:
    steps = core(StepRow)
    with sweep.store.read() as connection:
        found: int = connection.execute(steps.select().where(steps.c.id == sweep.step("alpha", place))).one().trial_id
        return found


def test_a_judge_step_out_of_tries_is_a_failure_of_the_judge(any_store: Store) -> None:
    """It names its stage and reason, and the trial's cell is J."""
    sweep = RunningSweep(any_store, agents=("alpha",), pull_requests=1)
    sweep.review(sweep.step("alpha", 0))
    match = sweep.step("alpha", 0, stage=Stage.MATCH)
    for _ in range(LIMITS.farm):
        taken = sweep.take(match)
        assert lose(any_store, match, fence=taken.fence, beat=0, limits=LIMITS)
    progress = look(sweep)
    assert cells(progress) == {("alpha", 1): "J"}
    (group,) = progress.failure_groups
    assert (group.stage, group.outcome, group.fault, group.attempts) == ("match", "judge step failed", "judge", 1)
    assert group.example == "lost: the worker that held the step was not heard of"
    assert progress.steps_lost == LIMITS.farm
    assert progress.finished
    assert progress.estimate.how == "nothing is left to do"


def test_the_longest_running_trials_come_first(sqlite_store: Store) -> None:
    """By the attempt's begin; a worker whose clock is ahead gives no time instead of a negative one."""
    sweep = RunningSweep(sqlite_store, agents=("alpha",), pull_requests=3)
    attempts = core(AttemptRow)
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    begun = {0: now - timedelta(seconds=5), 1: now - timedelta(seconds=90), 2: now + timedelta(hours=1)}
    for place, since in begun.items():
        step = sweep.take(sweep.step("alpha", place), worker="host-1")
        with sqlite_store.write() as connection:
            connection.execute(
                update(attempts).where(attempts.c.trial_id == step.trial_id).values(started_at=since.isoformat())
            )
    running = look(sweep, now=now).running
    assert [(each.pull_request, each.seconds) for each in running] == [("pr-2", 90.0), ("pr-1", 5.0), ("pr-3", None)]
    assert {(each.stage, each.attempt, each.worker) for each in running} == {("review", 1, "host-1")}


def test_workers_with_their_load(any_store: Store) -> None:
    """What a worker says with its beat, what it holds, and whether its beat moves between two readings."""
    sweep = RunningSweep(any_store, agents=("alpha",), pull_requests=2)
    sweep.worker("one", slots={"review": 2, "match": 1})
    sweep.worker("two")
    taken = sweep.take(sweep.step("alpha", 0), worker="one")
    now = [0.0]
    beats = BeatWatch(30, clock=lambda: now[0])
    first = look(sweep, beats=beats)
    assert [(each.name, each.alive, each.running, each.status) for each in first.workers] == [
        ("one", None, {"review": 1}, None),
        ("two", None, {}, None),
    ]
    beat(any_store, "one", [(taken.id, taken.fence)], status={"cpu_percent": 12.5})
    now[0] = 31
    second = look(sweep, beats=beats)
    assert [(each.name, each.alive, each.status) for each in second.workers] == [
        ("one", True, {"cpu_percent": 12.5}),
        ("two", False, None),
    ]
    beat(any_store, "one", [], status=None)
    assert look(sweep, beats=beats).workers[0].status == {"cpu_percent": 12.5}


def test_throughput_and_estimate_come_from_what_ended_lately(any_store: Store) -> None:
    """Six trials a minute for ten minutes, 4 s each: 0.4 reviews at once; the rest takes the rest's time."""
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    sweep = fill(any_store, builds=3, pull_requests=10, rounds=3, now=now)
    progress = look(sweep, now=now)
    assert progress.rate is not None
    assert progress.rate.window_seconds == pytest.approx(34, abs=0.1)
    assert progress.rate.trials_per_minute == pytest.approx(60 / 34 * 60, rel=0.01)
    assert progress.rate.reviews_at_once == pytest.approx(60 * 4 / 34, rel=0.01)
    # 22 wait and 8 run, half done: 26 x 4 s at 7.06 at once.
    assert progress.estimate.seconds == pytest.approx(26 * 4 / (60 * 4 / 34), rel=0.01)
    assert progress.finish_at is not None
    ahead = datetime.fromisoformat(progress.finish_at) - now
    assert ahead.total_seconds() == pytest.approx(progress.estimate.seconds, abs=0.01)


def test_a_reader_whose_clock_is_behind_sees_the_same_throughput(sqlite_store: Store) -> None:
    """The workers' last sign is the present where it is later than the reader's clock."""
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    sweep = fill(sqlite_store, builds=2, pull_requests=10, rounds=2, now=now)
    punctual = look(sweep, now=now).rate
    behind = look(sweep, now=now - timedelta(days=1)).rate
    assert punctual is not None
    assert behind is not None
    assert behind.trials_per_minute == pytest.approx(punctual.trials_per_minute, rel=0.05)


def test_the_window_grows_where_little_ends(any_store: Store) -> None:
    """Reviews of half an hour: ten minutes see too few of them, an hour does."""
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    sweep = fill(any_store, builds=1, pull_requests=12, rounds=1, now=now)
    attempts, judgments = core(AttemptRow), core(JudgmentRow)
    with any_store.write() as connection:
        for table, column in ((attempts, "finished_at"), (judgments, "scored_at")):
            for place, row in enumerate(connection.execute(table.select().order_by(table.c.id)).all()):
                if getattr(row, column) is not None:
                    when = now - timedelta(minutes=7 * (place + 1))
                    connection.execute(table.update().where(table.c.id == row.id).values({column: when.isoformat()}))
        connection.execute(attempts.update().values(started_at=(now - timedelta(hours=3)).isoformat()))
    rate = look(sweep, now=now).rate
    assert rate is not None
    assert (rate.window_seconds, rate.reviews_per_minute) == (3600, pytest.approx(8 / 60))


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ("paused", "the sweep is paused"),
        ("cancelled", "the sweep is cancelled"),
        ("no worker", "the farm has no worker"),
        ("silent", "no worker of the farm is heard of"),
    ],
)
def test_there_is_no_estimate_where_nothing_will_happen(sqlite_store: Store, change: str, how: str) -> None:
    """A sweep that stands still has no end, and says why."""
    sweep = fill(sqlite_store, builds=2, pull_requests=10, rounds=2)
    now = [0.0]
    beats = BeatWatch(30, clock=lambda: now[0])
    assert look(sweep, beats=beats).estimate.seconds is not None
    with sqlite_store.write() as connection:
        if change in {"paused", "cancelled"}:
            connection.execute(update(core(SweepRow)).values(state=change))
        elif change == "no worker":
            connection.exec_driver_sql("DELETE FROM worker")
        else:
            now[0] = 60
    progress = look(sweep, beats=beats)
    assert (progress.estimate.seconds, progress.estimate.how, progress.finish_at) == (None, how, None)


def test_trials_of_a_paused_agent_are_left_out_and_named(any_store: Store) -> None:
    """They wait for a person, so no estimate counts them."""
    sweep = fill(any_store, builds=2, pull_requests=10, rounds=2)
    build_id = sweep.builds["agent-01"].build_id
    before = look(sweep)
    with any_store.write() as connection:
        connection.execute(
            update(core(SweepBuildRow))
            .where(core(SweepBuildRow).c.build_id == build_id)
            .values(paused=True, paused_reason="refused api.example.com")
        )
    after = look(sweep)
    assert after.paused_agents == {"agent-01": "refused api.example.com"}
    waiting = sum(row.cells.count("w") for row in after.heat_map.rows if row.agent == "agent-01")
    assert after.estimate.how.endswith(f"; {waiting} trials of paused agents are left out")
    assert after.estimate.seconds is not None
    assert before.estimate.seconds is not None
    assert after.estimate.seconds < before.estimate.seconds


def test_a_sweep_that_has_not_begun(sqlite_store: Store) -> None:
    """No rate, no estimate, every cell waits."""
    sweep = RunningSweep(sqlite_store, agents=("alpha",), pull_requests=2)
    sweep.worker()
    progress = look(sweep)
    assert (progress.rate, progress.started_at, progress.running) == (None, None, ())
    assert progress.estimate.how == "nothing has ended yet"
    assert cells(progress) == {("alpha", 1): "ww"}


def test_the_record_is_json_without_nan(sqlite_store: Store) -> None:
    """What the command streams and the web sends."""
    sweep = fill(sqlite_store, builds=2, pull_requests=3, rounds=1)
    document = look(sweep).to_json()
    assert SweepProgress.model_validate({k: v for k, v in document.items() if k not in {"finished", "ended"}})
    assert document["heat_map"]["codes"]["F"] == "failed"
