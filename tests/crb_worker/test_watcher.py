"""The watcher beats for what this worker holds, and for nothing that it has lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import insert

from crb_core.agent import Outcome
from crb_core.store import open_store
from crb_core.store.operations import cancel_trials, set_worker_slots
from crb_core.store.steps import lose
from crb_core.store.tables import SweepState, WorkerRow, core
from crb_core.store.workers import forget_workers, register_worker
from crb_worker.status import WorkerStatus
from crb_worker.watcher import STOP_WITHOUT_BEAT_SECONDS, Watcher
from tests.crb_core.store.planned import LIMITS, plan

workers = core(WorkerRow)


def test_a_step_that_comes_back_to_its_worker_is_held_anew(tmp_path: Path) -> None:
    """The thread that lost the step is told to stop; when it is done, the second one goes on beating."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store)
    (step_id,) = planned.ids()
    watcher = Watcher(store, "w", 5.0)
    told: list[tuple[str, Outcome]] = []

    first = planned.take(step_id)
    with watcher.hold(first, lambda outcome: told.append(("first", outcome))):
        assert lose(store, step_id, fence=first.fence, beat=0, limits=LIMITS)
        second = planned.take(step_id)
        holding = watcher.hold(second, lambda outcome: told.append(("second", outcome)))
        holding.__enter__()
        watcher.tick()
        assert told == [("first", Outcome.LOST)]
        assert planned.step(step_id).beat == 1
    watcher.tick()
    assert planned.step(step_id).beat == 2
    holding.__exit__(None, None, None)
    watcher.tick()
    assert planned.step(step_id).beat == 2
    assert told == [("first", Outcome.LOST)]
    store.close()


def test_a_cancel_is_seen_without_a_beat_and_told_once(tmp_path: Path) -> None:
    """A look stops what was cancelled, only that, and does not keep the step alive; the beat does not stop it again."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=2)
    one, two = planned.ids()
    watcher = Watcher(store, "w", 5.0)
    told: list[tuple[int, Outcome]] = []
    with (
        watcher.hold(planned.take(one), lambda outcome: told.append((one, outcome))),
        watcher.hold(planned.take(two), lambda outcome: told.append((two, outcome))),
    ):
        watcher.look()
        assert told == []
        with store.write() as connection:
            cancel_trials(connection, [planned.trial(two)], actor="a test")
        watcher.look()
        assert told == [(two, Outcome.CANCELLED)]
        assert planned.step(two).beat == 0
        watcher.tick()
        watcher.look()
        assert told == [(two, Outcome.CANCELLED)]
    store.close()


def test_an_engine_that_hangs_does_not_keep_the_beats_back(tmp_path: Path) -> None:
    """While one container cannot be ended, the others are, and every step goes on beating."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=2)
    one, two = planned.ids()
    watcher = Watcher(store, "w", 5.0)
    hanging, told = threading.Event(), threading.Event()
    with (
        watcher.hold(planned.take(one), lambda _: hanging.wait()),
        watcher.hold(planned.take(two), lambda _: told.set()),
    ):
        planned.set_state(SweepState.CANCELLED)
        watcher.look()
        assert told.wait(10)
        watcher.tick()
        assert (planned.step(one).beat, planned.step(two).beat) == (1, 1)
        hanging.set()
    store.close()


