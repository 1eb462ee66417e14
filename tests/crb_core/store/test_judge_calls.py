"""Calls of a judge's model in the store: answers found again, budgets kept, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import select, update

from crb_core.store import Store
from crb_core.store.judge_calls import (
    CallOutcome,
    NewCall,
    Spending,
    answered_calls,
    attempts_made,
    batch_calls,
    calls,
    close_call,
    find_answer,
    judgment_secret,
    open_call,
    reject_calls,
    reserve,
    reserve_in_run,
    run_budget,
    run_spending,
    spending,
)
from crb_core.store.sweeps import JudgePlan, add_judges, set_max_cost, sweep_builds
from crb_core.store.tables import Stage, StepRow, StepState, TrialRow, core
from tests.crb_core.store.planned import plan as plan_small

JUDGE = "j-aaaaaaaaaaaa"


def call(trial_id: int | None, **values: Any) -> NewCall:
    given = {
        "judge_id": JUDGE,
        "stage": "match",
        "label": "match pr-1",
        "request_hash": "h1",
        "secret": "ab",
        "attempt": 1,
        "model": "claude-sonnet-5",
        "request_digest": "d1",
        "reserved_usd": 0.2,
    }
    return NewCall(trial_id=trial_id, **(given | values))


def opened(store: Store, new: NewCall) -> int:
    with store.write() as connection:
        return open_call(connection, new)


def closed(store: Store, call_id: int, outcome: CallOutcome, **values: Any) -> None:
    with store.write() as connection:
        close_call(connection, call_id, outcome, **values)


@pytest.fixture
def sweep(store: Store) -> tuple[str, list[int]]:
    """A planned sweep with a limit of one dollar, and its trials."""
    planned = plan_small(store)
    with store.write() as connection:
        set_max_cost(connection, planned.sweep_id, 1.0)
        trials = list(connection.execute(select(core(TrialRow).c.id).order_by(core(TrialRow).c.id)).scalars())
    return planned.sweep_id, trials


def test_an_answer_belongs_to_its_judgment(store: Store, sweep: tuple[str, list[int]]) -> None:
    """The newest usable answer of one trial; without a trial, those without one. Rejected answers are not used."""
    _, (trial, *_) = sweep
    first = opened(store, call(trial))
    closed(store, first, CallOutcome.ANSWERED, answer_digest="a1", list_price_usd=0.1)
    loose = opened(store, call(None, secret="cd"))
    closed(store, loose, CallOutcome.ANSWERED, answer_digest="a2", list_price_usd=0.1)
    with store.read() as connection:
        found = find_answer(connection, JUDGE, "h1", trial_id=trial)
        assert found is not None
        assert (found.id, found.answer_digest) == (first, "a1")
        other = find_answer(connection, JUDGE, "h1", trial_id=None)
        assert other is not None
        assert other.id == loose
        newest = find_answer(connection, JUDGE, "h1", trial_id=None, any_trial=True)
        assert newest is not None
        assert newest.id == loose
        assert find_answer(connection, JUDGE, "h2", trial_id=trial) is None
        assert find_answer(connection, "j-bbbbbbbbbbbb", "h1", trial_id=trial) is None
        assert judgment_secret(connection, JUDGE, trial) == "ab"
        assert judgment_secret(connection, JUDGE, None) == "cd"
        assert [each.id for each in answered_calls(connection, JUDGE)] == [first, loose]
        assert [each.id for each in answered_calls(connection, JUDGE, sweep_id=sweep[0])] == [first]
    with store.write() as connection:
        reject_calls(connection, [first], detail="it named no finding")
        assert find_answer(connection, JUDGE, "h1", trial_id=trial) is None
        assert attempts_made(connection, JUDGE, "h1", trial) == 1
        assert attempts_made(connection, JUDGE, "h2", trial) == 0


def test_what_a_batch_holds(store: Store, sweep: tuple[str, list[int]]) -> None:
    """Only the calls of the judgment that wait for a batch."""
    _, (trial, *_) = sweep
    waiting = opened(store, call(trial, outcome=CallOutcome.BATCHED, batch_id="msgbatch_1"))
    opened(store, call(trial, request_hash="h2"))
    with store.read() as connection:
        assert [row.id for row in batch_calls(connection, JUDGE, trial)] == [waiting]
        assert batch_calls(connection, JUDGE, None) == []


def test_spending_of_a_sweep(store: Store, sweep: tuple[str, list[int]]) -> None:
    """Known prices, reservations under way, and those of calls that ended or were lost without a price."""
    sweep_id, (trial, *_) = sweep
    closed(store, opened(store, call(trial)), CallOutcome.ANSWERED, list_price_usd=0.05)
    opened(store, call(trial, request_hash="under way"))
    closed(store, opened(store, call(trial, request_hash="timed out")), CallOutcome.TIMEOUT)
    closed(store, opened(store, call(trial, request_hash="refused")), CallOutcome.INVALID, reserved_usd=None)
    lost = opened(store, call(trial, request_hash="lost"))
    opened(store, call(trial, request_hash="batched", outcome=CallOutcome.BATCHED, batch_id="msgbatch_1"))
    opened(store, call(None, request_hash="of no trial"))
    with store.write() as connection:
        connection.execute(update(calls).where(calls.c.id == lost).values(started_at="2020-01-01T00:00:00.000Z"))
        found = reserve(connection, sweep_id)
        assert found == spending(connection, sweep_id)
    assert found.max_usd == 1.0
    assert (found.known_usd, found.reserved_usd, found.lost_usd) == pytest.approx((0.05, 0.8, 0.4))


def test_spending_of_a_run(store: Store, sweep: tuple[str, list[int]]) -> None:
    """Only the judge's own calls without a trial, and only those that were made after the run began."""
    _, (trial, *_) = sweep
    closed(store, opened(store, call(None)), CallOutcome.ANSWERED, list_price_usd=0.3)
    with store.read() as connection:
        budget = run_budget(connection, JUDGE, 0.5)
    assert spent(store, budget) == Spending(max_usd=0.5, known_usd=0.0, reserved_usd=0.0, lost_usd=0.0)
    closed(store, opened(store, call(None)), CallOutcome.ANSWERED, list_price_usd=0.1)
    opened(store, call(None, request_hash="under way"))
    opened(store, call(trial))
    opened(store, call(None, judge_id="j-bbbbbbbbbbbb"))
    found = spent(store, budget)
    assert (found.known_usd, found.reserved_usd, found.lost_usd) == pytest.approx((0.1, 0.2, 0.0))


