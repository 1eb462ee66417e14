"""Held steps: the beat that keeps them, and what becomes of them when it stops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, select, tuple_, update

from crb_core.agent import Outcome
from crb_core.clock import utc_now
from crb_core.store.session import Store
from crb_core.store.steps.ending import after_failure, leave_running
from crb_core.store.steps.records import AttemptLimits, HeldStep, Orders
from crb_core.store.tables import AttemptRow, Stage, StepRow, StepState, WorkerRow, core

__all__ = ["beat", "interrupt", "look", "lose"]

attempts = core(AttemptRow)
steps = core(StepRow)
workers = core(WorkerRow)


def beat(
    store: Store, worker: str, held: Iterable[tuple[int, int]], *, status: dict[str, Any] | None = None
) -> list[HeldStep]:
    """Raise the beat of the worker and of every step it holds; the same round trip reads the cancel flags.

    ``held`` are (step id, fence) pairs. ``status`` is what the worker says of itself; None leaves what it said before.
    """
    pairs = list(held)
    with store.write() as connection:
        raised: dict[str, Any] = {"beat": workers.c.beat + 1} | ({} if status is None else {"status": status})
        connection.execute(update(workers).where(workers.c.name == worker).values(raised))
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


def look(store: Store, worker: str) -> Orders:
    """Read what people want of a worker, without a beat: cheap enough for every second."""
    with store.read() as connection:
        cancelled = connection.execute(
            select(steps.c.id, steps.c.fence).where(
                steps.c.state == StepState.RUNNING.value, steps.c.worker == worker, steps.c.cancel_requested
            )
        ).all()
        mine = connection.execute(select(workers.c.wanted_slots).where(workers.c.name == worker)).one_or_none()
    return Orders(
        cancelled=frozenset((row.id, row.fence) for row in cancelled),
        wanted_slots=None if mine is None else mine.wanted_slots,
        is_registered=mine is not None,
    )


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
            state, not_before = after_failure(connection, step_id, row.trial_id, Outcome.LOST, limits, backoff=False)
        else:
            state = StepState.READY if fence - row.attempts_before < limits.farm else StepState.FAILED
        reason = "lost: the worker that held the step was not heard of"
        if leave_running(connection, step_id, fence, state, reason=reason, not_before=not_before) is None:
            return False
        connection.execute(update(steps).where(steps.c.id == step_id).values(losses=steps.c.losses + 1))
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
                leave_running(connection, row.id, row.fence, StepState.READY, reason="interrupted", uncounted=True)
            connection.execute(
                update(attempts)
                .where(attempts.c.outcome.is_(None))
                .values(outcome=Outcome.CANCELLED.value, detail="The run was interrupted", finished_at=utc_now())
            )
    if not deliberate:
        for row in running:
            lose(store, row.id, fence=row.fence, beat=row.beat, limits=limits)
    return len(running)
