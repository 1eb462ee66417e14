"""One worker process: a Celery consumer on some of the four queues, a watcher thread, and slots."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import warnings
from collections.abc import Sequence

import structlog
from celery.exceptions import SecurityWarning
from sqlalchemy import delete, insert

from crb_core.clock import utc_now
from crb_core.errors import CrbError
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.tables import Stage, WorkerRow, core
from crb_worker.app import QUEUES, check_broker, make_app
from crb_worker.context import WorkerContext
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
    judges = [queue for queue in queues if queue != Stage.REVIEW.value]
    slots = dict.fromkeys(judges, settings.judge_slots) | ({Stage.REVIEW.value: review_slots} if review_slots else {})
    context = WorkerContext(settings, store, broker_url, name, max(review_slots, 1))
    app = make_app(broker_url, events=lifeline is None)
    register_tasks(app, context)
    if lifeline is not None:
        threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    with store.write() as connection:
        connection.execute(
            insert(workers).values(name=name, host=host, pid=os.getpid(), beat=0, slots=slots, started_at=utc_now())
        )
    context.watcher.start()
    log.info("worker_started", worker=name, slots=slots)
    context.nudge()
    try:
        # A review waits for its slot before it is taken; twice the slots keep judge steps from waiting behind it.
        threads = 2 * review_slots + settings.judge_slots * len(judges)
        worker = app.Worker(
            hostname=f"crb@{name}",
            pool="threads",
            concurrency=threads,
            queues=list(queues),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=lifeline is not None,
            loglevel=settings.log_level.upper(),
            quiet=True,
        )
        worker.start()
    finally:
        try:
            with store.write() as connection:
                connection.execute(delete(workers).where(workers.c.name == name))
        except CrbError as error:
            log.warning("store_away", error=str(error))
        context.close()
        store.close()
        log.info("worker_stopped", worker=name)


def _leave_with_parent(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os._exit(1)
