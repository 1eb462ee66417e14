"""The dispatcher: the only publisher. It keeps each queue at most as long as its live slots.

Two dispatchers are harmless: one chooses at a time, the database lets each ready step be queued once, and a message
that is published twice is taken once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import RedisError
from sqlalchemy import Connection, func, or_, select, update

from crb_core.store import Store
from crb_core.store.steps import LONGEST_WAIT_SECONDS, choose_alone, mark_queued
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    JudgeRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    SweepState,
    TrialRow,
    WorkerRow,
    core,
)
from crb_scheduler.choose import Choice, Group, Limits, SweepLimit, Turns, choose
from crb_worker.app import BrokerClient, publish

__all__ = ["Dispatcher", "LiveSlots"]

log = structlog.get_logger(__name__)

steps = core(StepRow)
sweeps = core(SweepRow)
sweep_builds = core(SweepBuildRow)
workers = core(WorkerRow)
trials = core(TrialRow)
pull_requests = core(PullRequestRow)
builds = core(AgentBuildRow)
attempts = core(AttemptRow)
judges = core(JudgeRow)

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
        for row in connection.execute(select(workers.c.name, workers.c.beat, workers.c.slots)):
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

    def fill(self) -> int:
        """Fill every queue up to its live slots and publish again what the broker lost. Returns messages sent."""
        with self._store.read() as connection:
            slots = self._slots.read(connection)
            is_any_open = any(choice.step_ids for choice in self._choose(connection, slots).values())
            stale = self._stale(connection) if slots else []
        messages: list[_Message] = []
        if is_any_open or stale:
            with self._store.write() as connection:
                # Once more, inside the lock: caps hold only where nobody else chooses between the look and the choice.
                choose_alone(connection)
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
                log.warning("broker_away", error=str(error), unsent=len(messages) - sent)
                break
        return sent

    def _rooms(self, connection: Connection, slots: Mapping[str, int]) -> dict[Stage, int]:
        """How many more steps each queue may hold, of the stages in which steps wait."""
        queued = connection.execute(
            select(steps.c.stage, func.count().label("n"))
            .where(steps.c.state == StepState.QUEUED.value)
            .group_by(steps.c.stage)
        ).all()
        taken = {row.stage: row.n for row in queued}
        rooms = {stage: slots.get(stage.value, 0) - taken.get(stage.value, 0) for stage in Stage}
        return {stage: room for stage, room in rooms.items() if room > 0 and self._has_ready(connection, stage)}

    def _has_ready(self, connection: Connection, stage: Stage) -> bool:
        return (
            connection.execute(
                select(steps.c.id).where(steps.c.state == StepState.READY.value, steps.c.stage == stage.value).limit(1)
            ).first()
            is not None
        )

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
        for row in connection.execute(
            select(steps.c.stage, steps.c.sweep_id, steps.c.build_id, func.count().label("n"))
            .where(steps.c.state.in_((StepState.QUEUED.value, StepState.RUNNING.value)))
            .group_by(steps.c.stage, steps.c.sweep_id, steps.c.build_id)
        ):
            found.setdefault(Stage(row.stage), {})[Group(row.sweep_id, row.build_id)] = row.n
        return found

    def _heads(self, connection: Connection, stage: Stage, room: int) -> dict[Group, list[int]]:
        """The first steps of every group that may go on, as many as there is room for."""
        # A look into the index for each build, instead of a walk over all that is ready.
        has_ready = (
            select(steps.c.id)
            .where(
                steps.c.stage == stage.value,
                steps.c.state == StepState.READY.value,
                steps.c.sweep_id == sweep_builds.c.sweep_id,
                steps.c.build_id == sweep_builds.c.build_id,
            )
            .exists()
        )
        groups = connection.execute(
            select(sweep_builds.c.sweep_id, sweep_builds.c.build_id)
            .join(sweeps, sweeps.c.id == sweep_builds.c.sweep_id)
            .where(sweeps.c.state == SweepState.ACTIVE.value, sweep_builds.c.paused.is_(False), has_ready)
        ).all()
        now = time.time()
        heads: dict[Group, list[int]] = {}
        for row in groups:
            ready = connection.execute(
                select(steps.c.id)
                .where(
                    steps.c.stage == stage.value,
                    steps.c.state == StepState.READY.value,
                    steps.c.sweep_id == row.sweep_id,
                    steps.c.build_id == row.build_id,
                    or_(
                        steps.c.not_before.is_(None),
                        ~steps.c.not_before.between(now, now + LONGEST_WAIT_SECONDS),
                    ),
                )
                .order_by(steps.c.position, steps.c.id)
                .limit(room)
            ).scalars()
            heads[Group(row.sweep_id, row.build_id)] = list(ready)
        return heads

    def _limits(self, connection: Connection, stage: Stage, groups: set[Group]) -> Limits:
        """Priorities, weights and caps of the sweeps that have steps in this stage, in flight or to come.

        Caps are a vendor's rate limits: they concern reviews, not the judge's work on them.
        """
        is_review = stage is Stage.REVIEW
        rows = connection.execute(
            select(
                sweeps.c.id,
                sweeps.c.priority,
                sweeps.c.weight,
                sweeps.c.concurrency.label("cap"),
                sweep_builds.c.build_id,
                sweep_builds.c.concurrency,
            )
            .join(sweep_builds, sweep_builds.c.sweep_id == sweeps.c.id)
            .where(sweeps.c.id.in_({group.sweep_id for group in groups}))
        ).all()
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

    def _stale(self, connection: Connection) -> list[int]:
        now = time.time()
        rows = connection.execute(
            select(steps.c.id, steps.c.stage, steps.c.published_at).where(
                steps.c.state == StepState.QUEUED.value,
                # Also what a clock that was stepped back since says was published in the future.
                ~steps.c.published_at.between(now - REPUBLISH_EMPTY_SECONDS, now + REPUBLISH_EMPTY_SECONDS),
            )
        ).all()
        lengths = {stage: self._broker.queue_length(stage) for stage in {row.stage for row in rows}}
        return [row.id for row in rows if lengths[row.stage] == 0 or row.published_at < now - REPUBLISH_SECONDS]

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
        numbers = (
            select(attempts.c.trial_id, func.max(attempts.c.number).label("last"))
            .where(attempts.c.trial_id.in_(select(steps.c.trial_id).where(steps.c.id.in_(step_ids))))
            .group_by(attempts.c.trial_id)
            .subquery()
        )
        rows = connection.execute(
            select(
                steps.c.id,
                steps.c.stage,
                steps.c.fence,
                builds.c.agent,
                pull_requests.c.key,
                trials.c.round,
                numbers.c.last,
                judges.c.name.label("judge"),
            )
            .join(trials, trials.c.id == steps.c.trial_id)
            .join(builds, builds.c.id == trials.c.build_id)
            .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
            .outerjoin(numbers, numbers.c.trial_id == trials.c.id)
            .outerjoin(judges, judges.c.id == steps.c.judge_id)
            .where(steps.c.id.in_(step_ids))
        ).all()
        messages = {}
        for row in rows:
            shown = f"{row.agent} {row.key} round {row.round}"
            if row.stage == Stage.REVIEW.value:
                shown += f" attempt {(row.last or 0) + 1}"
            else:
                shown += f" judge {row.judge}"
            messages[row.id] = _Message(row.id, Stage(row.stage), row.fence, shown)
        return [messages[step_id] for step_id in step_ids]
