"""ready -> queued -> running: what is dispatched and taken, and the steps that follow one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from crb_core.clock import utc_now
from crb_core.store.session import Store
from crb_core.store.steps.records import TakenStep
from crb_core.store.tables import (
    AttemptRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    SweepState,
    core,
)

__all__ = ["add_step", "choose_alone", "hand_back", "mark_queued", "take", "withdraw"]

attempts = core(AttemptRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
sweeps = core(SweepRow)

#: Number of the advisory lock of dispatchers in a PostgreSQL database: "crb" and 1.
DISPATCH_LOCK = 0x63726201

# Every step passes here several times, and building a statement costs more than executing it.
_IS_CANCELLED = select(steps.c.cancel_requested).where(steps.c.id == bindparam("after_id"))
_ADD_STEP = insert(steps)
_ADD_ATTEMPT = insert(attempts)
_LAST_ATTEMPT = select(func.max(attempts.c.number)).where(attempts.c.trial_id == bindparam("of_trial"))
_MARK_QUEUED = (
    update(steps)
    .where(steps.c.id.in_(bindparam("step_ids", expanding=True)), steps.c.state == StepState.READY.value)
    .values(state=StepState.QUEUED.value, published_at=bindparam("published"))
    .returning(steps.c.id)
)
_IS_ACTIVE = (
    select(sweeps.c.id)
    .join(sweep_builds, sweep_builds.c.sweep_id == sweeps.c.id)
    .where(
        sweeps.c.id == steps.c.sweep_id,
        sweeps.c.state == SweepState.ACTIVE.value,
        sweep_builds.c.build_id == steps.c.build_id,
        # What a paused agent has found already is judged all the same.
        sweep_builds.c.paused.is_(False) | (steps.c.stage != Stage.REVIEW.value),
    )
    .exists()
)
_TAKE = (
    update(steps)
    .where(steps.c.id == bindparam("taken_id"), steps.c.state == StepState.QUEUED.value, _IS_ACTIVE)
    .values(state=StepState.RUNNING.value, fence=steps.c.fence + 1, beat=0, worker=bindparam("taken_by"), reason=None)
    .returning(*steps.c)
)


def add_step(connection: Connection, *, after: TakenStep, stage: Stage, judge_id: str) -> None:
    """Insert the step that follows one, in the transaction that finishes that one.

    Where that one was asked to stop, its sweep is cancelled, and so is what follows.
    """
    cancelled = connection.execute(_IS_CANCELLED, {"after_id": after.id}).scalar_one()
    connection.execute(
        _ADD_STEP,
        {
            "trial_id": after.trial_id,
            "judge_id": judge_id,
            "stage": stage.value,
            "sweep_id": after.sweep_id,
            "build_id": after.build_id,
            "priority": after.priority,
            "position": after.position,
            "state": (StepState.CANCELLED if cancelled else StepState.READY).value,
            "fence": 0,
            "beat": 0,
            "cancel_requested": False,
            "attempts_before": 0,
        },
    )


def choose_alone(connection: Connection) -> None:
    """Let no other dispatcher choose steps until this transaction ends."""
    # SQLite's write transaction is alone in any case.
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(DISPATCH_LOCK)))


def mark_queued(connection: Connection, step_ids: Sequence[int]) -> list[int]:
    """ready -> queued. Returns the ids that this call moved; another dispatcher may have moved the rest."""
    if not step_ids:
        return []
    moved = connection.execute(_MARK_QUEUED, {"step_ids": list(step_ids), "published": time.time()})
    order = {step_id: place for place, step_id in enumerate(step_ids)}
    return sorted(moved.scalars().all(), key=lambda step_id: order[step_id])


def take(store: Store, step_id: int, worker: str) -> TakenStep | None:
    """queued -> running. None when the message is a duplicate, late, or its sweep is not active; a review also waits
    while its build is paused.

    A review's attempt row is inserted in the same transaction, so attempts are numbered without gaps.
    """
    with store.write() as connection:
        row = connection.execute(_TAKE, {"taken_id": step_id, "taken_by": worker}).one_or_none()
        if row is None:
            # What is paused waits for its turn again instead of staying queued for ever.
            _hand_back(connection, step_id)
            return None
        stage = Stage(row.stage)
        tag = None
        # A judge step follows the attempt that succeeded, which is the last one.
        number = connection.execute(_LAST_ATTEMPT, {"of_trial": row.trial_id}).scalar_one()
        if stage is Stage.REVIEW:
            tag = secrets.token_hex(8)
            number = 1 + (number or 0)
            connection.execute(
                _ADD_ATTEMPT,
                {"trial_id": row.trial_id, "number": number, "tag": tag, "worker": worker, "started_at": utc_now()},
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
            queue_ms=_since(row.published_at),
        )


def hand_back(store: Store, step_id: int) -> None:
    """queued -> ready: the worker that has the message takes no more, so another one may have it."""
    with store.write() as connection:
        _hand_back(connection, step_id)


def withdraw(connection: Connection, stages: Sequence[Stage]) -> int:
    """queued -> ready for all of these stages: nobody takes from their queues. Returns how many steps changed.

    Their messages may stay in the broker; whoever takes one later finds that its step is not queued, or takes it.
    """
    if not stages:
        return 0
    return connection.execute(
        update(steps)
        .where(steps.c.stage.in_([stage.value for stage in stages]), steps.c.state == StepState.QUEUED.value)
        .values(state=StepState.READY.value)
    ).rowcount


def _hand_back(connection: Connection, step_id: int) -> None:
    connection.execute(
        update(steps)
        .where(steps.c.id == step_id, steps.c.state == StepState.QUEUED.value)
        .values(state=StepState.READY.value)
    )


def _since(published_at: float | None) -> float | None:
    if published_at is None:
        return None
    # The dispatcher's clock and this machine's: where they disagree by more than the wait, the wait is unknown.
    waited = (time.time() - published_at) * 1000
    return waited if waited >= 0 else None
