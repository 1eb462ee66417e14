"""The dispatcher: the only publisher. It keeps each queue at most as long as its live slots.

Two dispatchers are harmless: one chooses at a time, the database lets each ready step be queued once, and a message
that is published twice is taken once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import RedisError
from sqlalchemy import Connection, update

from crb_core.outages import Outage
from crb_core.store import Store
from crb_core.store.steps import LONGEST_WAIT_SECONDS, choose_alone, mark_queued, withdraw
from crb_core.store.tables import Stage, StepRow, StepState, core
from crb_scheduler.choose import Choice, Group, Limits, SweepLimit, Turns, choose
from crb_scheduler.dispatch_queries import (
    GROUPS_WITH_READY,
    HEADS,
    IN_FLIGHT,
    LIMITS,
    MESSAGES,
    QUEUED,
    QUEUED_LONG_AGO,
    STAGES_WITH_READY,
    WORKER_SLOTS,
)
from crb_worker.app import BrokerClient, publish

__all__ = ["Dispatcher", "LiveSlots"]

log = structlog.get_logger(__name__)

steps = core(StepRow)

#: A queued step is published again when its queue is empty and it was published this long ago.
REPUBLISH_EMPTY_SECONDS = 5.0
#: ... and in any case after this long: a message can be lost while others wait.
REPUBLISH_SECONDS = 120.0


class LiveSlots:
    """How many slots live workers have for each queue. Liveness is a moving beat, never a timestamp."""

    def __init__(self, lease_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease_seconds
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def read(self, connection: Connection) -> dict[str, int]:
        """Slots by queue name over the workers whose beat moved within the lease."""
        now = self._clock()
        slots: dict[str, int] = {}
        names = set()
        for row in connection.execute(WORKER_SLOTS):
            names.add(row.name)
            beat, since = self._seen.get(row.name, (None, now))
            if beat != row.beat:
                since = now
            self._seen[row.name] = (row.beat, since)
            if now - since <= self._lease:
                for queue, count in row.slots.items():
                    slots[queue] = slots.get(queue, 0) + int(count)
        for gone in set(self._seen) - names:
            del self._seen[gone]
        return slots


@dataclass(frozen=True)
class _Message:
    step_id: int
    stage: Stage
    fence: int
    shown_as: str


class Dispatcher:
    """Moves steps from ready to queued and publishes them after the commit."""

    def __init__(self, store: Store, app: Celery, broker: BrokerClient, slots: LiveSlots) -> None:
        self._store = store
        self._app = app
        self._broker = broker
        self._slots = slots
        self._turns: dict[Stage, Turns] = {}
        # Of its own: a broker that is full answers everything else.
        self._outage = Outage("queues")

    def fill(self) -> int:
        """Fill every queue up to its live slots and publish again what the broker lost. Returns messages sent."""
        with self._store.read() as connection:
            slots = self._slots.read(connection)
            may_go = self._may_go(connection, slots)
            idle = self._without_takers(connection, slots)
            old = self._queued_long_ago(connection) if slots else []
        # No transaction is open while the broker is asked.
        stale = self._stale(old)
        messages: list[_Message] = []
        if may_go or stale or idle:
            with self._store.write() as connection:
                # Inside the lock: caps hold only where nobody else chooses between the choice and its effect.
                choose_alone(connection)
                # They would count as in flight, against every cap, for as long as nobody takes them.
                withdraw(connection, idle)
                choices = self._choose(connection, slots)
                chosen = [step_id for choice in choices.values() for step_id in choice.step_ids]
                moved = mark_queued(connection, chosen)
                again = self._touch(connection, stale)
                messages = self._messages(connection, moved + again)
            self._turns |= {stage: choice.turns for stage, choice in choices.items()}
        sent = 0
        for message in messages:
            try:
                publish(self._app, message.stage, message.step_id, fence=message.fence, shown_as=message.shown_as)
                sent += 1
            # A broker that is full or read-only answers with an error of its own, which kombu passes on.
            except (OperationalError, RedisError, OSError) as error:
                self._outage.failed(error)
                break
        else:
            if messages:
                self._outage.answered()
        return sent

    def _may_go(self, connection: Connection, slots: Mapping[str, int]) -> bool:
        """Whether a step has its turn and room, but for caps: a look that costs less than a choice."""
        return any(
            step_ids
            for stage, room in self._rooms(connection, slots).items()
            for step_ids in self._heads(connection, stage, room).values()
        )

    def _without_takers(self, connection: Connection, slots: Mapping[str, int]) -> list[Stage]:
        """Stages with queued steps and no live slot: their workers ended, or take no more."""
        return [Stage(row.stage) for row in connection.execute(QUEUED) if not slots.get(row.stage)]

    def _rooms(self, connection: Connection, slots: Mapping[str, int]) -> dict[Stage, int]:
        """How many more steps each queue may hold, of the stages in which steps wait."""
        taken = {row.stage: row.n for row in connection.execute(QUEUED)}
        rooms = {stage: slots.get(stage.value, 0) - taken.get(stage.value, 0) for stage in Stage}
        ready = connection.execute(STAGES_WITH_READY).mappings().one()
        return {stage: room for stage, room in rooms.items() if room > 0 and ready[stage.value]}

    def _choose(self, connection: Connection, slots: Mapping[str, int]) -> dict[Stage, Choice]:
        rooms = self._rooms(connection, slots)
        if not rooms:
            return {}
        in_flight = self._in_flight(connection)
        choices = {}
        for stage, room in rooms.items():
            flying = in_flight.get(stage, {})
            heads = self._heads(connection, stage, room)
            limits = self._limits(connection, stage, {*heads, *flying})
            choices[stage] = choose(heads, flying, limits, room, self._turns.get(stage, Turns()))
        return choices

    def _in_flight(self, connection: Connection) -> dict[Stage, dict[Group, int]]:
        """Queued and running steps by stage and group."""
        found: dict[Stage, dict[Group, int]] = {}
        for row in connection.execute(IN_FLIGHT):
            found.setdefault(Stage(row.stage), {})[Group(row.sweep_id, row.build_id)] = row.n
        return found

    def _heads(self, connection: Connection, stage: Stage, room: int) -> dict[Group, list[int]]:
        """The first steps of every group that may go on, as many as there is room for."""
        groups = connection.execute(GROUPS_WITH_READY, {"stage": stage.value}).all()
        now = time.time()
        asked = {"stage": stage.value, "room": room, "now": now, "longest": now + LONGEST_WAIT_SECONDS}
        return {
            Group(row.sweep_id, row.build_id): list(
                connection.execute(HEADS, asked | {"sweep_id": row.sweep_id, "build_id": row.build_id}).scalars()
            )
            for row in groups
        }

    def _limits(self, connection: Connection, stage: Stage, groups: set[Group]) -> Limits:
        """Priorities, weights and caps of the sweeps that have steps in this stage, in flight or to come.

        Caps are a vendor's rate limits: they concern reviews, not the judge's work on them.
        """
        is_review = stage is Stage.REVIEW
        rows = connection.execute(LIMITS, {"sweep_ids": list({group.sweep_id for group in groups})}).all()
        build_caps: dict[str, int] = {}
        for row in rows:
            if is_review and row.concurrency is not None and Group(row.id, row.build_id) in groups:
                build_caps[row.build_id] = min(row.concurrency, build_caps.get(row.build_id, row.concurrency))
        return Limits(
            sweeps={
                row.id: SweepLimit(priority=row.priority, weight=row.weight, cap=row.cap if is_review else None)
                for row in rows
            },
            builds=build_caps,
        )

    def _queued_long_ago(self, connection: Connection) -> Sequence[Any]:
        """Queued steps that their queue may have lost: id, stage, published_at."""
        now = time.time()
        return connection.execute(
            QUEUED_LONG_AGO, {"since": now - REPUBLISH_EMPTY_SECONDS, "until": now + REPUBLISH_EMPTY_SECONDS}
        ).all()

    def _stale(self, old: Sequence[Any]) -> list[int]:
        """Ids of those that are published again: their queue is empty, or they have waited for long."""
        if not old:
            return []
        lengths = self._broker.queue_lengths({row.stage for row in old}) or {}
        long_ago = time.time() - REPUBLISH_SECONDS
        return [row.id for row in old if lengths.get(row.stage) == 0 or row.published_at < long_ago]

    def _touch(self, connection: Connection, step_ids: list[int]) -> list[int]:
        if not step_ids:
            return []
        touched = connection.execute(
            update(steps)
            .where(steps.c.id.in_(step_ids), steps.c.state == StepState.QUEUED.value)
            .values(published_at=time.time())
            .returning(steps.c.id)
        ).scalars()
        ids = list(touched)
        if ids:
            log.info("published_again", steps=len(ids))
        return ids

    def _messages(self, connection: Connection, step_ids: list[int]) -> list[_Message]:
        if not step_ids:
            return []
        rows = connection.execute(MESSAGES, {"step_ids": step_ids}).all()
        messages = {}
        for row in rows:
            shown = f"{row.agent} {row.key} round {row.round}"
            if row.stage == Stage.REVIEW.value:
                shown += f" attempt {(row.last or 0) + 1}"
            else:
                shown += f" judge {row.judge}"
            messages[row.id] = _Message(row.id, Stage(row.stage), row.fence, shown)
        return [messages[step_id] for step_id in step_ids]
