"""One watcher thread a worker: raises the beats of all steps that it holds and stops what must not run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from crb_core.agent import Outcome
from crb_core.errors import CrbError
from crb_core.store import Store
from crb_core.store.steps import TakenStep, beat

__all__ = ["STOP_WITHOUT_BEAT_SECONDS", "Watcher"]

log = structlog.get_logger(__name__)

#: A worker that cannot beat for this long stops its containers: the reconciler is about to give their steps away.
STOP_WITHOUT_BEAT_SECONDS = 20.0

Stopper = Callable[[Outcome], object]


@dataclass
class _Held:
    step: TakenStep
    stop: Stopper | None
    stopped: bool = False


class Watcher:
    """Beats every ``beat_seconds``; the same round trip reads the cancel flags."""

    def __init__(
        self,
        store: Store,
        worker: str,
        beat_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        every_minute: Callable[[], object] | None = None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._interval = beat_seconds
        self._clock = clock
        self._every_minute = every_minute
        # By step and fence: a step that was lost may come back to this worker before its first thread is done.
        self._held: dict[tuple[int, int], _Held] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crb-watcher", daemon=True)
        self._last_beat = clock()
        self._last_minute = clock()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._interval + 10)

    @contextmanager
    def hold(self, step: TakenStep, stop: Stopper | None = None) -> Iterator[None]:
        """Beat for a step while it is worked on. ``stop`` ends its container with the outcome that it is given."""
        key = (step.id, step.fence)
        with self._lock:
            self._held[key] = _Held(step, stop)
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
            answers = beat(self._store, self._worker, [(entry.step.id, entry.step.fence) for entry in held])
        except CrbError as error:
            log.warning("beat_failed", error=str(error))
            if self._clock() - self._last_beat >= STOP_WITHOUT_BEAT_SECONDS:
                for entry in held:
                    self._end(entry, Outcome.LOST)
            return
        self._last_beat = self._clock()
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

    def _end(self, entry: _Held, outcome: Outcome) -> None:
        if entry.stopped or entry.stop is None:
            return
        entry.stopped = True
        log.info("attempt_stopped", step=entry.step.id, outcome=outcome.value, **entry.step.log_fields)
        entry.stop(outcome)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.tick()
                if self._every_minute is not None and self._clock() - self._last_minute >= 60:
                    self._last_minute = self._clock()
                    self._every_minute()
            except Exception:
                # The thread is the worker's life sign: whatever happens, it goes on and says what happened.
                log.exception("watcher_failed")
