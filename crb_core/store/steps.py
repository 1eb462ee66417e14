"""The step machine: every transition is one UPDATE that names the state and the fence that it leaves.

A late or doubled result changes no row. ``fence`` counts how often a step was taken; ``beat`` is raised by the
worker that holds it. See design.md, "How work flows".
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, tuple_, update

from crb_core.agent import Outcome
from crb_core.clock import utc_now
from crb_core.store.session import Store
from crb_core.store.tables import (
    AttemptRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    SweepState,
    WorkerRow,
    core,
)

__all__ = [
    "AttemptLimits",
    "HeldStep",
    "TakenStep",
    "add_step",
    "beat",
    "cancel_steps",
    "close",
    "defer",
    "fail",
    "finish_attempt",
    "interrupt",
    "lose",
    "mark_queued",
    "restore_steps",
    "retry_step",
    "take",
]

steps = core(StepRow)
attempts = core(AttemptRow)
sweeps = core(SweepRow)
sweep_builds = core(SweepBuildRow)
workers = core(WorkerRow)

#: Longest wait before an attempt that failed by the farm's fault is tried again.
MAX_BACKOFF_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class AttemptLimits:
    """Attempts that may fail before a trial fails: by the agent's own fault, and by the farm's."""

    agent: int
    farm: int


@dataclass(frozen=True, kw_only=True)
class TakenStep:
    """A step that this worker holds. Only a review has an ``attempt_tag``."""

    id: int
    trial_id: int
    judge_id: str
    stage: Stage
    sweep_id: str
    build_id: str
    priority: int
    position: int
    fence: int
    #: The attempt of a review; of a judge step the one that it judges.
    attempt_number: int | None = None
    attempt_tag: str | None = None

    @property
    def log_fields(self) -> dict[str, str | int | None]:
        """What every log line about this step carries."""
        return {"sweep": self.sweep_id, "trial": self.trial_id, "attempt": self.attempt_number}


@dataclass(frozen=True, kw_only=True)
class HeldStep:
    """What a beat tells the watcher: whether the step is still this worker's, and whether it is to be cancelled."""

    id: int
    fence: int
    still_held: bool
    cancel_requested: bool


def add_step(connection: Connection, *, after: TakenStep, stage: Stage, judge_id: str) -> None:
    """Insert the step that follows one, in the transaction that finishes that one.

    Where that one was asked to stop, its sweep is cancelled, and so is what follows.
    """
    cancelled = connection.execute(select(steps.c.cancel_requested).where(steps.c.id == after.id)).scalar_one()
    connection.execute(
        insert(steps).values(
            trial_id=after.trial_id,
            judge_id=judge_id,
            stage=stage.value,
            sweep_id=after.sweep_id,
            build_id=after.build_id,
            priority=after.priority,
            position=after.position,
            state=(StepState.CANCELLED if cancelled else StepState.READY).value,
            fence=0,
            beat=0,
            cancel_requested=False,
            attempts_before=0,
        )
    )


def mark_queued(connection: Connection, step_ids: Sequence[int]) -> list[int]:
    """ready -> queued. Returns the ids that this call moved; another dispatcher may have moved the rest."""
    if not step_ids:
        return []
    moved = connection.execute(
        update(steps)
        .where(steps.c.id.in_(step_ids), steps.c.state == StepState.READY.value)
        .values(state=StepState.QUEUED.value, published_at=time.time())
        .returning(steps.c.id)
    )
    order = {step_id: place for place, step_id in enumerate(step_ids)}
    return sorted(moved.scalars().all(), key=lambda step_id: order[step_id])


def take(store: Store, step_id: int, worker: str) -> TakenStep | None:
    """queued -> running. None when the message is a duplicate, late, or its sweep or build is not active.

    A review's attempt row is inserted in the same transaction, so attempts are numbered without gaps.
    """
    with store.write() as connection:
        active = (
            select(sweeps.c.id)
            .join(sweep_builds, sweep_builds.c.sweep_id == sweeps.c.id)
            .where(
                sweeps.c.id == steps.c.sweep_id,
                sweeps.c.state == SweepState.ACTIVE.value,
                sweep_builds.c.build_id == steps.c.build_id,
                sweep_builds.c.paused.is_(False),
            )
            .exists()
        )
        row = connection.execute(
            update(steps)
            .where(steps.c.id == step_id, steps.c.state == StepState.QUEUED.value, active)
            .values(state=StepState.RUNNING.value, fence=steps.c.fence + 1, beat=0, worker=worker, reason=None)
            .returning(*steps.c)
        ).one_or_none()
        if row is None:
            # A paused build's step waits for its turn again instead of staying queued for ever.
            connection.execute(
                update(steps)
                .where(steps.c.id == step_id, steps.c.state == StepState.QUEUED.value)
                .values(state=StepState.READY.value)
            )
            return None
        stage = Stage(row.stage)
        tag = None
        # A judge step follows the attempt that succeeded, which is the last one.
        number = connection.execute(
            select(func.max(attempts.c.number)).where(attempts.c.trial_id == row.trial_id)
        ).scalar_one()
        if stage is Stage.REVIEW:
            tag = secrets.token_hex(8)
            number = 1 + (number or 0)
            connection.execute(
                insert(attempts).values(
                    trial_id=row.trial_id, number=number, tag=tag, worker=worker, started_at=utc_now()
                )
            )
        return TakenStep(
            id=row.id,
            trial_id=row.trial_id,
            judge_id=row.judge_id,
            stage=stage,
            sweep_id=row.sweep_id,
            build_id=row.build_id,
            priority=row.priority,
            position=row.position,
            fence=row.fence,
            attempt_number=number,
            attempt_tag=tag,
        )


