"""What people do to steps: cancel them, bring them back, try them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, case, func, select, update

from crb_core.store.tables import AttemptRow, Stage, StepRow, StepState, core

__all__ = ["RETRIABLE", "Changed", "Scope", "cancel_steps", "chunks", "restore_steps", "retry_steps"]

attempts = core(AttemptRow)
steps = core(StepRow)

#: States that a retry leaves.
RETRIABLE = (StepState.FAILED.value, StepState.CANCELLED.value)
#: Numbers in one IN: databases limit how many values a statement may have.
CHUNK = 500


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which steps: those of a sweep, of some of its builds, or of some of its trials (None: of all)."""

    sweep_id: str
    build_ids: tuple[str, ...] | None = None
    trial_ids: tuple[int, ...] | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Conditions on the step table that together mean this scope."""
        base = [steps.c.sweep_id == self.sweep_id]
        if self.build_ids is not None:
            base.append(steps.c.build_id.in_(self.build_ids))
        if self.trial_ids is None:
            yield and_(*base)
            return
        for chunk in chunks(self.trial_ids):
            yield and_(*base, steps.c.trial_id.in_(chunk))


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What became of steps: ``waiting`` ones changed at once, ``running`` ones whose order to stop was changed."""

    waiting: int
    running: int

    def __bool__(self) -> bool:
        return bool(self.waiting or self.running)


def cancel_steps(connection: Connection, scope: Scope) -> Changed:
    """ready, queued -> cancelled; running steps are asked to stop."""
    ended = asked = 0
    for mine in scope.conditions():
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
        while True:
            first, second, third = (connection.execute(statement).rowcount for statement in (ask, end, ask))
            asked += first + third
            ended += second
            if not first + second + third:
                break
    return Changed(waiting=ended, running=asked)


def restore_steps(connection: Connection, scope: Scope) -> Changed:
    """cancelled -> ready, for what is resumed; what still runs is not asked to stop any more."""
    ready = kept = 0
    for mine in scope.conditions():
        kept += connection.execute(
            update(steps)
            .where(mine, steps.c.state == StepState.RUNNING.value, steps.c.cancel_requested)
            .values(cancel_requested=False)
        ).rowcount
        ready += connection.execute(
            update(steps)
            .where(mine, steps.c.state == StepState.CANCELLED.value)
            .values(state=StepState.READY.value, not_before=None, reason=None, cancel_requested=False)
        ).rowcount
    return Changed(waiting=ready, running=kept)


def retry_steps(connection: Connection, step_ids: Sequence[int]) -> list[int]:
    """failed or cancelled -> ready by hand; the attempt limits count anew. Returns the ids of the steps that changed.

    A step that is running and was asked to stop is not asked any more.
    """
    made = select(func.count()).select_from(attempts).where(attempts.c.trial_id == steps.c.trial_id).scalar_subquery()
    changed: list[int] = []
    for chunk in chunks(step_ids):
        mine = steps.c.id.in_(chunk)
        changed += connection.execute(
            update(steps)
            .where(mine, steps.c.state == StepState.RUNNING.value, steps.c.cancel_requested)
            .values(cancel_requested=False)
            .returning(steps.c.id)
        ).scalars()
        changed += connection.execute(
            update(steps)
            .where(mine, steps.c.state.in_(RETRIABLE))
            .values(
                state=StepState.READY.value,
                attempts_before=case((steps.c.stage == Stage.REVIEW.value, made), else_=steps.c.fence),
                not_before=None,
                reason=None,
                cancel_requested=False,
            )
            .returning(steps.c.id)
        ).scalars()
    return sorted(changed)


def chunks(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """Parts of ``values`` that fit into one IN."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
