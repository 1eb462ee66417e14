"""The moment as of which a site shows a store: when the last thing that it records happened."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

from crb_core.store.tables import AttemptRow, JudgmentRow, OperatorActionRow, SweepRow, core

__all__ = ["last_moment"]

_TIMES = (
    core(SweepRow).c.created_at,
    core(AttemptRow).c.started_at,
    core(AttemptRow).c.finished_at,
    core(JudgmentRow).c.scored_at,
    core(OperatorActionRow).c.at,
)


def last_moment(connection: Connection) -> datetime:
    """The latest time in the store that can be read as one; the beginning of 1970 where there is none."""
    found = [datetime.fromtimestamp(0, UTC)]
    for column in _TIMES:
        text = connection.execute(select(func.max(column))).scalar_one()
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            # Imports keep the times of their source as they stand there.
            continue
        found.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return max(found)
