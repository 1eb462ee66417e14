"""The step machine: what is taken, by whom, how often, and how it ends (design.md, "How work flows")."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert, select, update

from crb_core.agent import Outcome
from crb_core.errors import InputError
from crb_core.store import Store
from crb_core.store.judgments import add_judge_steps
from crb_core.store.steps import (
    AttemptLimits,
    HeldStep,
    TakenStep,
    add_step,
    beat,
    close,
    defer,
    fail,
    finish_attempt,
    lose,
    mark_queued,
    retry_steps,
    take,
)
from crb_core.store.tables import AttemptRow, Stage, StepRow, StepState, WorkerRow, core
from tests.crb_core.store.planned import LIMITS, Planned, plan

steps = core(StepRow)
attempts = core(AttemptRow)

AGENTS_FAULT = Outcome.TIMEOUT
FARMS_FAULT = Outcome.ENGINE_ERROR


def finish(
    store: Store, step: TakenStep, outcome: Outcome, *, limits: AttemptLimits = LIMITS, final: bool = False
) -> StepState | None:
    with store.write() as connection:
        return finish_attempt(
            connection, step, outcome=outcome, detail="said so", values={}, limits=limits, final=final
        )


def ready_now(store: Store, step_id: int) -> None:
    """Let a back-off end at once."""
    with store.write() as connection:
        connection.execute(update(steps).where(steps.c.id == step_id).values(not_before=None))


def together(times: int, work: Callable[[int], object]) -> list[object]:
    """``work(0)`` to ``work(times - 1)`` in as many threads that start at the same moment."""
    barrier = threading.Barrier(times)

    def run(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(run, range(times)))


def reviewed(planned: Planned) -> int:
    """Finish the first review and return the id of its match step."""
    taken = planned.take(planned.ids()[0])
    with planned.store.write() as connection:
        assert (
            finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
            is StepState.DONE
        )
        add_judge_steps(connection, taken)
    (match,) = planned.ids(Stage.MATCH)
    return match


class TestTaking:
    def test_a_message_that_comes_many_times_is_worked_on_once(self, store: Store) -> None:
        """Of 12 workers with the same message one gets the step; there is one attempt."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.queue(step_id)
        taken = [step for step in together(12, lambda n: take(store, step_id, f"w{n}")) if step is not None]
        assert len(taken) == 1
        assert planned.attempts(step_id) == [(1, None)]
        assert planned.step(step_id).fence == 1

    def test_many_workers_share_many_steps_without_overlap(self, store: Store) -> None:
        """8 workers that all see all messages of 30 steps take each step exactly once."""
        planned = plan(store, pull_requests=10, rounds=3)
        ids = planned.ids()
        planned.queue(*ids)

        def all_messages(number: int) -> list[int]:
            order = ids[number:] + ids[:number]
            return [step.id for step_id in order if (step := take(store, step_id, f"w{number}")) is not None]

        shares = together(8, all_messages)
        assert sorted(step_id for share in shares for step_id in share) == ids  # type: ignore[attr-defined]

    def test_two_dispatchers_queue_each_step_once(self, store: Store) -> None:
        """mark_queued gives every step to one caller, in the order asked for."""
        planned = plan(store, pull_requests=10)
        ids = planned.ids()
        backwards = ids[::-1]
        moved = together(4, lambda _: planned.queue(*backwards))
        assert sorted(step_id for part in moved for step_id in part) == ids  # type: ignore[attr-defined]
        for part in moved:
            assert part == sorted(part, reverse=True)  # type: ignore[call-overload]

    def test_only_queued_steps_can_be_taken(self, store: Store) -> None:
        """A message for a step that is ready, running, ended or unknown is dropped, and changes nothing."""
        planned = plan(store)
        (step_id,) = planned.ids()
        assert take(store, step_id, "w") is None
        assert planned.state(step_id) == "ready"
        taken = planned.take(step_id)
        assert take(store, step_id, "other") is None
        assert planned.step(step_id).worker == "w"
        assert finish(store, taken, Outcome.SUCCEEDED) is StepState.DONE
        assert take(store, step_id, "w") is None
        assert planned.state(step_id) == "done"
        assert take(store, 10**9, "w") is None

    def test_nothing_to_queue_is_no_query(self, store: Store) -> None:
        """An empty choice moves nothing."""
        planned = plan(store)
        assert planned.queue() == []
        assert planned.queue(10**9) == []


