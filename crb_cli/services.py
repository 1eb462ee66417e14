"""The farm's processes: worker, scheduler, Flower."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated

import typer

from crb_cli.home import hold_home, open_home
from crb_core.errors import InputError, SettingsError, UnavailableError
from crb_core.logs import configure_logs
from crb_core.settings import Settings, load_settings

__all__ = ["flower", "scheduler", "worker"]


def _broker_url(settings: Settings) -> str:
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
    slots: Annotated[int | None, typer.Option(help="Reviews at once; the number of cores by default.")] = None,
    judge_slots: Annotated[int | None, typer.Option(help="Judge steps at once in each of their queues.")] = None,
    lifeline: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Take steps from the queues and work on them until SIGTERM."""
    from crb_worker.app import QUEUES
    from crb_worker.main import run_worker

    settings = load_settings(review_slots=slots, judge_slots=judge_slots)
    for name in queue or ():
        if name not in QUEUES:
            raise InputError(f"There is no queue {name!r}", remedy=f"Choose from {', '.join(QUEUES)}")
    quiet = lifeline is not None
    broker_url = _broker_url(settings)
    home = open_home(settings)
    # The worker of a local run lives in the home that its parent holds.
    held = None if quiet else hold_home(home, alone=False)
    configure_logs(
        settings.log_level,
        file=home / "logs" / "worker.jsonl",
        terminal=None if quiet else sys.stderr,
    )
    run_worker(settings, broker_url, queues=queue or QUEUES, lifeline=lifeline)
    if held is not None:
        held.close()


def scheduler() -> None:
    """Dispatch steps to the queues and give back what is lost, until SIGTERM. Two of them are harmless."""
    from crb_core.store import open_store
    from crb_scheduler.loop import run_scheduler
    from crb_worker.app import check_broker, make_app

    settings = load_settings()
    broker_url = _broker_url(settings)
    home = open_home(settings)
    held = hold_home(home, alone=False)
    configure_logs(settings.log_level, file=home / "logs" / "scheduler.jsonl", terminal=sys.stderr)
    check_broker(broker_url)
    store = open_store(settings.resolved_store_url)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run_scheduler(store, make_app(broker_url), broker_url, settings, stop)
    store.close()
    held.close()


def flower(
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port on loopback.")] = 5555,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    user: Annotated[str, typer.Option(help="User name of the basic authentication.")] = "crb",
    password: Annotated[
        str | None, typer.Option(envvar="CRB_FLOWER_PASSWORD", help="Generated and printed when not given.")
    ] = None,
) -> None:
    """Watch tasks in Flower. It always asks for a password: without one its pages are open to everyone."""
    import secrets

    from crb_worker.app import check_broker, make_app

    settings = load_settings()
    broker_url = _broker_url(settings)
    check_broker(broker_url)
    for what, value, refused in (("user name", user, ":,"), ("password", password or "", ",")):
        if any(character in value for character in refused):
            raise InputError(f"Flower takes no {what} with one of {refused!r} in it", remedy="Choose another one")
    if not password:
        password = secrets.token_urlsafe(12)
        print(f"Flower: http://{address}:{port}  user {user}  password {password}", flush=True)
    _ask_for_the_password_everywhere()
    try:
        make_app(broker_url).start(
            [
                "flower",
                f"--address={address}",
                f"--port={port}",
                f"--basic_auth={user}:{password}",
                "--persistent=False",
                "--logging=warning",
            ]
        )
    except OSError as error:
        raise UnavailableError(
            f"Flower cannot listen on {address}:{port}: {error.strerror}", remedy="Choose another --port or --address"
        ) from None


def _ask_for_the_password_everywhere() -> None:
    """Flower leaves its metrics open, and they name workers and tasks. (Its health check says OK and nothing else.)"""
    from flower.views.monitor import Metrics
    from tornado.web import authenticated

    Metrics.get = authenticated(Metrics.get)
