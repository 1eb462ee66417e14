"""Stopping a review, at whatever moment of it the order comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from crb_core.agent import Outcome
from crb_worker.sandbox.contract import Sandbox

__all__ = ["Stops"]

#: Between two tries to stop an attempt that its sandbox is about to know.
_AGAIN_SECONDS = 0.05


class Stops:
    """The stop of one attempt. It is told once, and holds before, while and after the sandbox knows the attempt."""

    def __init__(self, attempt_id: str) -> None:
        self._attempt_id = attempt_id
        self._sandbox: Sandbox | None = None
        self._is_over = threading.Event()
        #: Why the attempt is to be stopped, once it is.
        self.outcome: Outcome | None = None

    def stop(self, outcome: Outcome) -> None:
        """End the attempt, from any thread; the first outcome counts."""
        if self.outcome is None:
            self.outcome = outcome
        # A sandbox knows an attempt from some moment of ``run`` on, and forgets a stop that comes earlier.
        while self._sandbox is not None and not self._is_over.is_set():
            if self._sandbox.stop(self._attempt_id, self.outcome):
                return
            self._is_over.wait(_AGAIN_SECONDS)

    @contextmanager
    def reaching(self, sandbox: Sandbox) -> Iterator[None]:
        """Within it stops reach the attempt's ``run``. Who enters asks for ``outcome`` before it begins that."""
        self._sandbox = sandbox
        try:
            yield
        finally:
            self._is_over.set()