class TestAttempts:
    def test_the_agents_failures_end_the_trial_at_the_agents_limit(self, store: Store) -> None:
        """Two attempts may fail by the agent's fault; they are tried again at once."""
        planned = plan(store)
        (step_id,) = planned.ids()
        assert finish(store, planned.take(step_id), AGENTS_FAULT) is StepState.READY
        assert planned.step(step_id).not_before is None
        assert finish(store, planned.take(step_id), AGENTS_FAULT) is StepState.FAILED
        assert planned.attempts(step_id) == [(1, "timeout"), (2, "timeout")]
        assert planned.step(step_id).reason == "timeout: said so"

    def test_the_farms_failures_have_a_limit_of_their_own(self, store: Store) -> None:
        """The farm's failures never count against the agent, nor the agent's against the farm."""
        planned = plan(store)
        (step_id,) = planned.ids()
        for outcome, state in (
            (FARMS_FAULT, StepState.READY),
            (AGENTS_FAULT, StepState.READY),
            (Outcome.IMAGE_UNAVAILABLE, StepState.READY),
            (AGENTS_FAULT, StepState.FAILED),
        ):
            ready_now(store, step_id)
            assert finish(store, planned.take(step_id), outcome) is state
        assert [number for number, _ in planned.attempts(step_id)] == [1, 2, 3, 4]

    def test_the_farms_failures_back_off(self, store: Store) -> None:
        """After a failure of the farm the step is not dispatched at once."""
        planned = plan(store)
        (step_id,) = planned.ids()
        before = time.time()
        assert finish(store, planned.take(step_id), FARMS_FAULT) is StepState.READY
        assert planned.step(step_id).not_before > before

    def test_a_hundred_farm_failures_do_not_break_the_back_off(self, store: Store) -> None:
        """The wait grows to a minute and no further, whatever the limit."""
        planned = plan(store)
        (step_id,) = planned.ids()
        patient = AttemptLimits(agent=1, farm=100)
        for _ in range(99):
            ready_now(store, step_id)
            assert finish(store, planned.take(step_id), FARMS_FAULT, limits=patient) is StepState.READY
        assert planned.step(step_id).not_before <= time.time() + 60
        ready_now(store, step_id)
        assert finish(store, planned.take(step_id), FARMS_FAULT, limits=patient) is StepState.FAILED

    def test_what_another_attempt_cannot_mend_is_final(self, store: Store) -> None:
        """``final`` fails the trial at the first attempt."""
        planned = plan(store)
        (step_id,) = planned.ids()
        assert finish(store, planned.take(step_id), FARMS_FAULT, final=True) is StepState.FAILED

    def test_a_late_result_changes_nothing(self, store: Store) -> None:
        """Lost, then taken again: what the first worker brings is dropped, and the second one's counts."""
        planned = plan(store)
        (step_id,) = planned.ids()
        first = planned.take(step_id, "first")
        assert lose(store, step_id, fence=first.fence, beat=0, limits=LIMITS)
        second = planned.take(step_id, "second")
        assert finish(store, first, Outcome.SUCCEEDED) is None
        assert planned.attempts(step_id) == [(1, "lost"), (2, None)]
        assert planned.state(step_id) == "running"
        assert finish(store, second, Outcome.SUCCEEDED) is StepState.DONE
        assert finish(store, second, Outcome.SUCCEEDED) is None
        assert finish(store, first, AGENTS_FAULT) is None
        assert planned.attempts(step_id) == [(1, "lost"), (2, "succeeded")]

    def test_one_of_many_finishers_wins(self, store: Store) -> None:
        """A result that is delivered by 8 threads at once is recorded once."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)
        states = together(8, lambda _: finish(store, taken, Outcome.SUCCEEDED))
        assert [state for state in states if state is not None] == [StepState.DONE]

    def test_the_database_refuses_a_second_open_attempt(self, store: Store) -> None:
        """Two attempts without an outcome, two that succeeded, and a number twice are impossible."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)

        def add(number: int, outcome: str | None) -> None:
            with store.write() as connection:
                connection.execute(
                    insert(attempts).values(
                        trial_id=taken.trial_id, number=number, tag="t", worker="w", started_at="x", outcome=outcome
                    )
                )

        with pytest.raises(InputError, match="there already"):
            add(2, None)
        with pytest.raises(InputError, match="there already"):
            add(1, "timeout")
        assert finish(store, taken, Outcome.SUCCEEDED) is StepState.DONE
        with pytest.raises(InputError, match="there already"):
            add(2, "succeeded")
        assert planned.attempts(step_id) == [(1, "succeeded")]

    def test_a_failed_transaction_leaves_no_half_result(self, store: Store) -> None:
        """An error after finish_attempt in the same transaction undoes it; the step can still be finished."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)

        def broken() -> None:
            with store.write() as connection:
                finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            broken()
        assert planned.attempts(step_id) == [(1, None)]
        assert finish(store, taken, Outcome.SUCCEEDED) is StepState.DONE

    def test_the_values_of_an_attempt_are_kept(self, store: Store) -> None:
        """What the worker measured is in the attempt's row."""
        planned = plan(store)
        taken = planned.take(planned.ids()[0])
        with store.write() as connection:
            finish_attempt(
                connection,
                taken,
                outcome=Outcome.SUCCEEDED,
                detail="",
                values={"review_ms": 1.5, "exit_code": 0, "evidence": {"findings": "f" * 64}},
                limits=LIMITS,
            )
        with store.read() as connection:
            row = connection.execute(select(attempts)).one()
        assert (row.review_ms, row.exit_code, row.evidence, row.usage) == (1.5, 0, {"findings": "f" * 64}, None)
        assert row.tag == taken.attempt_tag


