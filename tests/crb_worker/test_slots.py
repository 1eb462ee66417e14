"""How much a worker takes at once, and what a change does to those that wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from crb_core.agent import Outcome
from crb_worker.sandbox.control import Control, RunSlots
from crb_worker.slots import ReviewGate, threads_for


class Crowd:
    """Threads that go in where they are let, and stay until they are let out."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.inside = 0
        self._out = threading.Semaphore(0)
        self._lock = threading.Lock()

    def send(self, gate: ReviewGate, count: int) -> list[Future[bool]]:
        return [self._pool.submit(self._visit, gate) for _ in range(count)]

    def _visit(self, gate: ReviewGate) -> bool:
        with gate.entered() as is_admitted:
            if is_admitted:
                with self._lock:
                    self.inside += 1
                self._out.acquire()
                with self._lock:
                    self.inside -= 1
            return is_admitted

    def let_out(self, count: int) -> None:
        self._out.release(count)


def settles_at(value: Callable[[], int], wanted: int) -> bool:
    """Whether a value comes to be what is wanted, and stays so for a while."""
    deadline = time.monotonic() + 10
    while value() != wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    return value() == wanted


def test_the_gate_lets_in_its_slots_and_those_prepared_ahead() -> None:
    """1 slot: 2 inside; 4 slots: 6; 3 again: nobody is thrown out, and nobody comes in until there is room."""
    with ThreadPoolExecutor(10) as pool:
        gate, crowd = ReviewGate(1), Crowd(pool)
        visits = crowd.send(gate, 9)
        assert settles_at(lambda: crowd.inside, 2)
        gate.resize(4)
        assert settles_at(lambda: crowd.inside, 6)
        gate.resize(3)
        crowd.let_out(1)
        assert settles_at(lambda: crowd.inside, 5)
        crowd.let_out(1)
        assert settles_at(lambda: crowd.inside, 5)
        crowd.let_out(7)
        assert [visit.result() for visit in visits] == [True] * 9


@pytest.mark.parametrize("end", [lambda gate: gate.resize(0), lambda gate: gate.close()])
def test_a_gate_that_lets_nobody_in_turns_away_who_waits(end: Callable[[ReviewGate], None]) -> None:
    """Those inside stay until they are done; who waits and who comes is turned away at once."""
    with ThreadPoolExecutor(8) as pool:
        gate, crowd = ReviewGate(1), Crowd(pool)
        visits = crowd.send(gate, 4)
        assert settles_at(lambda: crowd.inside, 2)
        end(gate)
        visits += crowd.send(gate, 2)
        assert settles_at(lambda: sum(visit.done() for visit in visits), 4)
        crowd.let_out(2)
        assert sorted(visit.result() for visit in visits) == [False] * 4 + [True] * 2


def test_a_gate_that_was_shut_opens_again() -> None:
    """Slots after none: reviews come in again."""
    gate = ReviewGate(0)
    with gate.entered() as is_admitted:
        assert not is_admitted
    gate.resize(1)
    with gate.entered() as is_admitted:
        assert is_admitted


def test_run_slots_can_be_changed_while_agents_run() -> None:
    """More start at once; with fewer, nobody starts until enough have ended; there is always one."""
    slots, running, out = RunSlots(1), [0], threading.Semaphore(0)
    lock = threading.Lock()

    def agent() -> None:
        with slots.running(Control()):
            with lock:
                running[0] += 1
            out.acquire()
            with lock:
                running[0] -= 1

    with ThreadPoolExecutor(6) as pool:
        agents = [pool.submit(agent) for _ in range(6)]
        assert settles_at(lambda: running[0], 1)
        slots.resize(4)
        assert settles_at(lambda: running[0], 4)
        slots.resize(0)
        out.release(3)
        assert settles_at(lambda: running[0], 1)
        out.release(1)
        assert settles_at(lambda: running[0], 1)
        out.release(2)
        for each in agents:
            each.result()


def test_a_stopped_attempt_does_not_wait_for_a_slot() -> None:
    """A cancel of one trial is over at once, also where another agent has the only slot for an hour."""
    slots, control = RunSlots(1), Control()
    with ThreadPoolExecutor(1) as pool, slots.running(Control()):

        def wait() -> bool:
            with slots.running(control):
                return control.stopped is not None

        waiting = pool.submit(wait)
        assert settles_at(lambda: int(waiting.done()), 0)
        control.stop(Outcome.CANCELLED, "The attempt was cancelled.")
        assert waiting.result(timeout=10)


def test_threads_follow_the_slots() -> None:
    """Twice the reviews and one for each judge step; a worker without slots still hears its broker."""
    assert threads_for({"review": 4, "match": 2, "score": 3}) == 13
    assert threads_for({"match": 2}) == 2
    assert threads_for({"review": 0}) == 1
