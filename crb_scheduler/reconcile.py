"""The reconciler: finds running steps whose beat stands still and gives them back.

A step is lost after its lease of this process's own monotonic clock without a change of fence or beat, so clocks that
step or differ between machines cost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from sqlalchemy import func, select

from crb_core.store import Store
from crb_core.store.steps import AttemptLimits, lose
from crb_core.store.tables import AttemptRow, StepRow, StepState, core

__all__ = ["Reconciler"]

log = structlog.get_logger(__name__)
attempts = core(AttemptRow)
steps = core(StepRow)


class Reconciler:
    """Watches beats; ``tick()`` is called every few seconds."""

    def __init__(
        self,
        store: Store,
        limits: AttemptLimits,
        lease_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._limits = limits
        self._lease = lease_seconds
        self._clock = clock
        self._seen: dict[int, tuple[int, int, float]] = {}

    def tick(self) -> int:
        """Read all beats once and give back what stood still for the lease. Returns how many steps were lost."""
        with self._store.read() as connection:
            rows = connection.execute(
                select(steps.c.id, steps.c.fence, steps.c.beat, steps.c.worker).where(
                    steps.c.state == StepState.RUNNING.value
                )
            ).all()
        now = self._clock()
        seen: dict[int, tuple[int, int, float]] = {}
        lost = 0
        for row in rows:
            fence, beat, since = self._seen.get(row.id, (row.fence, row.beat, now))
            if (fence, beat) != (row.fence, row.beat):
                since = now
            if now - since >= self._lease and lose(
                self._store, row.id, fence=row.fence, beat=row.beat, limits=self._limits
            ):
                lost += 1
                self._say_lost(row.id)
                continue
            seen[row.id] = (row.fence, row.beat, since)
        self._seen = seen
        return lost

    def _say_lost(self, step_id: int) -> None:
        with self._store.read() as connection:
            row = connection.execute(
                select(steps.c.sweep_id, steps.c.trial_id, steps.c.worker, func.max(attempts.c.number).label("attempt"))
                .outerjoin(attempts, attempts.c.trial_id == steps.c.trial_id)
                .where(steps.c.id == step_id)
                .group_by(steps.c.sweep_id, steps.c.trial_id, steps.c.worker)
            ).one()
        log.warning(
            "step_lost", step=step_id, worker=row.worker, sweep=row.sweep_id, trial=row.trial_id, attempt=row.attempt
        )
