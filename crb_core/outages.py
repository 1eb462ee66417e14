"""Services that do not answer: said once, now and then while it lasts, and when they are back; how long to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

__all__ = ["Outage"]

log = structlog.get_logger(__name__)

#: First wait before a service is tried again; it doubles with each failure.
FIRST_WAIT_SECONDS = 0.5
#: Longest wait: what waits for a service goes on at most this long after its return.
LONGEST_WAIT_SECONDS = 5.0
#: While a service stays away the log says so this often.
REMIND_SECONDS = 60.0


class Outage:
    """What a process knows of one service that may be away, shared by all its threads.

    However many threads fail and however often, the log gets one line at the first failure (``<service>_away``), one a
    minute while it lasts, and one at the first answer (``<service>_back``, with the seconds between).
    """

    def __init__(self, service: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the service gave no answer when it was asked last."""
        return self._since is not None

    def failed(self, error: object) -> None:
        """The service gave no answer, for the reason ``error``."""
        now = self._clock()
        with self._lock:
            if self._since is None:
                self._since = now
            elif now - self._said < REMIND_SECONDS:
                return
            self._said = now
            seconds = round(now - self._since)
        log.warning(f"{self._service}_away", error=str(error), seconds=seconds)

    def answered(self) -> None:
        """The service answered."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning(f"{self._service}_back", seconds=round(self._clock() - since))

    @staticmethod
    def wait_seconds(failures: int) -> float:
        """How long to wait after so many failures in a row, from 1: half a second, doubling, five seconds at most."""
        return min(FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_WAIT_SECONDS)