class TestLosing:
    def test_a_step_whose_beat_moved_is_not_lost(self, store: Store) -> None:
        """lose() takes only what stands still: same fence, same beat."""
        planned = plan(store)
        (step_id,) = planned.ids()
        taken = planned.take(step_id)
        assert beat(store, "w", [(step_id, taken.fence)]) == [
            HeldStep(id=step_id, fence=1, still_held=True, cancel_requested=False)
        ]
        assert not lose(store, step_id, fence=1, beat=0, limits=LIMITS)
        assert not lose(store, step_id, fence=2, beat=1, limits=LIMITS)
        assert planned.state(step_id) == "running"
        assert lose(store, step_id, fence=1, beat=1, limits=LIMITS)
        assert planned.attempts(step_id) == [(1, "lost")]
        assert not lose(store, step_id, fence=1, beat=1, limits=LIMITS)

    def test_two_reconcilers_lose_a_step_once(self, store: Store) -> None:
        """Of 6 at the same moment one succeeds."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.take(step_id)
        results = together(6, lambda _: lose(store, step_id, fence=1, beat=0, limits=LIMITS))
        assert results.count(True) == 1
        assert planned.attempts(step_id) == [(1, "lost")]

    def test_a_review_that_is_lost_again_and_again_fails_at_the_farms_limit(self, store: Store) -> None:
        """Three lost workers are the farm's limit here; none of it counts against the agent."""
        planned = plan(store)
        (step_id,) = planned.ids()
        for number in (1, 2, 3):
            taken = planned.take(step_id)
            assert taken.attempt_number == number
            assert lose(store, step_id, fence=taken.fence, beat=0, limits=LIMITS)
        assert planned.state(step_id) == "failed"
        assert planned.attempts(step_id) == [(1, "lost"), (2, "lost"), (3, "lost")]

    def test_a_worker_hears_that_a_step_is_no_longer_its_own(self, store: Store) -> None:
        """After a loss and another take, the first worker's beat says so and does not keep the step alive."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.take(step_id, "first")
        lose(store, step_id, fence=1, beat=0, limits=LIMITS)
        planned.take(step_id, "second")
        assert beat(store, "first", [(step_id, 1)]) == [
            HeldStep(id=step_id, fence=1, still_held=False, cancel_requested=False)
        ]
        assert planned.step(step_id).beat == 0

    def test_a_worker_may_hold_thousands_of_steps(self, store: Store) -> None:
        """One beat covers them all: SQLite's limit of a thousand terms in an expression is no limit here."""
        planned = plan(store, pull_requests=3)
        held = [(step_id, planned.take(step_id).fence) for step_id in planned.ids()]
        with store.write() as connection:
            connection.execute(
                insert(core(WorkerRow)).values(name="w", host="h", pid=1, beat=0, slots={}, started_at="x")
            )
        answers = beat(store, "w", held + [(10**6 + number, 1) for number in range(3000)])
        assert [answer.id for answer in answers if answer.still_held] == planned.ids()
        assert len(answers) == 3003
        with store.read() as connection:
            assert connection.execute(select(core(WorkerRow).c.beat)).scalar_one() == 1
        assert beat(store, "w", []) == []


