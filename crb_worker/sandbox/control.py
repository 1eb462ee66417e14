"""The running attempts of a process, and how another thread ends one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from crb_core.agent import Outcome
from crb_core.errors import InputError
from crb_worker.sandbox.contract import STOP_OUTCOMES, AttemptRequest, LiveAttempts

__all__ = ["Control", "Permits", "Registry", "RunSlots", "Stop"]

_STOP_SENTENCES = {
    Outcome.TIMEOUT: "The farm ended the attempt because its time was over.",
    Outcome.CANCELLED: "The attempt was cancelled.",
    Outcome.LOST: "The worker lost its hold on the attempt and ended it.",
}


@dataclass(frozen=True)
class Stop:
    """Why the farm itself ended an attempt."""

    outcome: Outcome
    detail: str


class Control:
    """The stop flag of one attempt, and the way to kill what runs once there is something to kill."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Stop | None = None
        self._kill: Callable[[], None] | None = None

    @property
    def stopped(self) -> Stop | None:
        return self._stop

    def arm(self, kill: Callable[[], None]) -> None:
        """From now on ``kill`` ends the agent; it is called at once if a stop came first."""
        with self._lock:
            self._kill = kill
            if self._stop is not None:
                kill()

    def disarm(self) -> None:
        """Nothing is left to kill. When this returns, ``kill`` is not running and will not be called again."""
        with self._lock:
            self._kill = None

    def stop(self, outcome: Outcome, detail: str) -> None:
        """The first stop decides the outcome; later ones only kill again."""
        with self._lock:
            if self._stop is None:
                self._stop = Stop(outcome, detail)
            if self._kill is not None:
                self._kill()


class Permits:
    """How many containers the engine starts at the same time, and how many it creates ahead of their slots.

    More only makes each start slower, and its time is part of ``review_ms``. Those that are created ahead never keep
    one waiting whose slot is free.
    """

    def __init__(self, count: int) -> None:
        self.start = threading.BoundedSemaphore(count)
        self.create = threading.BoundedSemaphore((count + 1) // 2)


#: How soon an attempt that waits for a slot notices that it was stopped.
STOP_LOOK_SECONDS = 0.25


class RunSlots:
    """At most ``count`` agents run at once. An attempt is prepared before it waits here and collected after it left,

    so that the host is not idle between two agents, and never runs more of them than it has slots for.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._running = 0
        self._changed = threading.Condition()

    def resize(self, count: int) -> None:
        """Change how many agents run at once, at least one. Where more run already, they are left to end."""
        with self._changed:
            self._count = max(count, 1)
            self._changed.notify_all()

    @contextmanager
    def running(self, control: Control) -> Iterator[int]:
        """Waits for a slot and gives how many agents run then, this one included.

        An attempt that was stopped does not wait: its agent will not be started.
        """
        with self._changed:
            while self._running >= self._count and control.stopped is None:
                self._changed.wait(STOP_LOOK_SECONDS)
            self._running += 1
            running = self._running
        try:
            yield running
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify()


class Registry:
    """The attempts that run in this process, by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Control] = {}

    @contextmanager
    def running(self, request: AttemptRequest) -> Iterator[Control]:
        """Registers the attempt while it runs; InputError if it already does."""
        control = Control()
        with self._lock:
            if request.attempt_id in self._running:
                raise InputError(f"attempt {request.attempt_id} already runs in this process")
            self._running[request.attempt_id] = control
        try:
            yield control
        finally:
            with self._lock:
                del self._running[request.attempt_id]

    def live(self, attempt_ids: LiveAttempts) -> frozenset[str]:
        """``attempt_ids`` and those that run in this process."""
        others = attempt_ids() if callable(attempt_ids) else attempt_ids
        with self._lock:
            return frozenset(others) | self._running.keys()

    def stop(self, attempt_id: str, outcome: Outcome) -> bool:
        """See ``Sandbox.stop``."""
        if outcome not in STOP_OUTCOMES:
            raise InputError(f"an attempt cannot be stopped as {outcome}")
        with self._lock:
            control = self._running.get(attempt_id)
        if control is None:
            return False
        control.stop(outcome, _STOP_SENTENCES[outcome])
        return True
