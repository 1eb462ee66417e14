"""Latency of a sweep, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from crb_core.agent import Outcome
from crb_core.errors import InputError
from crb_core.store import Store
from crb_core.store.latency import Latency, sweep_latency
from crb_core.store.tables import AttemptRow, StepRow, core
from tests.crb_scheduler.running_sweeps import PHASES, RunningSweep

attempts = core(AttemptRow)
steps = core(StepRow)


def test_percentiles_are_of_type_seven(store: Store) -> None:
    """For 1 to 10 s: p50 5.5, p90 9.1, p95 9.55, p99 9.91 s, and the maximum; each part with its n."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=10)
    for place in range(10):
        sweep.review(sweep.step("alpha", place), review_ms=1000.0 * (place + 1))
    with store.read() as connection:
        found = sweep_latency(connection, "nightly")
    expected = {"n": 10, "of": 10, "p50": 5500, "p90": 9100, "p95": 9550, "p99": 9910, "maximum": 10_000}
    assert found.all.phases["review"].model_dump() == pytest.approx(expected)
    assert found.all.phases["prepare"].p50 == PHASES["snapshot"] + PHASES["prepare"]
    assert list(found.all.phases) == ["queue", "prepare", "slot", "review", "collect", "teardown"]
    assert found.all.attempts == 10


def test_a_part_that_some_attempts_lack_says_so(store: Store) -> None:
    """Two of three were published and taken by clocks that agree; the third has no queue time and is not 0."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=3)
    for place in range(3):
        taken = sweep.review(sweep.step("alpha", place))
        phases = {key: value for key, value in PHASES.items() if place < 2 or key != "queue"}
        with store.write() as connection:
            connection.execute(update(attempts).where(attempts.c.trial_id == taken.trial_id).values(phases_ms=phases))
    with store.read() as connection:
        queue = sweep_latency(connection, "nightly").all.phases["queue"]
    assert queue == Latency(n=2, of=3, p50=40, p90=40, p95=40, p99=40, maximum=40)


def test_only_attempts_that_succeeded_count_unless_all_are_asked_for(store: Store) -> None:
    """A timeout's duration is the limit's, not the agent's."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=1)
    sweep.review(sweep.step("alpha", 0), Outcome.TIMEOUT, review_ms=60_000)
    sweep.review(sweep.step("alpha", 0), review_ms=1000)
    with store.read() as connection:
        succeeded = sweep_latency(connection, "nightly")
        ended = sweep_latency(connection, "nightly", all_attempts=True)
    assert (succeeded.all.attempts, succeeded.all.phases["review"].maximum) == (1, 1000)
    assert (ended.all.attempts, ended.all.phases["review"].maximum) == (2, 60_000)


def test_builds_apart_and_together(store: Store) -> None:
    """Each build has its own distribution; one agent alone is all there is of it."""
    sweep = RunningSweep(store, pull_requests=2)
    for agent, review_ms in (("alpha", 100.0), ("beta", 900.0)):
        for place in range(2):
            sweep.review(sweep.step(agent, place), review_ms=review_ms)
    with store.read() as connection:
        both = sweep_latency(connection, sweep.sweep_id)
        alone = sweep_latency(connection, "nightly", agent="beta")
    assert [(each.agent, each.phases["review"].p50) for each in both.builds] == [("alpha", 100), ("beta", 900)]
    assert (both.all.agent, both.all.phases["review"].p50) == (None, 500)
    assert [each.agent for each in alone.builds] == ["beta"]
    assert alone.all.phases == alone.builds[0].phases


def test_judge_stages_have_their_queue_and_their_work(store: Store) -> None:
    """From the take of a judge's step to its end by one monotonic clock; a step that is not done has none."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=2)
    sweep.done("alpha", 0)
    sweep.review(sweep.step("alpha", 1))
    with store.read() as connection:
        judging = sweep_latency(connection, "nightly").all.judging
        rows = connection.execute(select(steps.c.stage, steps.c.work_ms).order_by(steps.c.id)).all()
    assert list(judging) == ["offline"]
    assert list(judging["offline"]) == ["match", "score"]
    assert judging["offline"]["match"]["work"].n == 1
    assert [row.work_ms is not None for row in rows] == [False, False, True, True, False]
    assert all(row.work_ms is None or row.work_ms > 0 for row in rows)


def test_a_sweep_without_attempts_has_no_parts(store: Store) -> None:
    """Nothing was measured: nothing is shown, and no division fails."""
    RunningSweep(store, agents=("alpha",))
    with store.read() as connection:
        found = sweep_latency(connection, "nightly")
    assert (found.all.attempts, found.all.phases, found.all.judging) == (0, {}, {})


@pytest.mark.parametrize(("sweep_name", "agent"), [("missing", None), ("nightly", "missing")])
def test_what_is_not_there_is_said(store: Store, sweep_name: str, agent: str | None) -> None:
    """One sentence with the name."""
    RunningSweep(store, agents=("alpha",))
    with store.read() as connection, pytest.raises(InputError, match="missing"):
        sweep_latency(connection, sweep_name, agent=agent)