class TestJudgeSteps:
    def test_a_finished_step_is_followed_by_the_next_one_once(self, store: Store) -> None:
        """A late finish writes no second step; the database refuses one as well."""
        planned = plan(store)
        match = reviewed(planned)
        taken = planned.take(match)
        assert (taken.attempt_number, taken.attempt_tag) == (1, None)

        def end(_: int) -> bool:
            with store.write() as connection:
                if not close(connection, taken, StepState.DONE):
                    return False
                add_step(connection, after=taken, stage=Stage.SCORE, judge_id=taken.judge_id)
                return True

        assert together(4, end).count(True) == 1
        assert len(planned.ids(Stage.SCORE)) == 1
        with pytest.raises(InputError, match="there already"), store.write() as connection:
            add_step(connection, after=taken, stage=Stage.SCORE, judge_id=taken.judge_id)

    def test_failures_count_up_to_the_limit(self, store: Store) -> None:
        """Tried again with a back-off until the limit; not at all where another try cannot help."""
        planned = plan(store)
        match = reviewed(planned)
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert planned.state(match) == "ready"
        assert planned.step(match).not_before > time.time() - 1
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert (planned.state(match), planned.step(match).reason) == ("failed", "busy")
        with store.write() as connection:
            assert retry_steps(connection, [match]) == [match]
        assert fail(store, planned.take(match), reason="malformed", retryable=False, limit=2)
        assert planned.state(match) == "failed"

    def test_a_late_failure_changes_nothing(self, store: Store) -> None:
        """The step was lost and taken again; the first worker's failure is dropped."""
        planned = plan(store)
        match = reviewed(planned)
        first = planned.take(match, "first")
        assert lose(store, match, fence=1, beat=0, limits=LIMITS)
        planned.take(match, "second")
        assert not fail(store, first, reason="too late", retryable=False, limit=1)
        assert (planned.state(match), planned.step(match).reason) == ("running", None)

    def test_waiting_costs_no_try(self, store: Store) -> None:
        """A step that was deferred a thousand times and more has failed once when it fails once."""
        planned = plan(store)
        match = reviewed(planned)
        for _ in range(3):
            assert defer(store, planned.take(match), seconds=60, reason="the batch runs")
            assert planned.step(match).not_before > time.time() + 30
        with store.write() as connection:
            connection.execute(
                update(steps)
                .where(steps.c.id == match)
                .values(fence=steps.c.fence + 1500, attempts_before=steps.c.attempts_before + 1500)
            )
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert planned.state(match) == "ready"
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert planned.state(match) == "failed"

    def test_a_high_limit_does_not_break_the_back_off(self, store: Store) -> None:
        """The 1,100th failure waits a minute, like the 10th."""
        planned = plan(store)
        match = reviewed(planned)
        with store.write() as connection:
            connection.execute(update(steps).where(steps.c.id == match).values(fence=1100))
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2000)
        assert planned.step(match).not_before <= time.time() + 60

    def test_a_judge_step_that_is_lost_has_the_farms_limit(self, store: Store) -> None:
        """It waits again until the limit, and the trial's successful attempt stays as it is."""
        planned = plan(store)
        match = reviewed(planned)
        for expected in ("ready", "ready", "failed"):
            taken = planned.take(match)
            assert lose(store, match, fence=taken.fence, beat=0, limits=LIMITS)
            assert planned.state(match) == expected
        assert planned.attempts(planned.ids()[0]) == [(1, "succeeded")]


