"""Whether the broker answers, for whoever shows a sweep: without it nothing is taken, and the store does not know."""

from __future__ import annotations

import threading
import time

__all__ = ["BrokerWatch"]

#: Between two questions, however often somebody looks.
ASK_SECONDS = 5.0
_SILENT = "The broker does not answer; nothing new is taken until it does"


class BrokerWatch:
    """Asks in a thread of its own, so that a broker that hangs keeps no reading back; none is left in between."""

    def __init__(self, broker_url: str) -> None:
        self._url = broker_url
        self._lock = threading.Lock()
        self._asks = False
        self._asked = float("-inf")
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """A sentence where the broker did not answer when it was asked last; None before it was asked."""
        with self._lock:
            if not self._asks and time.monotonic() - self._asked >= ASK_SECONDS:
                self._asks = True
                threading.Thread(target=self._ask, name="crb-broker-watch", daemon=True).start()
            return self._problem

    def ask(self) -> str | None:
        """The same, asked now: it takes as long as a broker that hangs is waited for, some seconds."""
        self._ask()
        return self._problem

    def _ask(self) -> None:
        problem = _problem(self._url)
        with self._lock:
            self._problem, self._asked, self._asks = problem, time.monotonic(), False


def _problem(url: str) -> str | None:
    # Celery comes with it, which is dear for who only looks.
    import redis

    from crb_worker.app import BrokerClient

    try:
        client = BrokerClient(url)
    except ValueError as error:
        return f"The broker URL cannot be used: {error}"
    try:
        client.redis.ping()
    except (redis.RedisError, OSError):
        return _SILENT
    finally:
        client.close()
    return None
