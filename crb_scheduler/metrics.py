"""What the scheduler says to Prometheus: gauges of the truth in the store, read at each scrape, and its own counters.

Two schedulers say the same of the store, so panels take ``max``; their counters add up.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from crb_core.errors import CrbError
from crb_core.store import Store
from crb_core.store.tables import Stage, StepRow, StepState, SweepRow, WorkerRow, core
from crb_core.telemetry import SECONDS_BUCKETS, AwayClock, new_registry
from crb_scheduler.beats import BeatWatch
from crb_scheduler.progress import TrialState, read_progress
from crb_worker.app import QUEUES, BrokerClient

__all__ = ["FarmCollector", "SchedulerMetrics", "scheduler_metrics"]

steps = core(StepRow)
sweeps = core(SweepRow)
workers = core(WorkerRow)

#: Unfinished sweeps whose trials are counted, the latest ones: no farm makes the number of labels grow for ever.
SWEEPS_SHOWN = 20

_COUNTED = (StepState.READY, StepState.QUEUED, StepState.RUNNING, StepState.FAILED)
_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)


class SchedulerMetrics:
    """The metrics of one scheduler process."""

    def __init__(self) -> None:
        self.registry = new_registry("scheduler")
        self._farm: FarmCollector | None = None
        self.published = Counter("crb_steps_published", "Messages sent to the queues.", registry=self.registry)
        self.lost = Counter(
            "crb_steps_lost",
            "Steps given back because the worker that held them was not heard of.",
            registry=self.registry,
        )
        self.dispatch = Histogram(
            "crb_dispatch_seconds",
            "Duration of one turn of the dispatcher.",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.store_away = AwayClock(
            Counter(
                "crb_scheduler_store_away_seconds",
                "Seconds for which the store did not answer.",
                registry=self.registry,
            )
        )
        self.broker_away = AwayClock(
            Counter(
                "crb_scheduler_broker_away_seconds",
                "Seconds for which the broker did not answer.",
                registry=self.registry,
            )
        )

    def watch_farm(self, store: Store, broker: BrokerClient, lease_seconds: float) -> None:
        """Serve what store and broker hold, read at each scrape; instead of an earlier scheduler's of this process."""
        self.leave_farm()
        self._farm = FarmCollector(store, broker, BeatWatch(lease_seconds))
        self.registry.register(self._farm)

    def leave_farm(self) -> None:
        """Serve no gauges any more: nobody keeps the connections that they are read through."""
        if self._farm is not None:
            self.registry.unregister(self._farm)
            self._farm = None


@functools.cache
def scheduler_metrics() -> SchedulerMetrics:
    """The metrics of this process: counters go on where a scheduler is started again in it."""
    return SchedulerMetrics()


class FarmCollector(Collector):
    """Reads store and broker at each scrape. Where one does not answer it says so and leaves its gauges out."""

    def __init__(self, store: Store, broker: BrokerClient, beats: BeatWatch) -> None:
        self._store = store
        self._broker = broker
        self._beats = beats
        # Scrapes come from any number of threads; one reading at a time.
        self._lock = threading.Lock()

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: registering must not read the store."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            families: list[GaugeMetricFamily] = []
            try:
                with self._store.read() as connection:
                    families.extend(self._read(connection))
                answers = True
            except (CrbError, SQLAlchemyError):
                families, answers = [], False
            yield GaugeMetricFamily("crb_store_up", "Whether the store answered this scrape.", float(answers))
            yield from families
            lengths = self._broker.queue_lengths(QUEUES)
            yield GaugeMetricFamily(
                "crb_broker_up", "Whether the broker answered this scrape.", float(lengths is not None)
            )
            waiting = GaugeMetricFamily("crb_broker_messages", "Messages in the broker, by queue.", labels=["queue"])
            for queue, length in (lengths or {}).items():
                waiting.add_metric([queue], length)
            yield waiting

    def _read(self, connection: Connection) -> Iterator[GaugeMetricFamily]:
        yield self._steps(connection)
        yield self._oldest(connection)
        yield from self._workers(connection)
        yield from self._sweeps(connection)

    def _steps(self, connection: Connection) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "crb_steps",
            "Steps in the store by stage and state (ready, queued, running, failed).",
            labels=["stage", "state"],
        )
        counts = {
            (row.stage, row.state): row.n
            for row in connection.execute(
                select(steps.c.stage, steps.c.state, func.count().label("n"))
                .where(steps.c.state.in_([state.value for state in _COUNTED]))
                .group_by(steps.c.stage, steps.c.state)
            )
        }
        for stage in Stage:
            for state in _COUNTED:
                family.add_metric([stage.value, state.value], counts.get((stage.value, state.value), 0))
        return family

    def _oldest(self, connection: Connection) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "crb_oldest_queued_seconds", "Age of the oldest published step that nobody took.", labels=["stage"]
        )
        now = time.time()
        for row in connection.execute(
            select(steps.c.stage, func.min(steps.c.published_at).label("since"))
            .where(steps.c.state == StepState.QUEUED.value)
            .group_by(steps.c.stage)
        ):
            if row.since is not None:
                family.add_metric([row.stage], max(0.0, now - row.since))
        return family

    def _workers(self, connection: Connection) -> Iterator[GaugeMetricFamily]:
        rows = connection.execute(select(workers.c.name, workers.c.beat, workers.c.slots)).all()
        seen = self._beats.read((row.name, row.beat) for row in rows)
        names = {True: "alive", False: "silent", None: "unknown"}
        counted = GaugeMetricFamily(
            "crb_workers",
            "Registered workers: alive, silent for the lease, or unknown until the next scrape.",
            labels=["state"],
        )
        for alive, name in names.items():
            counted.add_metric([name], sum(state.alive is alive for state in seen.values()))
        yield counted
        slots: dict[str, int] = dict.fromkeys(QUEUES, 0)
        for row in rows:
            if seen[row.name].alive is not False:
                for queue, count in row.slots.items():
                    slots[queue] = slots.get(queue, 0) + int(count)
        family = GaugeMetricFamily("crb_slots", "Slots of the workers that are heard of, by queue.", labels=["queue"])
        for queue, count in slots.items():
            family.add_metric([queue], count)
        yield family

    def _sweeps(self, connection: Connection) -> Iterator[GaugeMetricFamily]:
        unfinished = connection.execute(
            select(sweeps.c.id)
            .where(sweeps.c.id.in_(select(steps.c.sweep_id).where(steps.c.state.in_(_OPEN)).distinct()))
            .order_by(sweeps.c.created_at.desc(), sweeps.c.id)
            .limit(SWEEPS_SHOWN)
        ).scalars()
        family = GaugeMetricFamily(
            "crb_trials",
            f"Trials of the {SWEEPS_SHOWN} latest unfinished sweeps by state.",
            labels=["sweep", "state"],
        )
        for sweep_id in unfinished.all():
            progress = read_progress(connection, sweep_id, failures=0)
            for state in TrialState:
                family.add_metric([progress.name, state.value], progress.by_state.get(state.value, 0))
        yield family
