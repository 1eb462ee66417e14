"""The register of workers: who has come, who has gone, and forgetting those that were killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from crb_core.clock import utc_now
from crb_core.store.tables import StepRow, StepState, WorkerRow, core

__all__ = ["forget_workers", "register_worker", "unregister_worker"]

steps = core(StepRow)
workers = core(WorkerRow)


def register_worker(
    connection: Connection,
    name: str,
    *,
    host: str,
    pid: int,
    slots: Mapping[str, int],
    wanted_slots: Mapping[str, int] | None = None,
) -> None:
    """A worker has come. ``slots`` by queue name, ``wanted_slots`` what an operator asked of it before."""
    connection.execute(
        insert(workers).values(
            name=name,
            host=host,
            pid=pid,
            beat=0,
            slots=dict(slots),
            wanted_slots=None if wanted_slots is None else dict(wanted_slots),
            started_at=utc_now(),
        )
    )


def unregister_worker(connection: Connection, name: str) -> None:
    """A worker ends by itself."""
    connection.execute(delete(workers).where(workers.c.name == name))


def forget_workers(connection: Connection, beats: Mapping[str, int]) -> list[Any]:
    """Remove the named workers whose beat still is the given one and that hold no step. Returns the rows of those gone.

    One that runs all the same and only could not reach the store registers itself anew (crb_worker/watcher.py).
    """
    gone = []
    for name, beat in sorted(beats.items()):
        holds = select(steps.c.id).where(steps.c.worker == name, steps.c.state == StepState.RUNNING.value).exists()
        row = connection.execute(
            delete(workers).where(workers.c.name == name, workers.c.beat == beat, ~holds).returning(*workers.c)
        ).one_or_none()
        if row is not None:
            gone.append(row)
    return gone
