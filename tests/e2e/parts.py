"""The parts that an attempt's latency is split into, held against its whole time."""

from __future__ import annotations

from sqlalchemy import select

from crb_core.phases import split
from crb_core.store import Store
from crb_core.store.tables import AttemptRow, core
from crb_scheduler.progress_parts import moment

__all__ = ["check_every_part_is_measured"]


def check_every_part_is_measured(store: Store) -> None:
    """The parts of an attempt are its time from the take to the end: nothing is counted twice, next to nothing not.

    Times of a busy machine prove little one by one, so what is left over is held against all attempts together.
    """
    with store.read() as connection:
        rows = connection.execute(select(core(AttemptRow))).all()
    walls = left_over = 0.0
    for row in rows:
        parts = split(row.phases_ms, row.review_ms)
        assert list(parts) == ["queue", "prepare", "slot", "review", "collect", "teardown"]
        wall = (moment(row.finished_at) - moment(row.started_at)).total_seconds() * 1000
        inside = sum(value for name, value in parts.items() if name != "queue")
        # Stored times are rounded to milliseconds.
        assert inside <= wall + 2, (row.trial_id, row.number, parts, wall)
        walls += wall
        left_over += wall - inside
    assert left_over <= 0.05 * walls, f"{left_over:.0f} of {walls:.0f} ms are in no part"
