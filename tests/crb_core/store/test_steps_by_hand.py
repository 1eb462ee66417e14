"""What people do to a running sweep: pause, cancel, resume, interrupt (crb_core/store/steps)."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, insert, select, update

from crb_core.agent import Outcome
from crb_core.store import Store
from crb_core.store.judgments import add_judge_steps
from crb_core.store.steps import AttemptLimits, TakenStep, beat, fail, finish_attempt, interrupt, lose, take
from crb_core.store.tables import AttemptRow, Stage, StepRow, StepState, SweepState, WorkerRow, core
from tests.crb_core.store.planned import LIMITS, Planned, plan

steps = core(StepRow)
attempts = core(AttemptRow)


def finish(planned: Planned, step: TakenStep, outcome: Outcome) -> StepState | None:
    """As the review task does: a success is followed by the judges' steps."""
    with planned.store.write() as connection:
        state = finish_attempt(connection, step, outcome=outcome, detail="said so", values={}, limits=LIMITS)
        if state is StepState.DONE:
            add_judge_steps(connection, step)
        return state


class TestPausing:
    def test_a_message_of_a_paused_sweep_or_build_waits_its_turn(self, store: Store) -> None:
        """A step that was queued before the pause is not taken, and is ready again instead of queued for ever."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.queue(step_id)
        planned.set_state(SweepState.PAUSED)
        assert take(store, step_id, "w") is None
        assert planned.state(step_id) == "ready"
        planned.set_state(SweepState.ACTIVE)
        planned.queue(step_id)
        planned.pause_build(True)
        assert take(store, step_id, "w") is None
        assert planned.state(step_id) == "ready"
        planned.pause_build(False)
        assert planned.take(step_id).attempt_number == 1


class TestCancelling:
    def test_what_waits_ends_and_what_runs_is_asked_to_stop(self, store: Store) -> None:
        """The worker learns of it with its next beat; its attempt ends as cancelled."""
        planned = plan(store, pull_requests=3)
        running, queued, ready = planned.ids()
        taken = planned.take(running)
        planned.queue(queued)
        planned.set_state(SweepState.CANCELLED)
        assert [planned.state(step_id) for step_id in (running, queued, ready)] == ["running", "cancelled", "cancelled"]
        assert take(store, queued, "w") is None
        (answer,) = beat(store, "w", [(running, taken.fence)])
        assert (answer.still_held, answer.cancel_requested) == (True, True)
        assert finish(planned, taken, Outcome.CANCELLED) is StepState.CANCELLED
        assert planned.attempts(running) == [(1, "cancelled")]

    @pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.ENGINE_ERROR])
    def test_a_failure_after_the_cancel_is_not_tried_again(self, store: Store, outcome: Outcome) -> None:
        """The step is cancelled, not ready: nothing of a cancelled sweep waits."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)
        planned.set_state(SweepState.CANCELLED)
        assert finish(planned, taken, outcome) is StepState.CANCELLED
        assert planned.attempts(step_id) == [(1, outcome.value)]

    def test_a_review_that_finished_all_the_same_is_kept_but_not_judged(self, store: Store) -> None:
        """Its judge's step is there, cancelled, and goes on when the sweep is resumed."""
        planned = plan(store)
        taken = planned.take(planned.ids()[0])
        planned.set_state(SweepState.CANCELLED)
        assert finish(planned, taken, Outcome.SUCCEEDED) is StepState.DONE
        (match,) = planned.ids(Stage.MATCH)
        assert planned.state(match) == "cancelled"
        planned.set_state(SweepState.ACTIVE)
        assert planned.take(match).stage is Stage.MATCH

    def test_a_judge_step_that_fails_after_the_cancel_is_cancelled(self, store: Store) -> None:
        """As for a review."""
        planned = plan(store)
        finish(planned, planned.take(planned.ids()[0]), Outcome.SUCCEEDED)
        (match,) = planned.ids(Stage.MATCH)
        taken = planned.take(match)
        planned.set_state(SweepState.CANCELLED)
        assert fail(store, taken, reason="busy", retryable=True, limit=5)
        assert planned.state(match) == "cancelled"

    def test_a_worker_that_dies_after_the_cancel_leaves_a_cancelled_trial(self, store: Store) -> None:
        """It is not called lost: nobody wants the trial any more."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.take(step_id)
        planned.set_state(SweepState.CANCELLED)
        assert lose(store, step_id, fence=1, beat=0, limits=LIMITS)
        assert planned.state(step_id) == "cancelled"
        assert planned.attempts(step_id) == [(1, "cancelled")]

    def test_resuming_brings_everything_back(self, store: Store) -> None:
        """A cancelled attempt counts against nobody, and what still runs is left to run."""
        planned = plan(store, pull_requests=3)
        stopped, running, ready = planned.ids()
        first, second = planned.take(stopped), planned.take(running)
        planned.set_state(SweepState.CANCELLED)
        assert finish(planned, first, Outcome.CANCELLED) is StepState.CANCELLED
        planned.set_state(SweepState.ACTIVE)
        assert [planned.state(step_id) for step_id in (stopped, running, ready)] == ["ready", "running", "ready"]
        (answer,) = beat(store, "w", [(running, second.fence)])
        assert not answer.cancel_requested
        assert finish(planned, second, Outcome.SUCCEEDED) is StepState.DONE
        assert finish(planned, planned.take(stopped), Outcome.TIMEOUT) is StepState.READY
        again = planned.take(stopped)
        (answer,) = beat(store, "w", [(stopped, again.fence)])
        assert not answer.cancel_requested
        assert planned.attempts(stopped) == [(1, "cancelled"), (2, "timeout"), (3, None)]

    def test_a_container_that_was_stopped_for_a_cancel_that_is_over_runs_again(self, store: Store) -> None:
        """Cancelled and resumed while the container was being stopped: the active sweep still wants the trial."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)
        planned.set_state(SweepState.CANCELLED)
        planned.set_state(SweepState.ACTIVE)
        assert finish(planned, taken, Outcome.CANCELLED) is StepState.READY
        assert planned.attempts(step_id) == [(1, "cancelled")]

    def test_no_step_escapes_a_cancel_between_workers(self, store: Store) -> None:
        """While 4 workers take and finish, a cancel leaves nothing ready or queued, and only flagged steps running."""
        for seed in range(3):
            planned = plan(store, pull_requests=8, rounds=2, agent=f"agent-{seed}")
            ids = planned.ids()
            planned.queue(*ids)
            begin = threading.Barrier(5)

            def work(
                number: int, planned: Planned = planned, begin: threading.Barrier = begin, seed: int = seed
            ) -> None:
                order = random.Random(10 * seed + number)
                begin.wait()
                for step_id in order.sample(planned.ids(), 16):
                    taken = take(store, step_id, f"w{number}")
                    if taken is not None and order.random() < 0.7:
                        finish(planned, taken, order.choice([Outcome.SUCCEEDED, Outcome.TIMEOUT]))

            with ThreadPoolExecutor(4) as pool:
                workers = [pool.submit(work, number) for number in range(4)]
                begin.wait()
                planned.set_state(SweepState.CANCELLED)
                for worker in workers:
                    worker.result()
            with store.read() as connection:
                left = connection.execute(
                    select(steps.c.state, steps.c.cancel_requested, func.count())
                    .where(steps.c.sweep_id == planned.sweep_id, steps.c.state.not_in(["done", "failed", "cancelled"]))
                    .group_by(steps.c.state, steps.c.cancel_requested)
                ).all()
            assert [(row.state, row.cancel_requested) for row in left if row.state != "running"] == []
            assert all(row.cancel_requested for row in left)


