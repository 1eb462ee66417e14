"""Work in the background that steps aside while somebody waits for an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Priority"]

#: Seconds that a piece of background work waits at most, so that it ends under any load.
LONGEST_WAIT = 0.1


class Priority:
    """Counts the answers that are being made; background work asks ``give_way`` between its pieces."""

    def __init__(self, longest_wait: float = LONGEST_WAIT) -> None:
        self._longest_wait = longest_wait
        self._changed = threading.Condition()
        self._answers = 0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While an answer is computed that somebody waits for."""
        with self._changed:
            self._answers += 1
        try:
            yield
        finally:
            with self._changed:
                self._answers -= 1
                self._changed.notify_all()

    def give_way(self) -> None:
        """Return when no answer is being made, or after the longest wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self._answers, timeout=self._longest_wait)
