"""Reviews pause while the engine of a worker is away: each that it took would fail, one after the other."""

from __future__ import annotations

import threading
import time

__all__ = ["EngineWatch"]

#: Between two questions.
ASK_SECONDS = 5.0
#: How long the engine may take to answer one.
ANSWER_SECONDS = 5


class EngineWatch:
    """Says why no review may start, once a review here needed the Docker engine: it does not answer.

    It is asked in a thread of its own, so that an engine that hangs keeps nothing else waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_needed = False
        self._asks = False
        self._asked = float("-inf")
        self._reason: str | None = None

    def need(self) -> None:
        """A review needs the engine: it is watched from now on."""
        self._is_needed = True

    def reason(self) -> str | None:
        """Why reviews pause, for people; None while the engine answers, and before anything needed it."""
        if not self._is_needed:
            return None
        with self._lock:
            if not self._asks and time.monotonic() - self._asked >= ASK_SECONDS:
                self._asks = True
                threading.Thread(target=self._ask, name="crb-engine-watch", daemon=True).start()
            return self._reason

    def _ask(self) -> None:
        reason = _problem()
        with self._lock:
            self._reason, self._asked, self._asks = reason, time.monotonic(), False


def _problem() -> str | None:
    import docker.errors
    import requests

    from crb_worker.sandbox.connection import connect

    try:
        api = connect(timeout=ANSWER_SECONDS, connections=1)
        try:
            api.ping()
        finally:
            api.close()
    except (docker.errors.DockerException, requests.RequestException, OSError):
        return "The Docker engine does not answer; start it, and reviews go on by themselves"
    return None
