"""Celery configuration and queue names: the one module of the work side that the scheduler may import.

Every setting below is forced by a measurement in reference/celery.md: early acknowledgement, no prefetch, no ETA, no
result backend. A message carries a step id and nothing else; the store is the truth and the broker is disposable.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from crb_core.errors import UnavailableError
from crb_core.store.tables import Stage

__all__ = ["NUDGE_KEY", "QUEUES", "BrokerClient", "check_broker", "make_app", "publish", "task_name"]

#: One queue a stage.
QUEUES = tuple(stage.value for stage in Stage)

#: List that wakes the dispatcher; its content means nothing and losing it costs a second.
NUDGE_KEY = "crb:nudge"

#: Above the longest step, so that a broker never hands out a message twice by itself.
VISIBILITY_TIMEOUT_SECONDS = 7200

CONNECT_TIMEOUT_SECONDS = 5

#: Kinds of broker URL that both Celery and our own client can use.
_SCHEMES = ("redis", "rediss", "redis+socket")


def make_app(broker_url: str, *, events: bool = True) -> Celery:
    """The Celery app of one farm. ``events`` are for Flower; a local run, which nobody else can watch, spares them."""
    app = Celery("crb", broker=broker_url, set_as_current=False)
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
            "visibility_timeout": VISIBILITY_TIMEOUT_SECONDS,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
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


class BrokerClient:
    """The few Redis commands that are no task: nudges, and how long a queue is."""

    def __init__(self, broker_url: str) -> None:
        import redis

        url = broker_url.replace("redis+socket://", "unix://").replace("valkey://", "redis://")
        self._redis: Any = redis.Redis.from_url(url, socket_connect_timeout=CONNECT_TIMEOUT_SECONDS)
        self._errors = (redis.RedisError, OSError)
        #: Whether the broker answered the last command.
        self.answers = True

    def nudge(self) -> None:
        """Wake the dispatcher; a broker that is away costs nothing but the second until the next poll."""
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.lpush(NUDGE_KEY, 1)
                pipeline.ltrim(NUDGE_KEY, 0, 9)
                pipeline.execute()
        except self._errors:
            self.answers = False
            return
        self.answers = True

    def wait_for_nudge(self, seconds: float) -> bool:
        """Wait until a nudge or until the time is over. True for a nudge; False when the broker is away."""
        import time

        started = time.monotonic()
        try:
            nudged = self._redis.brpop([NUDGE_KEY], timeout=seconds) is not None
            self.answers = True
            if not nudged:
                return False
            # Many nudges are one reason to look.
            self._redis.delete(NUDGE_KEY)
        except self._errors:
            self.answers = False
            time.sleep(max(0.0, seconds - (time.monotonic() - started)))
            return False
        return True

    def queue_length(self, queue: str) -> int | None:
        """Messages that wait in a queue; None when the broker is away."""
        try:
            return int(self._redis.llen(queue))
        except self._errors:
            return None

    @property
    def redis(self) -> Any:
        """The client itself, for what has commands of its own (the judge's rate limit)."""
        return self._redis

    def close(self) -> None:
        self._redis.close()


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