class TestDeferringAReview:
    def test_it_costs_no_attempt(self, store: Store) -> None:
        """Its attempt row is taken back, so that the next take has the same number and none is missing."""
        planned = plan(store)
        (step_id,) = planned.ids()
        for _ in range(4):
            taken = planned.take(step_id)
            assert taken.attempt_number == 1
            assert defer(store, taken, seconds=5, reason="the vendor's rate limit")
            assert planned.attempts(step_id) == []
        assert planned.step(step_id).reason == "the vendor's rate limit"
        assert finish(store, planned.take(step_id), AGENTS_FAULT) is StepState.READY
        assert planned.attempts(step_id) == [(1, "timeout")]

    def test_a_late_deferral_changes_nothing(self, store: Store) -> None:
        """A step that another worker holds keeps its open attempt."""
        planned = plan(store)
        (step_id,) = planned.ids()
        first = planned.take(step_id)
        lose(store, step_id, fence=1, beat=0, limits=LIMITS)
        planned.take(step_id)
        assert not defer(store, first, seconds=5, reason="too late")
        assert planned.attempts(step_id) == [(1, "lost"), (2, None)]


class TestRetryByHand:
    def test_a_failed_review_has_all_its_attempts_again(self, store: Store) -> None:
        """Earlier attempts stay visible, numbers go on, and the limits count anew."""
        planned = plan(store)
        (step_id,) = planned.ids()
        for _ in range(2):
            finish(store, planned.take(step_id), AGENTS_FAULT)
        assert planned.state(step_id) == "failed"
        with store.write() as connection:
            assert retry_steps(connection, [step_id]) == [step_id]
        assert finish(store, planned.take(step_id), AGENTS_FAULT) is StepState.READY
        assert finish(store, planned.take(step_id), Outcome.SUCCEEDED) is StepState.DONE
        assert planned.attempts(step_id) == [(1, "timeout"), (2, "timeout"), (3, "timeout"), (4, "succeeded")]

    @pytest.mark.parametrize("state", ["ready", "queued", "running", "done"])
    def test_only_what_failed_or_was_cancelled_is_retried(self, store: Store, state: str) -> None:
        """A trial that waits, runs or has succeeded is left alone (rule 17)."""
        planned = plan(store)
        (step_id,) = planned.ids()
        if state == "queued":
            planned.queue(step_id)
        elif state != "ready":
            taken = planned.take(step_id)
            if state == "done":
                finish(store, taken, Outcome.SUCCEEDED)
        with store.write() as connection:
            assert retry_steps(connection, [step_id]) == []
        assert planned.state(step_id) == state

    def test_two_retries_at_once_are_one(self, store: Store) -> None:
        """The second finds the step ready and says so."""
        planned = plan(store)
        (step_id,) = planned.ids()
        finish(store, planned.take(step_id), AGENTS_FAULT, final=True)

        def again(_: int) -> bool:
            with store.write() as connection:
                return retry_steps(connection, [step_id]) == [step_id]

        assert together(4, again).count(True) == 1


def test_queries_in_a_read_cannot_write(store: Store) -> None:
    """``read()`` refuses an update, and the connection is usable for writing afterwards."""
    planned = plan(store)
    (step_id,) = planned.ids()
    with pytest.raises(Exception, match=r"(?i)read-?only"), store.read() as connection:
        mark_queued(connection, [step_id])
    assert planned.queue(step_id) == [step_id]
