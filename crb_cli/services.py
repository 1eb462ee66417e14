"""The farm's processes: worker and scheduler."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from crb_cli.home import hold_home, open_home
from crb_core.errors import SettingsError, UsageError
from crb_core.logs import configure_logs
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["broker_url_of", "metrics_served", "scheduler", "worker"]


MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Serve metrics for Prometheus from this port on (0: any free one); by default none."
    ),
]


@contextmanager
def metrics_served(settings: Settings, process: str, registry: CollectorRegistry, home: Path) -> Iterator[None]:
    """Serve a process's metrics while it works, where a port is set."""
    if settings.metrics_port is None:
        yield
        return
    from crb_core.telemetry import MetricsServer

    with MetricsServer(
        registry,
        process=process,
        address=settings.metrics_address,
        port=settings.metrics_port,
        folder=home / "metrics",
    ) as server:
        structlog.get_logger(__name__).info("metrics_served", url=server.url)
        yield


def broker_url_of(settings: Settings) -> str:
    if settings.broker_url is None:
        raise SettingsError(
            "No broker is set, so this process would have nobody to talk to",
            remedy="Set CRB_BROKER_URL; for a run on this machine alone use `crb sweep start` or `crb demo`",
        )
    return settings.broker_url


def worker(
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Queue to work on (repeatable); all four by default.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", "--review-slots", help="Reviews at once; the number of cores by default.")
    ] = None,
    judge_slots: Annotated[int | None, typer.Option(help="Judge steps at once in each of their queues.")] = None,
    metrics_port: MetricsPort = None,
    lifeline: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Take steps from the queues and work on them until SIGTERM."""
    from crb_worker.app import QUEUES
    from crb_worker.main import run_worker
    from crb_worker.metrics import worker_metrics

    settings = load_settings(review_slots=slots, judge_slots=judge_slots, metrics_port=metrics_port)
    for name in queue or ():
        if name not in QUEUES:
            raise UsageError(f"There is no queue {name!r}", remedy=f"Choose from {', '.join(QUEUES)}")
    quiet = lifeline is not None
    broker_url = broker_url_of(settings)
    home = open_home(settings)
    # The worker of a local run lives in the home that its parent holds.
    held = None if quiet else hold_home(home, alone=False)
    configure_logs(
        settings.log_level,
        file=home / "logs" / "worker.jsonl",
        terminal=None if quiet else sys.stderr,
    )
    # Until Celery has handlers of its own, a stop unwinds and tidies up instead of killing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with metrics_served(settings, "worker", worker_metrics().registry, home):
        run_worker(settings, broker_url, queues=queue or QUEUES, lifeline=lifeline)
    if held is not None:
        held.close()


def scheduler(metrics_port: MetricsPort = None) -> None:
    """Dispatch steps to the queues and give back what is lost, until SIGTERM. Two of them are harmless."""
    from crb_core.store import open_store
    from crb_scheduler.loop import run_scheduler
    from crb_scheduler.metrics import scheduler_metrics
    from crb_worker.app import check_broker, make_app

    settings = load_settings(metrics_port=metrics_port)
    broker_url = broker_url_of(settings)
    home = open_home(settings)
    held = hold_home(home, alone=False)
    configure_logs(settings.log_level, file=home / "logs" / "scheduler.jsonl", terminal=sys.stderr)
    check_broker(broker_url)
    store = open_store(settings.resolved_store_url)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    metrics = scheduler_metrics()
    with metrics_served(settings, "scheduler", metrics.registry, home):
        run_scheduler(store, make_app(broker_url), broker_url, settings, stop, metrics=metrics)
    store.close()
    held.close()
