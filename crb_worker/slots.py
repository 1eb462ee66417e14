"""How much a worker takes at once, changeable while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from crb_core.store.tables import Stage

__all__ = ["PREPARED_AHEAD", "ReviewGate", "threads_for"]

#: Reviews that a worker takes beyond those that its sandbox lets run.
PREPARED_AHEAD = 2


def threads_for(slots: Mapping[str, int]) -> int:
    """Messages that a worker with these slots (by queue name) takes from the broker at once.

    A review waits for the gate before it is taken; twice the slots keep judge steps from waiting behind it.
    """
    reviews = slots.get(Stage.REVIEW.value, 0)
    return max(1, 2 * reviews + sum(count for queue, count in slots.items() if queue != Stage.REVIEW.value))


class ReviewGate:
    """Lets ``slots`` reviews and a few more in: while those run, the next are prepared and earlier ones stored."""

    def __init__(self, slots: int) -> None:
        self._changed = threading.Condition()
        self._slots = slots
        self._inside = 0
        self._is_closed = False

    def resize(self, slots: int) -> None:
        """From now on so many; 0 turns away who waits. Who is inside stays."""
        with self._changed:
            self._slots = slots
            self._changed.notify_all()

    def close(self) -> None:
        """Turn away who waits and who comes: this worker is ending."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @contextmanager
    def entered(self) -> Iterator[bool]:
        """Waits until there is room. Gives False, at once, where no review is let in any more."""
        with self._changed:
            while self._is_open and self._inside >= self._slots + min(self._slots, PREPARED_AHEAD):
                self._changed.wait()
            is_admitted = self._is_open
            self._inside += is_admitted
        try:
            yield is_admitted
        finally:
            with self._changed:
                self._inside -= is_admitted
                self._changed.notify()

    @property
    def _is_open(self) -> bool:
        return self._slots > 0 and not self._is_closed
