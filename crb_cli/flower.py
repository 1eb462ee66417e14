"""``crb flower``: Celery's own view of the queues, behind a password, on loopback, and for looking only."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from crb_cli.services import broker_url_of
from crb_core.errors import InputError, UnavailableError
from crb_core.settings import load_settings

__all__ = ["flower"]

#: Tasks kept in memory: about 2 kB each.
TASKS_KEPT = 20_000
#: Seconds after which a worker that is gone is forgotten; each start of a worker is a new name.
FORGET_WORKERS_SECONDS = 3600
#: What a task is shown by: the agent, pull request and round are its arguments.
COLUMNS = "name,args,state,received,started,runtime,worker,uuid"


def flower(
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port.")] = 5555,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    user: Annotated[str, typer.Option(help="User name of the basic authentication.")] = "crb",
    password: Annotated[
        str | None, typer.Option(envvar="CRB_FLOWER_PASSWORD", help="Generated and printed when not given.")
    ] = None,
    allow_control: Annotated[
        bool,
        typer.Option("--allow-control", help="Let its users revoke tasks and stop workers; crb records none of it."),
    ] = False,
) -> None:
    """Watch tasks in Flower. It always asks for a password: without one its pages are open to everyone."""
    import secrets

    from crb_worker.app import check_broker, make_app

    settings = load_settings()
    broker_url = broker_url_of(settings)
    check_broker(broker_url)
    _require_usable("user name", user, refused=":,")
    if password:
        _require_usable("password", password, refused=",")
    else:
        password = secrets.token_urlsafe(12)
        shown = f"[{address}]" if ":" in address else address
        print(f"Flower: http://{shown}:{port}  user {user}  password {password}", flush=True)
    _ask_for_the_password_everywhere()
    try:
        make_app(broker_url).start(
            [
                "flower",
                f"--address={address}",
                f"--port={port}",
                f"--basic_auth={user}:{password}",
                f"--read_only={not allow_control}",
                f"--tasks_columns={COLUMNS}",
                f"--max_tasks={TASKS_KEPT}",
                f"--purge_offline_workers={FORGET_WORKERS_SECONDS}",
                "--persistent=False",
                "--logging=warning",
                # Neither its variables nor a flowerconfig.py in this folder may open another door.
                f"--conf={os.devnull}",
                "--unix_socket=",
                "--debug=False",
            ]
        )
    except OSError as error:
        raise UnavailableError(
            f"Flower cannot listen on {address}:{port}: {error.strerror}", remedy="Choose another --port or --address"
        ) from None


def _require_usable(what: str, value: str, *, refused: str) -> None:
    if not value or any(character in refused or not " " <= character <= "~" for character in value):
        raise InputError(
            f"Flower takes no {what} that is empty, has one of {refused!r} in it, or is not plain ASCII",
            remedy="Choose another one",
        )


def _ask_for_the_password_everywhere() -> None:
    """Flower leaves its metrics open, and they name workers and tasks. (Its health check says OK and nothing else.)"""
    from flower.views import BaseHandler
    from flower.views.monitor import Metrics
    from tornado.web import HTTPError, authenticated

    Metrics.get = authenticated(Metrics.get)
    current_user = BaseHandler.get_current_user

    def get_current_user(self: Any) -> Any:
        try:
            return current_user(self)
        except TypeError:
            # It compares credentials that are not ASCII by a function that takes none.
            raise HTTPError(401) from None

    BaseHandler.get_current_user = get_current_user
