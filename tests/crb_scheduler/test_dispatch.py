"""The dispatcher with a real store and a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from crb_core.store import Store, open_store
from crb_core.store.steps import take
from crb_core.store.tables import StepRow, StepState, WorkerRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.dispatch import Dispatcher, LiveSlots
from crb_worker.app import BrokerClient, make_app
from tests.crb_core.store.planned import plan

steps = core(StepRow)
workers = core(WorkerRow)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker-folder") as started:
        yield started


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()


def _worker(store: Store, slots: int, name: str = "w") -> None:
    with store.write() as connection:
        connection.execute(
            insert(workers).values(name=name, host="h", pid=1, beat=0, slots={"review": slots}, started_at="now")
        )


def _dispatcher(store: Store, broker: EmbeddedBroker, lease: float = 60) -> tuple[Dispatcher, BrokerClient]:
    client = BrokerClient(broker.url)
    return Dispatcher(store, make_app(broker.url), client, LiveSlots(lease)), client


def test_the_queue_is_never_longer_than_the_live_slots(store: Store, broker: EmbeddedBroker) -> None:
    """Without workers nothing is published; with three slots three messages wait, and taking one makes room for one."""
    planned = plan(store, pull_requests=10)
    dispatcher, client = _dispatcher(store, broker)
    assert dispatcher.fill() == 0
    _worker(store, 3)
    assert (dispatcher.fill(), client.queue_length("review")) == (3, 3)
    assert dispatcher.fill() == 0
    assert take(store, planned.ids()[0], "w") is not None
    assert dispatcher.fill() == 1
    client.close()


def test_a_dead_workers_slots_do_not_count(store: Store) -> None:
    """Slots count while the beat moves within the lease of the dispatcher's own clock."""
    now = [0.0]
    slots = LiveSlots(30, clock=lambda: now[0])
    _worker(store, 2)
    with store.read() as connection:
        assert slots.read(connection) == {"review": 2}
    now[0] = 31
    with store.read() as connection:
        assert slots.read(connection) == {}
    with store.write() as connection:
        connection.execute(update(workers).values(beat=1))
    with store.read() as connection:
        assert slots.read(connection) == {"review": 2}


def test_two_dispatchers_queue_each_step_once(store: Store, broker: EmbeddedBroker) -> None:
    """Both fill at the same time; every step is queued once and published once."""
    plan(store, pull_requests=40)
    _worker(store, 40)
    pair = [_dispatcher(store, broker) for _ in range(2)]
    sent: list[int] = []
    threads = [threading.Thread(target=lambda each=each: sent.append(each[0].fill())) for each in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(sent), pair[0][1].queue_length("review")) == (40, 40)
    for _, client in pair:
        client.close()


def test_what_an_emptied_broker_lost_is_published_again(store: Store, broker: EmbeddedBroker) -> None:
    """After FLUSHALL the queued steps are sent anew once they are old enough; they are still queued once."""
    planned = plan(store, pull_requests=4)
    _worker(store, 4)
    dispatcher, client = _dispatcher(store, broker)
    assert dispatcher.fill() == 4
    client._redis.flushall()
    assert dispatcher.fill() == 0
    with store.write() as connection:
        connection.execute(update(steps).values(published_at=steps.c.published_at - 10))
    assert (dispatcher.fill(), client.queue_length("review")) == (4, 4)
    assert {planned.state(step_id) for step_id in planned.ids()} == {StepState.QUEUED.value}
    client.close()


def test_a_broker_that_is_away_loses_nothing(store: Store, tmp_path: Path) -> None:
    """Publishing fails, the steps stay queued, and a broker that comes back is filled."""
    plan(store, pull_requests=3)
    _worker(store, 3)
    with EmbeddedBroker(tmp_path / "first") as first:
        dispatcher, client = _dispatcher(store, first)
    assert dispatcher.fill() == 0
    client.close()
    with EmbeddedBroker(tmp_path / "second") as second:
        dispatcher, client = _dispatcher(store, second)
        with store.write() as connection:
            connection.execute(update(steps).values(published_at=steps.c.published_at - 10))
        assert (dispatcher.fill(), client.queue_length("review")) == (3, 3)
        client.close()


def test_a_full_broker_is_waited_for(store: Store, broker: EmbeddedBroker) -> None:
    """A broker that refuses writes ends nothing: the steps stay queued and are sent when it takes them again."""
    plan(store, pull_requests=3)
    _worker(store, 3)
    dispatcher, client = _dispatcher(store, broker)
    client.redis.config_set("maxmemory", "1")
    assert dispatcher.fill() == 0
    client.redis.config_set("maxmemory", "0")
    with store.write() as connection:
        connection.execute(update(steps).values(published_at=steps.c.published_at - 10))
    assert (dispatcher.fill(), client.queue_length("review")) == (3, 3)
    client.close()
