"""Workers that were killed are forgotten after a day of silence; never one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from crb_core.store import Store, open_store
from crb_core.store.tables import WorkerRow, core
from crb_core.store.workers import forget_workers, register_worker
from crb_scheduler.forget import SilentWorkers
from tests.crb_core.store.planned import plan

workers = core(WorkerRow)
DAY = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()


class Clocks:
    """A scheduler's monotonic clock and the wall clock that it reads."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.wall = datetime.now(UTC)

    def go_on(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += timedelta(seconds=seconds)


def _scheduler(store: Store, clocks: Clocks) -> SilentWorkers:
    return SilentWorkers(
        store,
        lease_seconds=30,
        forget_seconds=DAY,
        clock=lambda: clocks.monotonic,
        now=lambda: clocks.wall,
    )


def _register(store: Store, *names: str) -> None:
    with store.write() as connection:
        for name in names:
            register_worker(connection, name, host="h", pid=1, slots={"review": 1})


def _beat(store: Store, name: str) -> None:
    with store.write() as connection:
        connection.execute(update(workers).where(workers.c.name == name).values(beat=workers.c.beat + 1))


def _names(store: Store) -> list[str]:
    with store.read() as connection:
        return list(connection.execute(select(workers.c.name).order_by(workers.c.name)).scalars())


def test_a_worker_silent_for_a_day_is_forgotten_and_one_that_beats_is_not(store: Store) -> None:
    """A second before the day is over both are there."""
    clocks = Clocks()
    scheduler = _scheduler(store, clocks)
    _register(store, "dead", "alive")
    assert scheduler.tick() == []
    for seconds, forgotten in ((60, []), (DAY - 61, []), (1, ["dead"]), (DAY, [])):
        clocks.go_on(seconds)
        _beat(store, "alive")
        assert scheduler.tick() == forgotten
    assert _names(store) == ["alive"]


def test_a_scheduler_that_was_started_since_knows_it_from_the_workers_last_word(store: Store) -> None:
    """It waits for the lease of its own clock, not for another day."""
    clocks = Clocks()
    _register(store, "dead", "alive")
    clocks.go_on(2 * DAY)
    scheduler = _scheduler(store, clocks)
    assert scheduler.tick() == []
    clocks.go_on(31)
    _beat(store, "alive")
    assert scheduler.tick() == ["dead"]


def test_a_wall_clock_that_is_days_ahead_forgets_nobody_who_beats(store: Store) -> None:
    """Whatever a worker's own clock says it said last."""
    clocks = Clocks()
    scheduler = _scheduler(store, clocks)
    _register(store, "skewed")
    clocks.wall += timedelta(days=400)
    for _ in range(5):
        clocks.go_on(31)
        _beat(store, "skewed")
        assert scheduler.tick() == []
    with store.write() as connection:
        connection.execute(update(workers).values(status={"at": "no time at all"}))
    clocks.go_on(31)
    assert scheduler.tick() == []


def test_one_that_beats_between_the_look_and_the_delete_stays(store: Store) -> None:
    """And so does one that holds a step, until the reconciler has given it back."""
    _register(store, "w", "holding")
    planned = plan(store, pull_requests=1)
    planned.take(planned.ids()[0], "holding")
    _beat(store, "w")
    with store.write() as connection:
        assert forget_workers(connection, {"w": 0, "holding": 0, "gone already": 7}) == []
        assert [row.name for row in forget_workers(connection, {"w": 1})] == ["w"]
    assert _names(store) == ["holding"]
