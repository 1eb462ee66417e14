"""running -> done, failed, cancelled, or ready for another try: how a worker ends what it holds."""

from __future__ import annotations

import functools
import time
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from crb_core.agent import Outcome
from crb_core.clock import utc_now
from crb_core.store.session import Store
from crb_core.store.steps.records import AttemptLimits, TakenStep
from crb_core.store.tables import AttemptRow, Stage, StepRow, StepState, core

__all__ = ["LONGEST_WAIT_SECONDS", "after_failure", "close", "defer", "fail", "finish_attempt", "leave_running"]

attempts = core(AttemptRow)
steps = core(StepRow)

#: Longest wait before an attempt that failed by the farm's fault is tried again.
MAX_BACKOFF_SECONDS = 60.0
#: Longest wait of a step. One that seems longer comes from a clock that was stepped back since, and is over.
LONGEST_WAIT_SECONDS = 900.0


#: The open attempt of a number; what is executed with it says what to set.
_CLOSE_ATTEMPT = update(attempts).where(
    attempts.c.trial_id == bindparam("of_trial"),
    attempts.c.number == bindparam("of_number"),
    attempts.c.outcome.is_(None),
)


def close(connection: Connection, step: TakenStep, state: StepState, *, reason: str | None = None) -> bool:
    """End a judge step: running -> ``state`` where the fence matches. False: the result is late, drop it."""
    assert step.stage is not Stage.REVIEW, "a review ends with finish_attempt, which closes its attempt too"
    measured = {"queue_ms": step.queue_ms, "work_ms": (time.monotonic() - step.taken_at) * 1000}
    return (
        leave_running(
            connection,
            step.id,
            step.fence,
            state,
            reason=reason,
            measured=measured if state is StepState.DONE else None,
        )
        is not None
    )


def defer(store: Store, step: TakenStep, *, seconds: float, reason: str) -> bool:
    """running -> ready with ``not_before``, at most ``LONGEST_WAIT_SECONDS`` away. False: late.

    It costs no attempt, however often it happens.

    A review that is deferred has not started its container: its attempt row is taken back.
    """
    with store.write() as connection:
        left = leave_running(
            connection,
            step.id,
            step.fence,
            StepState.READY,
            reason=reason,
            not_before=time.time() + min(seconds, LONGEST_WAIT_SECONDS),
            uncounted=True,
        )
        if left is not None and step.stage is Stage.REVIEW:
            connection.execute(
                delete(attempts).where(
                    attempts.c.trial_id == step.trial_id,
                    attempts.c.number == step.attempt_number,
                    attempts.c.outcome.is_(None),
                )
            )
        return left is not None


def fail(store: Store, step: TakenStep, *, reason: str, retryable: bool, limit: int) -> bool:
    """End a judge step that failed: back to ready while fewer than ``limit`` takes counted, else failed.

    False: the failure is late and changes nothing.
    """
    assert step.stage is not Stage.REVIEW, "a review ends with finish_attempt, which closes its attempt too"
    with store.write() as connection:
        before = connection.execute(select(steps.c.attempts_before).where(steps.c.id == step.id)).scalar_one()
        tries = step.fence - before
        again = retryable and tries < limit
        left = leave_running(
            connection,
            step.id,
            step.fence,
            StepState.READY if again else StepState.FAILED,
            reason=reason,
            not_before=time.time() + _backoff(tries) if again else None,
        )
        return left is not None


