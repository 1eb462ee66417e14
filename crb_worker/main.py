"""One worker process: a Celery consumer on some of the four queues, a watcher thread, and slots."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from celery import signals
from celery.exceptions import SecurityWarning
from sqlalchemy import update

from crb_core.errors import CrbError
from crb_core.settings import MAX_SLOTS, Settings
from crb_core.store import open_store
from crb_core.store.tables import Stage, WorkerRow, core
from crb_core.store.workers import register_worker, unregister_worker
from crb_worker.app import QUEUES, check_broker, make_app
from crb_worker.context import WorkerContext
from crb_worker.sandbox.egress_options import require_free_subnets, too_few_lanes
from crb_worker.slots import threads_for
from crb_worker.tasks import register_tasks

__all__ = ["run_worker"]

log = structlog.get_logger(__name__)
workers = core(WorkerRow)


def run_worker(
    settings: Settings, broker_url: str, *, queues: Sequence[str] = QUEUES, lifeline: int | None = None
) -> None:
    """Work until SIGTERM (which lets running steps finish).

    ``lifeline`` is a file descriptor that ends when the parent does; the worker then leaves at once, without waiting,
    because a parent that was killed cannot be asked.
    """
    # Celery warns root of pickled messages; ours are JSON and hold a number.
    warnings.simplefilter("ignore", SecurityWarning)
    check_broker(broker_url)
    store = open_store(settings.resolved_store_url)
    host = socket.gethostname()
    # Random, so that two workers with the same host name and pid (containers) are never one.
    name = f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
    review_slots = settings.resolved_review_slots if Stage.REVIEW.value in queues else 0
    if review_slots:
        require_free_subnets(settings)
    judges = [queue for queue in queues if queue != Stage.REVIEW.value]
    slots = dict.fromkeys(judges, settings.judge_slots) | ({Stage.REVIEW.value: review_slots} if review_slots else {})

    def register(wanted_slots: dict[str, int] | None = None) -> None:
        with store.write() as connection:
            register_worker(connection, name, host=host, pid=os.getpid(), slots=slots, wanted_slots=wanted_slots)

    context = WorkerContext(
        settings, store, broker_url, name, max(review_slots, 1), register, waits_for_engine=lifeline is None
    )
    app = make_app(broker_url, events=lifeline is None)
    register_tasks(app, context)
    if lifeline is not None:
        threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    register()
    log.info("worker_started", worker=name, slots=slots)
    if problem := too_few_lanes(settings, review_slots):
        log.warning("few_networks_for_agents", problem=problem)
    context.metrics.set_slots(slots)
    context.watcher.start()
    context.nudge()
    try:
        worker = app.Worker(
            hostname=f"crb@{name}",
            pool="threads",
            # What the pool can grow to. Threads are started as they are needed; how many messages are taken at once
            # is the pool's limit, which follows the slots.
            concurrency=threads_for(dict.fromkeys(queues, MAX_SLOTS)),
            queues=list(queues),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=lifeline is not None,
            loglevel=settings.log_level.upper(),
            quiet=True,
        )
        worker.pool.limit = threads_for(slots)
        context.watcher.follow_orders(partial(_follow_orders, context, worker, dict(slots), slots))
        # Reviews that wait for their turn are handed back instead of begun.
        signals.worker_shutting_down.connect(lambda **_: context.end(), weak=False)
        worker.start()
    finally:
        # First, or it would register this worker anew.
        context.watcher.close()
        try:
            with store.write() as connection:
                unregister_worker(connection, name)
        except CrbError as error:
            log.warning("store_away", error=str(error))
        context.close()
        store.close()
        log.info("worker_stopped", worker=name)


def _follow_orders(
    context: WorkerContext,
    worker: Any,
    started: Mapping[str, int],
    slots: dict[str, int],
    wanted: Mapping[str, int] | None,
    pause: str | None,
) -> None:
    """Follow an operator, and take no reviews while the disk is low or the engine away.

    ``started`` are the slots of the start, ``slots`` those in force; what runs is left to end.
    """
    context.status.take_no_reviews(pause)
    if pause is not None and Stage.REVIEW.value in started:
        log.warning("reviews_paused", reason=pause)
    before = dict(slots)
    after = {queue: (wanted or {}).get(queue, count) for queue, count in started.items()}
    if pause is not None and Stage.REVIEW.value in after:
        after[Stage.REVIEW.value] = 0
    if after == before:
        return
    with context.store.write() as connection:
        connection.execute(update(workers).where(workers.c.name == context.worker).values(slots=after))
    slots.update(after)
    context.metrics.set_slots(after)
    worker.pool.limit = threads_for(after)
    reviews = after.get(Stage.REVIEW.value)
    if reviews is not None and reviews != before[Stage.REVIEW.value]:
        context.resize_reviews(reviews)
        # With none of its own, this worker must not take messages that another one has room for.
        consume = worker.consumer.add_task_queue if reviews else worker.consumer.cancel_task_queue
        worker.consumer.call_soon(consume, Stage.REVIEW.value)
    log.info("slots_changed", before=before, slots=after)
    context.nudge()


def _leave_with_parent(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os._exit(1)