def close(connection: Connection, step: TakenStep, state: StepState, *, reason: str | None = None) -> bool:
    """End a judge step: running -> ``state`` where the fence matches. False: the result is late, drop it."""
    assert step.stage is not Stage.REVIEW, "a review ends with finish_attempt, which closes its attempt too"
    return _leave_running(connection, step.id, step.fence, state, reason=reason) is not None


def defer(store: Store, step: TakenStep, *, seconds: float, reason: str) -> bool:
    """running -> ready with ``not_before``; costs no attempt, however often it happens. False: late.

    A review that is deferred has not started its container: its attempt row is taken back.
    """
    with store.write() as connection:
        left = _leave_running(
            connection,
            step.id,
            step.fence,
            StepState.READY,
            reason=reason,
            not_before=time.time() + seconds,
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
        left = _leave_running(
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
        state, not_before = _after_failure(connection, step.id, step.trial_id, outcome, limits)
    reason = None if outcome is Outcome.SUCCEEDED else f"{outcome.value}: {detail}"
    left = _leave_running(connection, step.id, step.fence, state, reason=reason, not_before=not_before)
    if left is None:
        return None
    closed = connection.execute(
        update(attempts)
        .where(
            attempts.c.trial_id == step.trial_id,
            attempts.c.number == step.attempt_number,
            attempts.c.outcome.is_(None),
        )
        .values(outcome=outcome.value, detail=detail, finished_at=utc_now(), **values)
    )
    if closed.rowcount != 1:
        raise AssertionError(f"attempt {step.attempt_number} of trial {step.trial_id} was closed behind its fence")
    return left


def lose(store: Store, step_id: int, *, fence: int, beat: int, limits: AttemptLimits) -> bool:
    """running -> ready (or failed at the farm's limit) where fence and beat have not moved since they were read."""
    with store.write() as connection:
        row = connection.execute(
            select(steps.c.trial_id, steps.c.stage, steps.c.cancel_requested, steps.c.attempts_before)
            .where(
                steps.c.id == step_id,
                steps.c.fence == fence,
                steps.c.beat == beat,
                steps.c.state == StepState.RUNNING.value,
            )
            # PostgreSQL: no beat may slip in between this look and the update below.
            .with_for_update()
        ).one_or_none()
        if row is None:
            return False
        not_before: float | None = None
        if row.cancel_requested:
            state = StepState.CANCELLED
        elif row.stage == Stage.REVIEW.value:
            state, not_before = _after_failure(connection, step_id, row.trial_id, Outcome.LOST, limits, backoff=False)
        else:
            state = StepState.READY if fence - row.attempts_before < limits.farm else StepState.FAILED
        reason = "lost: the worker that held the step was not heard of"
        if _leave_running(connection, step_id, fence, state, reason=reason, not_before=not_before) is None:
            return False
        connection.execute(
            update(attempts)
            .where(attempts.c.trial_id == row.trial_id, attempts.c.outcome.is_(None))
            .values(
                outcome=(Outcome.CANCELLED if row.cancel_requested else Outcome.LOST).value,
                detail="The worker that ran this attempt was not heard of for the lease time",
                finished_at=utc_now(),
            )
        )
        return True


def interrupt(store: Store, limits: AttemptLimits, *, deliberate: bool) -> int:
    """Give back every running and queued step of a store whose workers are all known to be gone.

    ``deliberate``: a person stopped them; their attempts are cancelled and count against nobody. Otherwise they were
    killed and their attempts are lost. Returns how many steps were running.
    """
    with store.write() as connection:
        connection.execute(
            update(steps).where(steps.c.state == StepState.QUEUED.value).values(state=StepState.READY.value)
        )
        connection.execute(delete(workers))
        running = connection.execute(
            select(steps.c.id, steps.c.fence, steps.c.beat).where(steps.c.state == StepState.RUNNING.value)
        ).all()
        if deliberate:
            for row in running:
                _leave_running(connection, row.id, row.fence, StepState.READY, reason="interrupted", uncounted=True)
            connection.execute(
                update(attempts)
                .where(attempts.c.outcome.is_(None))
                .values(outcome=Outcome.CANCELLED.value, detail="The run was interrupted", finished_at=utc_now())
            )
    if not deliberate:
        for row in running:
            lose(store, row.id, fence=row.fence, beat=row.beat, limits=limits)
    return len(running)


def beat(store: Store, worker: str, held: Iterable[tuple[int, int]]) -> list[HeldStep]:
    """Raise the beat of the worker and of every step it holds; the same round trip reads the cancel flags.

    ``held`` are (step id, fence) pairs.
    """
    pairs = list(held)
    with store.write() as connection:
        connection.execute(update(workers).where(workers.c.name == worker).values(beat=workers.c.beat + 1))
        if not pairs:
            return []
        # A row-value IN: SQLite refuses an OR of a thousand terms, and a worker may hold more steps than that.
        mine = tuple_(steps.c.id, steps.c.fence).in_(pairs)
        rows = connection.execute(
            update(steps)
            .where(mine, steps.c.state == StepState.RUNNING.value)
            .values(beat=steps.c.beat + 1)
            .returning(steps.c.id, steps.c.fence, steps.c.cancel_requested)
        ).all()
    flags = {(row.id, row.fence): bool(row.cancel_requested) for row in rows}
    return [
        HeldStep(id=pair[0], fence=pair[1], still_held=pair in flags, cancel_requested=flags.get(pair, False))
        for pair in pairs
    ]


def cancel_steps(connection: Connection, sweep_id: str) -> None:
    """ready, queued -> cancelled; running steps are asked to stop."""
    mine = steps.c.sweep_id == sweep_id
    ask = (
        update(steps)
        .where(mine, steps.c.state == StepState.RUNNING.value, steps.c.cancel_requested.is_(False))
        .values(cancel_requested=True)
    )
    end = (
        update(steps)
        .where(mine, steps.c.state.in_((StepState.READY.value, StepState.QUEUED.value)))
        .values(state=StepState.CANCELLED.value, reason="cancelled")
    )
    # On PostgreSQL steps are taken, and finished with a new step behind them, between two statements of ours. Each
    # statement waits for the rows that such a transaction holds, so a pass that changes nothing has seen them all.
    while sum(connection.execute(statement).rowcount for statement in (ask, end, ask)):
        pass


def restore_steps(connection: Connection, sweep_id: str) -> int:
    """cancelled -> ready, for a sweep that is resumed; what still runs is not asked to stop any more.

    Returns how many steps wait again.
    """
    mine = steps.c.sweep_id == sweep_id
    connection.execute(update(steps).where(mine, steps.c.cancel_requested).values(cancel_requested=False))
    return connection.execute(
        update(steps)
        .where(mine, steps.c.state == StepState.CANCELLED.value)
        .values(state=StepState.READY.value, not_before=None, reason=None)
    ).rowcount


def retry_step(connection: Connection, step_id: int) -> bool:
    """failed or cancelled -> ready by hand; the attempt limits count anew. False when the step is in another state."""
    row = connection.execute(select(steps.c.trial_id, steps.c.stage, steps.c.fence).where(steps.c.id == step_id)).one()
    made = row.fence
    if row.stage == Stage.REVIEW.value:
        made = connection.execute(
            select(func.count()).select_from(attempts).where(attempts.c.trial_id == row.trial_id)
        ).scalar_one()
    changed = connection.execute(
        update(steps)
        .where(steps.c.id == step_id, steps.c.state.in_((StepState.FAILED.value, StepState.CANCELLED.value)))
        .values(state=StepState.READY.value, attempts_before=made, not_before=None, reason=None, cancel_requested=False)
    )
    return changed.rowcount == 1


def _after_failure(
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
    # The exponent is capped too: 2.0 ** 1024 is an OverflowError.
    return min(2.0 ** min(tries - 1, 30), MAX_BACKOFF_SECONDS)


def _leave_running(
    connection: Connection,
    step_id: int,
    fence: int,
    state: StepState,
    *,
    reason: str | None = None,
    not_before: float | None = None,
    uncounted: bool = False,
) -> StepState | None:
    """Leave running where the fence matches; None when it does not.

    A step that would wait again is cancelled instead when it was asked to stop. ``uncounted``: this take of a judge
    step does not count against its limit (a review's limit counts attempt rows).
    """
    values: dict[str, Any] = {"state": state.value, "reason": reason, "not_before": not_before}
    if state is StepState.READY:
        values["state"] = case((steps.c.cancel_requested, StepState.CANCELLED.value), else_=state.value)
    if uncounted:
        judges = steps.c.stage != Stage.REVIEW.value
        values["attempts_before"] = steps.c.attempts_before + case((judges, 1), else_=0)
    left = connection.execute(
        update(steps)
        .where(steps.c.id == step_id, steps.c.fence == fence, steps.c.state == StepState.RUNNING.value)
        .values(values)
        .returning(steps.c.state)
    ).scalar_one_or_none()
    return None if left is None else StepState(left)