def finish_attempt(
    connection: Connection,
    step: TakenStep,
    *,
    outcome: Outcome,
    detail: str,
    values: dict[str, Any],
    limits: AttemptLimits,
    final: bool = False,
) -> StepState | None:
    """Record how a review's attempt ended and move its step on. ``final``: another attempt cannot mend it.

    Returns the step's new state, or None when the result is late (fence or attempt no longer this worker's); the
    caller then writes nothing else in this transaction.
    """
    not_before: float | None = None
    if outcome is Outcome.SUCCEEDED:
        state = StepState.DONE
    elif outcome is Outcome.CANCELLED:
        # Cancelled where its sweep still is; one that was resumed in the meantime wants the trial again.
        state = StepState.READY
    elif final:
        state = StepState.FAILED
    else:
        state, not_before = after_failure(connection, step.id, step.trial_id, outcome, limits)
    reason = None if outcome is Outcome.SUCCEEDED else f"{outcome.value}: {detail}"
    left = leave_running(connection, step.id, step.fence, state, reason=reason, not_before=not_before)
    if left is None:
        return None
    closed = connection.execute(
        _CLOSE_ATTEMPT,
        {
            "of_trial": step.trial_id,
            "of_number": step.attempt_number,
            "outcome": outcome.value,
            "detail": detail,
            "finished_at": utc_now(),
            **values,
        },
    )
    if closed.rowcount != 1:
        raise AssertionError(f"attempt {step.attempt_number} of trial {step.trial_id} was closed behind its fence")
    return left


def after_failure(
    connection: Connection,
    step_id: int,
    trial_id: int,
    outcome: Outcome,
    limits: AttemptLimits,
    *,
    backoff: bool = True,
) -> tuple[StepState, float | None]:
    before = connection.execute(select(steps.c.attempts_before).where(steps.c.id == step_id)).scalar_one()
    earlier = connection.execute(
        select(attempts.c.outcome).where(
            attempts.c.trial_id == trial_id, attempts.c.outcome.is_not(None), attempts.c.number > before
        )
    ).scalars()
    # A cancelled attempt says nothing about agent or farm.
    same_side = 1 + sum(
        value != Outcome.CANCELLED and Outcome(value).is_farms_fault == outcome.is_farms_fault for value in earlier
    )
    limit = limits.farm if outcome.is_farms_fault else limits.agent
    if same_side >= limit:
        return StepState.FAILED, None
    wait = _backoff(same_side) if outcome.is_farms_fault and backoff else 0.0
    return StepState.READY, time.time() + wait if wait else None


def _backoff(tries: int) -> float:
    # 1, 4, 16, 60 s: five tries outlast an engine's restart. The exponent is capped: 4.0 ** 512 is an OverflowError.
    return min(4.0 ** min(tries - 1, 30), MAX_BACKOFF_SECONDS)


def leave_running(
    connection: Connection,
    step_id: int,
    fence: int,
    state: StepState,
    *,
    reason: str | None = None,
    not_before: float | None = None,
    uncounted: bool = False,
    measured: dict[str, float | None] | None = None,
) -> StepState | None:
    """Leave running where the fence matches; None when it does not.

    A step that would wait again is cancelled instead when it was asked to stop. ``uncounted``: this take of a judge
    step does not count against its limit (a review's limit counts attempt rows). ``measured`` are the columns that say
    how long it took.
    """
    left = connection.execute(
        _leaving(state, uncounted),
        {"left_id": step_id, "left_fence": fence, "reason": reason, "not_before": not_before, **(measured or {})},
    ).scalar_one_or_none()
    return None if left is None else StepState(left)


@functools.cache
def _leaving(state: StepState, uncounted: bool) -> ReturningUpdate[str]:
    """The statement of ``leave_running``, built once: every step passes here. Its parameters are columns to set too."""
    values: dict[str, Any] = {"state": state.value}
    if state is StepState.READY:
        values["state"] = case((steps.c.cancel_requested, StepState.CANCELLED.value), else_=state.value)
    if uncounted:
        judges = steps.c.stage != Stage.REVIEW.value
        values["attempts_before"] = steps.c.attempts_before + case((judges, 1), else_=0)
    return (
        update(steps)
        .where(
            steps.c.id == bindparam("left_id"),
            steps.c.fence == bindparam("left_fence"),
            steps.c.state == StepState.RUNNING.value,
        )
        .values(values)
        .returning(steps.c.state)
    )
