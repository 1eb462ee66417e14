"""How far every sweep is, in one query."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, func, select

from crb_core.store.tables import StepRow, StepState, core

__all__ = ["sweep_states"]

steps = core(StepRow)


def sweep_states(connection: Connection) -> dict[str, dict[str, int]]:
    """By sweep id how many of its steps wait (``ready`` and ``queued``), run, and have failed or were cancelled."""
    found: dict[str, Counter[str]] = {}
    for sweep_id, state, count in connection.execute(
        select(steps.c.sweep_id, steps.c.state, func.count())
        .where(steps.c.state != StepState.DONE.value)
        .group_by(steps.c.sweep_id, steps.c.state)
    ):
        name = "waiting" if state in {StepState.READY.value, StepState.QUEUED.value} else state
        found.setdefault(sweep_id, Counter())[name] += count
    return {sweep_id: dict(counts) for sweep_id, counts in found.items()}
