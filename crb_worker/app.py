"""Celery configuration and queue names: the one module of the work side that the scheduler may import.

Every setting below is forced by a measurement in reference/celery.md: early acknowledgement, no prefetch, no ETA, no
result backend. A message carries a step id and nothing else; the store is the truth and the broker is disposable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from celery import Celery
from celery.app.events import Events
from celery.events import EventDispatcher
from kombu.exceptions import OperationalError

from crb_core.errors import UnavailableError
from crb_core.outages import Outage
from crb_core.store.tables import Stage

__all__ = ["NUDGE_KEY", "QUEUES", "BrokerClient", "check_broker", "make_app", "publish", "task_name"]

#: One queue a stage.
QUEUES = tuple(stage.value for stage in Stage)

#: List that wakes the dispatcher; its content means nothing and losing it costs a second.
NUDGE_KEY = "crb:nudge"

CONNECT_TIMEOUT_SECONDS = 5

#: Longest wait for the answer to one command. A broker that is stopped or cut off keeps its connections open, and
#: without a limit whoever asks it waits for ever (kombu's default).
ANSWER_TIMEOUT_SECONDS = 5

#: A waiting consumer whose broker is silent for this long connects anew (kombu's default is 25).
HEALTH_CHECK_SECONDS = 10

#: Kinds of broker URL that both Celery and our own client can use.
_SCHEMES = ("redis", "rediss", "redis+socket")


class _ImpatientDispatcher(EventDispatcher):  # type: ignore[misc]
    """Sends an event once, and keeps what a broker does not take for later.

    Celery tries a worker's heartbeat for Flower without end, in the thread that takes messages and heeds SIGTERM: while
    a broker hangs that thread would do nothing else.
    """

    def send(self, type: str, *, retry: bool = False, **named: Any) -> Any:  # noqa: A002, ARG002
        return super().send(type, retry=False, **named)


class _ImpatientEvents(Events):  # type: ignore[misc]
    dispatcher_cls = _ImpatientDispatcher


def make_app(broker_url: str, *, events: bool = True) -> Celery:
    """The Celery app of one farm. ``events`` are for Flower; a local run, which nobody else can watch, spares them."""
    app = Celery("crb", broker=broker_url, set_as_current=False, events=_ImpatientEvents)
    app.conf.update(
        task_acks_late=False,
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        task_reject_on_worker_lost=False,
        task_ignore_result=True,
        result_backend=None,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            # Else the broker keeps a copy of each message until it is acknowledged, which early acknowledgement does at
            # once: two more transactions a message, and a broker that hands messages out twice by itself. What a killed
            # worker had received is published again (crb_scheduler/dispatch.py).
            "ack_emulation": False,
            # One list a queue instead of four: there are no priorities.
            "priority_steps": [0],
            "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "socket_timeout": ANSWER_TIMEOUT_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": HEALTH_CHECK_SECONDS,
            # Of a connection that publishes: whoever publishes tries again by itself.
            "max_retries": 1,
            "interval_start": 0,
        },
        task_create_missing_queues=True,
        task_default_queue=Stage.REVIEW.value,
        task_serializer="json",
        accept_content=["json"],
        # For Flower.
        worker_send_task_events=events,
        task_send_sent_event=events,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        enable_utc=True,
    )
    return app


def task_name(stage: Stage) -> str:
    """The name under which a stage's task is registered and sent."""
    return f"crb.{stage.value}"


def publish(app: Celery, stage: Stage, step_id: int, *, fence: int, shown_as: str) -> None:
    """Send one step to its queue. ``shown_as`` is what Flower displays as the task's arguments.

    OperationalError (kombu) when the broker does not answer; the step stays queued and is published again.
    """
    app.send_task(
        task_name(stage),
        args=(step_id,),
        queue=stage.value,
        task_id=f"{stage.value}-{step_id}-{fence + 1}",
        argsrepr=shown_as,
        kwargsrepr="",
        # No ``shadow`` name: a worker counts its tasks by name, and Flower's metrics get a label for each.
        retry=False,
        ignore_result=True,
    )


T = TypeVar("T")


