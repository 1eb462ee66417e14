"""The scheduler's loop: dispatch on every nudge or second, reconcile every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from celery import Celery

from crb_core.errors import CrbError, UnavailableError
from crb_core.outages import Outage
from crb_core.settings import Settings
from crb_core.store import Store
from crb_core.store.steps import AttemptLimits
from crb_scheduler.dispatch import Dispatcher, LiveSlots
from crb_scheduler.forget import SilentWorkers
from crb_scheduler.metrics import SchedulerMetrics
from crb_scheduler.reconcile import Reconciler
from crb_worker.app import BrokerClient

__all__ = ["run_scheduler"]

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
RECONCILE_SECONDS = 2.0
#: Between two looks at the store where nudges come one after another: they are one reason to look.
GATHER_SECONDS = 0.1
#: Between two looks for workers that are silent for so long that they are forgotten.
SILENT_SECONDS = 30.0


def run_scheduler(
    store: Store,
    app: Celery,
    broker_url: str,
    settings: Settings,
    stop: threading.Event,
    note: Callable[[CrbError | None], object] = lambda _: None,
    metrics: SchedulerMetrics | None = None,
) -> None:
    """Work until ``stop`` is set. A store or broker that is away is waited for, never a reason to end.

    ``note`` is called after every turn with what went wrong in it, None for nothing. ``metrics`` counts the turns and
    is told what to read at a scrape.
    """
    broker = BrokerClient(broker_url)
    metrics = metrics or SchedulerMetrics()
    metrics.watch_farm(store, broker, settings.lease_seconds)
    dispatcher = Dispatcher(store, app, broker, LiveSlots(settings.lease_seconds))
    limits = AttemptLimits(agent=settings.agent_attempts, farm=settings.farm_attempts)
    reconciler = Reconciler(store, limits, settings.lease_seconds)
    silent = SilentWorkers(store, lease_seconds=settings.lease_seconds, forget_seconds=settings.forget_worker_seconds)
    store_outage = Outage("store")
    failures = 0
    filled = reconciled = looked_for_silent = float("-inf")
    log.info("scheduler_started")
    try:
        while not stop.is_set():
            try:
                # What cannot be published now stays ready, where it can still be paused and cancelled at once.
                if broker.answers:
                    filled = time.monotonic()
                    with metrics.dispatch.time():
                        metrics.published.inc(dispatcher.fill())
                if time.monotonic() - reconciled >= RECONCILE_SECONDS:
                    metrics.lost.inc(reconciler.tick())
                    reconciled = time.monotonic()
                if time.monotonic() - looked_for_silent >= SILENT_SECONDS:
                    silent.tick()
                    looked_for_silent = time.monotonic()
            except CrbError as error:
                failures += 1
                store_outage.failed(error)
                note(error)
                metrics.store_away.note(answered=False)
                stop.wait(Outage.wait_seconds(failures))
                continue
            failures = 0
            store_outage.answered()
            metrics.store_away.note(answered=True)
            nudged = broker.wait_for_nudge(POLL_SECONDS)
            note(None if broker.answers else _silent_broker())
            metrics.broker_away.note(answered=broker.answers)
            if nudged:
                # After a pause at once. Queues hold a step a slot in reserve, so that a short wait costs nothing.
                stop.wait(max(0.0, filled + GATHER_SECONDS - time.monotonic()))
    finally:
        metrics.leave_farm()
        broker.close()
        log.info("scheduler_stopped")


def _silent_broker() -> UnavailableError:
    return UnavailableError(
        "The broker does not answer", remedy="Start the command again; what is finished is kept in the store"
    )