def test_slots_are_followed_until_they_are_in_force(tmp_path: Path) -> None:
    """Once for each wish; a change that failed is tried again at the next look."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    with store.write() as connection:
        connection.execute(
            insert(workers).values(name="w", host="h", pid=1, beat=0, slots={"review": 1}, started_at="x")
        )
    pause: list[str | None] = [None]
    watcher = Watcher(store, "w", 5.0, review_pause=lambda: pause[0])
    followed: list[tuple[dict[str, int] | None, str | None]] = []
    is_broken = True

    def follow(slots: dict[str, int] | None, paused: str | None) -> None:
        if is_broken:
            raise RuntimeError
        followed.append((slots, paused))

    watcher.follow_orders(follow)
    watcher.look()
    with store.write() as connection:
        set_worker_slots(connection, "w", review=3, actor="a test")
    with pytest.raises(RuntimeError):
        watcher.look()
    is_broken = False
    watcher.look()
    watcher.look()
    assert followed == [({"review": 3}, None)]
    pause[0] = "the disk is low"
    watcher.look()
    # A reason with other figures in it is no other order.
    pause[0] = "the disk is lower"
    watcher.look()
    pause[0] = None
    watcher.look()
    assert followed[1:] == [({"review": 3}, "the disk is low"), ({"review": 3}, None)]
    store.close()


def test_a_status_that_cannot_be_read_costs_no_beat(tmp_path: Path) -> None:
    """The beat is the worker's life sign; what it says of itself is kept from the last time it could say something."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store)
    (step_id,) = planned.ids()
    workers = core(WorkerRow)
    with store.write() as connection:
        connection.execute(
            workers.insert().values(name="w", host="h", pid=1, beat=0, slots={"review": 1}, started_at="now")
        )
    said = [{"cpu_percent": 1.0}]
    noted: list[bool] = []
    watcher = Watcher(store, "w", 5.0, status=lambda: said.pop(), note_store=noted.append)
    with watcher.hold(planned.take(step_id)):
        watcher.tick()
        watcher.tick()
    with store.read() as connection:
        row = connection.execute(workers.select()).one()
    assert (row.beat, row.status, planned.step(step_id).beat) == (2, {"cpu_percent": 1.0}, 2)
    assert noted == [True, True]
    store.close()


def test_a_store_that_is_away_is_noted(tmp_path: Path) -> None:
    """For the seconds that the worker's metrics count."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    noted: list[bool] = []
    watcher = Watcher(store, "w", 5.0, note_store=noted.append)
    watcher.tick()
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE worker RENAME TO away")
    watcher.tick()
    assert noted == [True, False]
    store.close()


def test_a_beat_that_never_comes_back_ends_what_is_held(tmp_path: Path) -> None:
    """The guard needs no answer of the store; a step that was taken a moment ago has its first beat still before it."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=2)
    one, two = planned.ids()
    now = [0.0]
    told: list[tuple[str, Outcome]] = []
    watcher = Watcher(store, "w", 5.0, clock=lambda: now[0])
    with watcher.hold(planned.take(one), lambda outcome: told.append(("old", outcome))):
        watcher.tick()
        now[0] = STOP_WITHOUT_BEAT_SECONDS - 1
        with watcher.hold(planned.take(two), lambda outcome: told.append(("new", outcome))):
            watcher.guard()
            assert told == []
            now[0] = STOP_WITHOUT_BEAT_SECONDS
            watcher.guard()
            watcher.guard()
            # Stops run in threads of their own; a look waits for them.
            watcher.look()
            assert told == [("old", Outcome.LOST)]
            watcher.tick()
            now[0] += STOP_WITHOUT_BEAT_SECONDS - 1
            watcher.guard()
            watcher.look()
            assert told == [("old", Outcome.LOST)]
    store.close()


def test_a_worker_that_was_forgotten_registers_itself_anew(tmp_path: Path) -> None:
    """With the slots that an operator asked for; its next beat is seen again."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    slots = {"review": 2}

    def register(wanted: dict[str, int] | None) -> None:
        with store.write() as connection:
            register_worker(connection, "w", host="h", pid=1, slots=slots, wanted_slots=wanted)

    register(None)
    orders: list[object] = []
    watcher = Watcher(store, "w", 5.0, register=register)
    watcher.follow_orders(lambda wanted, pause: orders.append((wanted, pause)))
    with store.write() as connection:
        set_worker_slots(connection, "w", actor="a test", review=7)
    watcher.look()
    with store.write() as connection:
        assert len(forget_workers(connection, {"w": 0})) == 1
    watcher.look()
    watcher.tick()
    with store.read() as connection:
        row = connection.execute(workers.select()).one()
    assert (row.name, row.beat, row.wanted_slots) == ("w", 1, {"review": 7})
    assert orders == [({"review": 7}, None)]
    store.close()


def test_what_a_worker_says_of_itself(tmp_path: Path) -> None:
    """Numbers where they can be read, null where not, and why it takes no reviews."""
    status = WorkerStatus(tmp_path)
    said = status.read()
    assert said["disk_total_bytes"] >= said["disk_free_bytes"] > 0
    assert said["rss_bytes"] > 0
    assert 0 <= said["memory_percent"] <= 100
    assert said["takes_no_reviews"] is None
    status.take_no_reviews("the disk is nearly full")
    gone = WorkerStatus(tmp_path / "gone").read()
    assert (gone["disk_free_bytes"], gone["disk_total_bytes"]) == (None, None)
    assert status.read()["takes_no_reviews"] == "the disk is nearly full"
