"""One watcher thread a worker: raises the beats of all steps that it holds and stops what must not run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from crb_core.agent import Outcome
from crb_core.errors import CrbError, StoreError
from crb_core.outages import Outage
from crb_core.store import Store
from crb_core.store.steps import TakenStep, beat, look

__all__ = ["STOP_WITHOUT_BEAT_SECONDS", "Watcher"]

log = structlog.get_logger(__name__)

#: Between two looks at what people want: cancelled steps, other slots. A look is one cheap read.
LOOK_SECONDS = 1.0
#: Containers that are ended at the same time, and how long a beat waits for them.
STOPS_AT_ONCE = 8
STOP_PATIENCE_SECONDS = 2.0
#: A worker that cannot beat for this long stops its containers: the reconciler is about to give their steps away.
STOP_WITHOUT_BEAT_SECONDS = 20.0

Stopper = Callable[[Outcome], object]


@dataclass
class _Held:
    step: TakenStep
    stop: Stopper | None
    #: By the watcher's clock.
    since: float
    stopped: bool = False


class Watcher:
    """Beats every ``beat_seconds``, and looks every second at what people want of this worker.

    ``housekeeping`` is called every ``housekeeping_seconds``, ``register``, with the slots that were asked of
    it last, where this worker was taken for dead and forgotten. ``outage`` is what this process knows of the store.
    """

    def __init__(
        self,
        store: Store,
        worker: str,
        beat_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        housekeeping: Callable[[], object] | None = None,
        housekeeping_seconds: float = 60.0,
        status: Callable[[], dict[str, Any]] | None = None,
        note_store: Callable[[bool], object] = lambda _: None,
        outage: Outage | None = None,
        register: Callable[[dict[str, int] | None], object] = lambda _: None,
        review_pause: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._interval = beat_seconds
        self._clock = clock
        self._housekeeping = housekeeping
        self._housekeeping_seconds = housekeeping_seconds
        self._status = status
        self._note_store = note_store
        self._outage = outage or Outage("store")
        self._register = register
        # By step and fence: a step that was lost may come back to this worker before its first thread is done.
        self._held: dict[tuple[int, int], _Held] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crb-watcher", daemon=True)
        # A thread of its own: an engine that hangs must not keep the beats back.
        self._housekeeper = threading.Thread(target=self._keep_house, name="crb-housekeeper", daemon=True)
        # And so for a store that takes a beat and never answers.
        self._guard = threading.Thread(target=self._guard_leases, name="crb-guard", daemon=True)
        self._last_beat = clock()
        self._last_try = clock()
        self._stoppers = ThreadPoolExecutor(STOPS_AT_ONCE, thread_name_prefix="crb-stopper")
        self._stopping: set[Future[None]] = set()
        self._review_pause = review_pause
        self._orders: tuple[dict[str, int] | None, bool] = (None, False)
        self._on_orders: Callable[[dict[str, int] | None, str | None], object] | None = None

    def follow_orders(self, change: Callable[[dict[str, int] | None, str | None], object]) -> None:
        """Call ``change`` with the slots by queue name that an operator asks for (None: as it started), and with why

        no review may start here (None: they may), whenever either is another.
        """
        self._on_orders = change

    def start(self) -> None:
        for thread in (self._thread, self._housekeeper, self._guard):
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in (self._thread, self._housekeeper, self._guard):
            if thread.is_alive():
                thread.join(timeout=self._interval + 10)

    @contextmanager
    def hold(self, step: TakenStep, stop: Stopper | None = None) -> Iterator[None]:
        """Beat for a step while it is worked on. ``stop`` ends its container with the outcome that it is given."""
        key = (step.id, step.fence)
        with self._lock:
            self._held[key] = _Held(step, stop, self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(key, None)

    def tick(self) -> None:
        """One beat; called by the thread, and by tests."""
        with self._lock:
            held = list(self._held.values())
        try:
            answers = beat(
                self._store,
                self._worker,
                [(entry.step.id, entry.step.fence) for entry in held],
                status=self._say(),
            )
        except CrbError as error:
            self._outage.failed(error)
            self._note_store(False)
            self.guard()
            self._await_stops()
            return
        self._last_beat = self._clock()
        self._outage.answered()
        self._note_store(True)
        by_key = {(answer.id, answer.fence): answer for answer in answers}
        for entry in held:
            key = (entry.step.id, entry.step.fence)
            answer = by_key[key]
            with self._lock:
                current = self._held.get(key) is entry
            if not current:
                # It finished between the snapshot and the beat.
                continue
            if answer.cancel_requested:
                self._end(entry, Outcome.CANCELLED)
            elif not answer.still_held:
                self._end(entry, Outcome.LOST)
        self._await_stops()

    def guard(self) -> None:
        """End what has had no beat for too long; called by a thread of its own, and by tests."""
        long_ago = self._clock() - STOP_WITHOUT_BEAT_SECONDS
        with self._lock:
            # A step that was taken since the last beat has its first one still before it.
            held = [entry for entry in self._held.values() if max(self._last_beat, entry.since) <= long_ago]
        for entry in held:
            self._end(entry, Outcome.LOST)

    def look(self) -> None:
        """Stop what was cancelled and follow changed slots; called by the thread, and by tests."""
        try:
            orders = look(self._store, self._worker)
        except CrbError as error:
            # The next beat counts how long the store has been away.
            log.debug("look_failed", error=str(error))
            return
        asked_for = orders.wanted_slots
        if not orders.is_registered:
            asked_for = self._orders[0]
            self._register(asked_for)
        with self._lock:
            cancelled = [entry for key, entry in self._held.items() if key in orders.cancelled]
        for entry in cancelled:
            self._end(entry, Outcome.CANCELLED)
        self._await_stops()
        pause = self._review_pause()
        wanted = (asked_for, pause is not None)
        if self._on_orders is not None and wanted != self._orders:
            self._on_orders(asked_for, pause)
            self._orders = wanted

    def _say(self) -> dict[str, Any] | None:
        """What this worker says of itself; what it cannot say costs no beat."""
        if self._status is None:
            return None
        try:
            return self._status()
        except Exception:
            log.exception("status_unreadable")
            return None

    def _end(self, entry: _Held, outcome: Outcome) -> None:
        with self._lock:
            if entry.stopped or entry.stop is None:
                return
            entry.stopped = True
            self._stopping.add(self._stoppers.submit(self._stop_one, entry.stop, outcome))
        log.info("attempt_stopped", step=entry.step.id, outcome=outcome.value, **entry.step.log_fields)

    def _stop_one(self, stop: Stopper, outcome: Outcome) -> None:
        try:
            stop(outcome)
        except Exception:
            log.exception("stop_failed")

    def _await_stops(self) -> None:
        """Give stops the time that they normally take; an engine that hangs must not keep the beats back."""
        with self._lock:
            stopping = set(self._stopping)
        done = wait(stopping, timeout=STOP_PATIENCE_SECONDS).done
        with self._lock:
            self._stopping -= done

    def _run(self) -> None:
        while not self._stop.wait(min(LOOK_SECONDS, self._interval)):
            try:
                if self._clock() - self._last_try >= self._interval - LOOK_SECONDS / 2:
                    self._last_try = self._clock()
                    self.tick()
                self.look()
            except CrbError as error:
                self._outage.failed(error)
            except Exception:
                # The thread is the worker's life sign: whatever happens, it goes on and says what happened.
                log.exception("watcher_failed")

    def _guard_leases(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.guard()

    def _keep_house(self) -> None:
        while self._housekeeping is not None and not self._stop.wait(self._housekeeping_seconds):
            try:
                self._housekeeping()
            except StoreError as error:
                self._outage.failed(error)
            except Exception:
                log.exception("housekeeping_failed")
