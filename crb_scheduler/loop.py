"""The scheduler's loop: dispatch on every nudge or second, reconcile every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from celery import Celery

from crb_core.errors import CrbError
from crb_core.settings import Settings
from crb_core.store import Store
from crb_core.store.steps import AttemptLimits
from crb_scheduler.dispatch import Dispatcher, LiveSlots
from crb_scheduler.metrics import SchedulerMetrics
from crb_scheduler.reconcile import Reconciler
from crb_worker.app import BrokerClient

__all__ = ["run_scheduler"]

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
RECONCILE_SECONDS = 2.0
GATHER_SECONDS = 0.05


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
    reconciled = float("-inf")
    log.info("scheduler_started")
    try:
        while not stop.is_set():
            try:
                with metrics.dispatch.time():
                    metrics.published.inc(dispatcher.fill())
                if time.monotonic() - reconciled >= RECONCILE_SECONDS:
                    metrics.lost.inc(reconciler.tick())
                    reconciled = time.monotonic()
            except CrbError as error:
                log.warning("store_away", error=str(error))
                note(error)
                metrics.store_away.note(answered=False)
                stop.wait(POLL_SECONDS)
                continue
            note(None)
            metrics.store_away.note(answered=True)
            nudged = broker.wait_for_nudge(POLL_SECONDS)
            metrics.broker_away.note(answered=broker.answers)
            if nudged:
                # Queues hold a step a slot in reserve, so a short wait costs nothing and turns many nudges into one.
                stop.wait(GATHER_SECONDS)
    finally:
        broker.close()
        log.info("scheduler_stopped")