class TestInterrupting:
    def test_a_deliberate_stop_counts_against_nobody(self, store: Store) -> None:
        """However often a person stops the farm, no attempt limit is reached; judge steps are the same."""
        planned = plan(store, pull_requests=2)
        review, other = planned.ids()
        finish(planned, planned.take(other), Outcome.SUCCEEDED)
        (match,) = planned.ids(Stage.MATCH)
        for number in range(1, 9):
            assert planned.take(review).attempt_number == number
            planned.take(match)
            assert interrupt(store, LIMITS, deliberate=True) == 2
            assert (planned.state(review), planned.state(match)) == ("ready", "ready")
        assert planned.attempts(review) == [(number, "cancelled") for number in range(1, 9)]
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert planned.state(match) == "ready"
        assert finish(planned, planned.take(review), Outcome.TIMEOUT) is StepState.READY

    def test_a_kill_is_a_lost_attempt(self, store: Store) -> None:
        """Steps that a killed farm held are lost, up to the farm's limit; queued ones are ready; workers are gone."""
        planned = plan(store, pull_requests=2)
        held, queued = planned.ids()
        with store.write() as connection:
            connection.execute(
                insert(core(WorkerRow)).values(name="w", host="h", pid=1, beat=0, slots={}, started_at="x")
            )
        planned.take(held)
        planned.queue(queued)
        assert interrupt(store, LIMITS, deliberate=False) == 1
        assert (planned.state(held), planned.state(queued)) == ("ready", "ready")
        assert planned.attempts(held) == [(1, "lost")]
        with store.read() as connection:
            assert connection.execute(select(func.count()).select_from(core(WorkerRow))).scalar_one() == 0
        for _ in range(2):
            planned.take(held)
            interrupt(store, LIMITS, deliberate=False)
        assert planned.state(held) == "failed"
        assert interrupt(store, LIMITS, deliberate=False) == 0

    @pytest.mark.parametrize("deliberate", [True, False])
    def test_a_cancelled_step_stays_cancelled(self, store: Store, deliberate: bool) -> None:
        """Cancel, then Ctrl-C or kill: the trial does not come back."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.take(step_id)
        planned.set_state(SweepState.CANCELLED)
        interrupt(store, LIMITS, deliberate=deliberate)
        assert planned.state(step_id) == "cancelled"
        assert planned.attempts(step_id) == [(1, "cancelled")]


def test_under_random_trouble_every_trial_ends_once_with_attempts_without_gaps(store: Store) -> None:
    """6 workers, double messages, lost steps, deliberate stops and late results; then every rule still holds."""
    planned = plan(store, pull_requests=6, rounds=2)
    limits = AttemptLimits(agent=3, farm=4)
    ids = planned.ids()
    seed = 20
    stop = threading.Event()

    def ready(connection_ids: list[int]) -> None:
        with store.write() as connection:
            connection.execute(update(steps).where(steps.c.id.in_(connection_ids)).values(not_before=None))

    def work(number: int) -> None:
        order = random.Random(seed + number)
        kept: list[TakenStep] = []
        while not stop.is_set():
            step_id = order.choice(ids)
            planned.queue(step_id)
            taken = take(store, step_id, f"w{number}")
            kept += [taken] if taken is not None else []
            if kept and order.random() < 0.8:
                # Sometimes an old one: it may have been lost and taken by another worker since.
                step = kept.pop(order.randrange(len(kept)))
                outcome = order.choice([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.TIMEOUT, Outcome.ENGINE_ERROR])
                with store.write() as connection:
                    finish_attempt(connection, step, outcome=outcome, detail="", values={}, limits=limits)

    def disturb() -> None:
        order = random.Random(seed - 1)
        for _ in range(25):
            with store.read() as connection:
                rows = connection.execute(
                    select(steps.c.id, steps.c.fence, steps.c.beat).where(steps.c.state == "running")
                ).all()
            for row in order.sample(rows, min(2, len(rows))):
                lose(store, row.id, fence=row.fence, beat=row.beat, limits=limits)
            if order.random() < 0.1:
                interrupt(store, limits, deliberate=True)
            ready(ids)

    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(work, number) for number in range(6)]
        disturb()
        stop.set()
        for worker in workers:
            worker.result()
    interrupt(store, limits, deliberate=False)
    for step_id in ids:
        found = planned.attempts(step_id)
        assert [number for number, _ in found] == list(range(1, len(found) + 1))
        outcomes = [outcome for _, outcome in found]
        assert None not in outcomes
        assert outcomes.count("succeeded") == (1 if planned.state(step_id) == "done" else 0)
        assert planned.state(step_id) in {"done", "failed", "ready"}
        if planned.state(step_id) == "failed":
            agents = sum(outcome == "timeout" for outcome in outcomes)
            assert agents == limits.agent or len(outcomes) - agents - outcomes.count("cancelled") == limits.farm
        if "succeeded" in outcomes:
            assert outcomes[-1] == "succeeded"
