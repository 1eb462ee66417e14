"""One at a time, and a store that hangs costs everybody who waits for a turn the one wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from crb_core.errors import StoreError

__all__ = ["Turns"]


class Turns:
    """A lock around readings of the store. A StoreError is also that of all who were waiting when it came.

    Otherwise each of them would wait for the silent server in its turn, one after the other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed = float("-inf")
        self._error: StoreError | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Its body is run by nobody else meanwhile. StoreError of the turn before, where that came in the meantime."""
        asked = time.monotonic()
        with self._lock:
            if self._error is not None and self._failed >= asked:
                raise StoreError(self._error.problem, where=self._error.where, remedy=self._error.remedy)
            self._error = None
            try:
                yield
            except StoreError as error:
                self._error, self._failed = error, time.monotonic()
                raise
