"""The log of what people did: one record an operation, written in the transaction of the change itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, insert, select

from crb_core.clock import utc_now
from crb_core.errors import InputError
from crb_core.store.steps import Changed
from crb_core.store.tables import OperatorActionRow, SweepRow, core
from crb_core.store.texts import is_storable

__all__ = ["NOTHING", "Operation", "list_operations", "record_operation", "storable_text"]

actions = core(OperatorActionRow)
sweeps = core(SweepRow)

MAX_ACTOR = 100

NOTHING = Changed(waiting=0, running=0)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What was done, by whom, and what it changed. ``id`` is None where nothing changed."""

    id: int | None
    at: str
    actor: str
    #: ``pause``, ``resume``, ``cancel``, ``retry``, ``set limits``, ``set slots`` or ``forget worker``.
    action: str
    sweep_id: str | None = None
    sweep: str | None = None
    #: The agent whose builds it concerned; None for all of the sweep.
    agent: str | None = None
    #: Numbers of the trials that it concerned; empty where it was the sweep or an agent.
    trials: tuple[int, ...] = ()
    worker: str | None = None
    reason: str | None = None
    #: Steps that ended or wait again by it.
    steps: int = 0
    #: Running steps that were asked to stop, or are not asked any more.
    running: int = 0
    #: Values before and after, by field.
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    @property
    def has_changed(self) -> bool:
        """Whether anything is otherwise than before."""
        return self.id is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"trials": list(self.trials)}


def list_operations(connection: Connection, *, sweep_id: str | None = None, limit: int = 20) -> list[Operation]:
    """The last operations, newest first: all of them, or those on one sweep."""
    query = (
        select(actions, sweeps.c.name.label("sweep"))
        .outerjoin(sweeps, sweeps.c.id == actions.c.sweep_id)
        .order_by(actions.c.id.desc())
        .limit(limit)
    )
    if sweep_id is not None:
        query = query.where(actions.c.sweep_id == sweep_id)
    return [
        Operation(
            id=row.id,
            at=row.at,
            actor=row.actor,
            action=row.action,
            sweep_id=row.sweep_id,
            sweep=row.sweep,
            **row.document | {"trials": tuple(row.document.get("trials", ()))},
        )
        for row in connection.execute(query)
    ]


def record_operation(
    connection: Connection,
    action: str,
    actor: str,
    sweep: Any,
    *,
    agent: str | None = None,
    trial_ids: tuple[int, ...] = (),
    worker: str | None = None,
    reason: str | None = None,
    changed: Changed = NOTHING,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> Operation:
    """Write an operation down where it changed anything, and return it. ``sweep`` is the sweep's row."""
    known_actor = storable_text("actor", actor, MAX_ACTOR)
    if known_actor is None:
        raise InputError("An operation needs the name of who does it")
    sweep_id = None if sweep is None else sweep.id
    at = utc_now()
    document = {
        "agent": agent,
        "trials": list(trial_ids),
        "worker": worker,
        "reason": reason,
        "steps": changed.waiting,
        "running": changed.running,
        "before": before or {},
        "after": after or {},
    }
    number = None
    if changed or (before or {}) != (after or {}):
        number = connection.execute(
            insert(actions)
            .values(at=at, actor=known_actor, action=action, sweep_id=sweep_id, document=document)
            .returning(actions.c.id)
        ).scalar_one()
    return Operation(
        id=number,
        at=at,
        actor=known_actor,
        action=action,
        sweep_id=sweep_id,
        sweep=None if sweep is None else sweep.name,
        agent=agent,
        trials=trial_ids,
        worker=worker,
        reason=reason,
        steps=changed.waiting,
        running=changed.running,
        before=before or {},
        after=after or {},
    )


def storable_text(what: str, value: str | None, most: int) -> str | None:
    """A text that people give, without blanks around it; None for an empty one. InputError where it cannot be kept."""
    if value is None or not value.strip():
        return None
    if not is_storable(value):
        raise InputError(f"The {what} holds characters that are no text", remedy="Write it in plain characters")
    if len(value) > most:
        raise InputError(f"The {what} has {len(value)} characters, more than {most}", remedy="Shorten it")
    return value.strip()
