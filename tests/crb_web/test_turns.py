"""A store that hangs is waited for once, however many wait for their turn to read it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crb_core.errors import InputError, StoreError
from crb_web.turns import Turns


def test_who_waits_gets_the_failure_of_the_turn_before() -> None:
    """And who comes afterwards tries anew."""
    turns = Turns()
    readings: list[str] = []
    asking = threading.Semaphore(0)
    is_reading, hangs = threading.Event(), threading.Event()

    def read() -> None:
        asking.release()
        with turns.taken():
            readings.append("hung")
            is_reading.set()
            hangs.wait(60)
            raise StoreError("The store is silent", remedy="Wait")

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(read)
        is_reading.wait(60)
        others = [pool.submit(read) for _ in range(6)]
        for _ in range(7):
            asking.acquire(timeout=60)
        time.sleep(0.2)
        hangs.set()
        for each in (first, *others):
            with pytest.raises(StoreError, match=r"The store is silent\. Wait"):
                each.result(60)
    assert len(readings) < 7
    with turns.taken():
        readings.append("read")
    assert readings[-1] == "read"


def test_another_failure_is_its_own() -> None:
    """A wrong name is nobody else's mistake."""
    turns = Turns()
    with pytest.raises(InputError), turns.taken():
        raise InputError("There is no such sweep")
    with turns.taken():
        pass
