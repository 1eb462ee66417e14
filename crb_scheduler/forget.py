"""Forgetting workers that were killed: their rows would stand in every list for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import select

from crb_core.store import Store
from crb_core.store.tables import WorkerRow, core
from crb_core.store.workers import forget_workers
from crb_scheduler.beats import BeatWatch

__all__ = ["SilentWorkers"]

log = structlog.get_logger(__name__)
workers = core(WorkerRow)


class SilentWorkers:
    """Watches the beats of workers; ``tick()`` is called now and then and forgets those that are silent for long.

    A worker must have been silent for the lease of this process's own clock, whatever any wall clock says. For how long
    in all is told by that clock too, or, where this process is younger, by what the worker said last.
    """

    def __init__(
        self,
        store: Store,
        *,
        lease_seconds: float,
        forget_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._forget = max(forget_seconds, lease_seconds)
        self._beats = BeatWatch(lease_seconds, clock)
        self._now = now

    def tick(self) -> list[str]:
        """Read all beats once and forget who is silent for long enough. Returns the names of those forgotten."""
        with self._store.read() as connection:
            rows = connection.execute(
                select(workers.c.name, workers.c.beat, workers.c.status, workers.c.started_at)
            ).all()
        states = self._beats.read((row.name, row.beat) for row in rows)
        old = {
            row.name: row.beat
            for row in rows
            if states[row.name].alive is False
            and max(states[row.name].silent_seconds, self._since_its_last_word(row)) >= self._forget
        }
        if not old:
            return []
        with self._store.write() as connection:
            gone = [row.name for row in forget_workers(connection, old)]
        for name in gone:
            log.info("worker_forgotten", worker=name)
        return gone

    def _since_its_last_word(self, row: Any) -> float:
        """Seconds between what a worker said last, by its own clock, and now; 0 where that cannot be told."""
        said = (row.status or {}).get("at", row.started_at)
        try:
            return (self._now() - datetime.fromisoformat(said)).total_seconds()
        except (TypeError, ValueError):
            return 0.0