def spent(store: Store, budget: Any) -> Spending:
    with store.read() as connection:
        return run_spending(connection, budget)


@pytest.mark.parametrize("of_a_sweep", [True, False])
def test_reservations_are_made_one_after_another(
    store: Store, sweep: tuple[str, list[int]], *, of_a_sweep: bool
) -> None:
    """Eight threads that each look and reserve at once never reserve more than the limit."""
    sweep_id, (trial, *_) = sweep
    with store.read() as connection:
        budget = run_budget(connection, JUDGE, 1.0)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        with store.write() as connection:
            found = reserve(connection, sweep_id) if of_a_sweep else reserve_in_run(connection, budget)
            if found.known_usd + found.reserved_usd + 0.3 <= 1.0:
                open_call(connection, call(trial if of_a_sweep else None, request_hash=f"h{number}", reserved_usd=0.3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as connection:
        rows = list(connection.execute(select(calls.c.id)))
    assert len(rows) == 3


def test_judges_are_added_once(store: Store, sweep: tuple[str, list[int]]) -> None:
    """A review that is done gets one match step a judge, and the same judge again adds none."""
    sweep_id, _ = sweep
    steps = core(StepRow)
    judge = JudgePlan(judge_id=JUDGE, name="claude", classifies=True, document={"spec": "claude"})
    new = []
    with store.write() as connection:
        builds = [build.build_id for build in sweep_builds(connection, sweep_id)]
        new.append(add_judges(connection, sweep_id, [judge], builds))
        connection.execute(update(steps).values(state=StepState.DONE.value))
        new += [add_judges(connection, sweep_id, [judge], builds) for _ in range(2)]
        found = connection.execute(select(steps.c.stage).where(steps.c.judge_id == JUDGE)).scalars().all()
    # The planned judge's own match step comes with the review's end, which this test leaves out.
    assert new == [0, 2, 0]
    assert found == [Stage.MATCH.value]