class BrokerClient:
    """The few Redis commands that are no task: nudges, and how long queues are.

    A broker that is away or hangs costs each command at most a connection's and an answer's time limit; the log says
    once that it is away and once that it is back.
    """

    def __init__(self, broker_url: str) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        url = broker_url.replace("redis+socket://", "unix://").replace("valkey://", "redis://")
        self._redis: Any = redis.Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
            socket_timeout=ANSWER_TIMEOUT_SECONDS,
            # A connection that the broker closed meanwhile is one more try, a silent broker is not.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._errors = (redis.RedisError, OSError)
        self._outage = Outage("broker")
        self._asked_last = float("-inf")

    @property
    def answers(self) -> bool:
        """Whether the broker answered the last command."""
        return not self._outage.is_on

    def nudge(self) -> None:
        """Wake the dispatcher; a broker that is away costs nothing but the second until the next poll."""
        # Whoever nudges has better things to do than to wait for a broker that was silent a moment ago.
        if self._outage.is_on and time.monotonic() - self._asked_last < ANSWER_TIMEOUT_SECONDS:
            return

        def push() -> None:
            with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.lpush(NUDGE_KEY, 1)
                pipeline.ltrim(NUDGE_KEY, 0, 9)
                pipeline.execute()

        self._ask(push)

    def wait_for_nudge(self, seconds: float) -> bool:
        """Wait until a nudge or until the time is over. True for a nudge; False when the broker is away."""
        started = time.monotonic()

        def pop() -> bool:
            if self._redis.brpop([NUDGE_KEY], timeout=seconds) is None:
                return False
            # Many nudges are one reason to look.
            self._redis.delete(NUDGE_KEY)
            return True

        nudged = self._ask(pop)
        if nudged is None:
            time.sleep(max(0.0, seconds - (time.monotonic() - started)))
        return bool(nudged)

    def queue_length(self, queue: str) -> int | None:
        """Messages that wait in a queue; None when the broker is away."""
        lengths = self.queue_lengths([queue])
        return None if lengths is None else lengths[queue]

    def queue_lengths(self, queues: Iterable[str]) -> dict[str, int] | None:
        """Messages that wait in each queue, in one round trip; None when the broker is away."""
        names = list(queues)

        def ask() -> dict[str, int]:
            with self._redis.pipeline(transaction=False) as pipeline:
                for name in names:
                    pipeline.llen(name)
                return {name: int(length) for name, length in zip(names, pipeline.execute(), strict=True)}

        return self._ask(ask)

    @property
    def redis(self) -> Any:
        """The client itself, for what has commands of its own (the judge's rate limit)."""
        return self._redis

    def close(self) -> None:
        self._redis.close()

    def _ask(self, command: Callable[[], T]) -> T | None:
        """What a command gives; None where the broker does not answer it."""
        try:
            answer = command()
        except self._errors as error:
            self._asked_last = time.monotonic()
            self._outage.failed(error)
            return None
        self._outage.answered()
        return answer


def check_broker(broker_url: str) -> None:
    """Raise UnavailableError when the broker does not answer within seconds, or is of a kind that crb cannot use."""
    scheme = broker_url.partition("://")[0] if "://" in broker_url else ""
    if scheme not in _SCHEMES:
        raise UnavailableError(
            f"The broker URL {_without_password(broker_url)} cannot be used: crb needs Redis or Valkey",
            remedy="Set CRB_BROKER_URL to a redis:// or rediss:// URL",
        )
    try:
        app = make_app(broker_url)
        with app.connection_for_write(connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=10)
    except (OperationalError, OSError) as error:
        raise UnavailableError(
            f"The broker {_without_password(broker_url)} does not answer: {error}",
            remedy="Start it, or correct CRB_BROKER_URL; without that setting crb starts its own for a local run",
        ) from None
    except (ValueError, KeyError, ImportError) as error:
        raise UnavailableError(
            f"The broker URL {_without_password(broker_url)} cannot be used: {error}",
            remedy="Set CRB_BROKER_URL to a redis:// or rediss:// URL",
        ) from None


def _without_password(url: str) -> str:
    from kombu.utils.url import maybe_sanitize_url

    return str(maybe_sanitize_url(url))
