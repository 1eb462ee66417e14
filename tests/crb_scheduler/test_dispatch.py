"""The dispatcher with a real store and a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update

from crb_core.agent import Outcome
from crb_core.store import Store, open_store
from crb_core.store.judgments import add_judge_steps
from crb_core.store.operations import pause_sweep, resume_sweep, set_limits
from crb_core.store.steps import finish_attempt, take
from crb_core.store.tables import Stage, StepRow, StepState, SweepRow, SweepState, WorkerRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.dispatch import Dispatcher, LiveSlots
from crb_worker.app import BrokerClient, make_app
from tests.crb_core.store.planned import LIMITS, Planned, plan

steps = core(StepRow)
sweeps = core(SweepRow)
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


def _in_flight(store: Store) -> dict[str, int]:
    """Queued and running reviews by sweep name."""
    with store.read() as connection:
        rows = connection.execute(
            select(sweeps.c.name, func.count())
            .join(steps, steps.c.sweep_id == sweeps.c.id)
            .where(steps.c.state.in_(["queued", "running"]))
            .group_by(sweeps.c.name)
        )
        return {row[0]: row[1] for row in rows}


def _set(store: Store, sweep: str, **limits: Any) -> None:
    with store.write() as connection:
        set_limits(connection, sweep, actor="a test", **limits)


def _end_all(planned: Planned) -> None:
    """End everything that is queued or running as a success."""
    for step_id in planned.ids():
        if planned.state(step_id) == "queued":
            taken = take(planned.store, step_id, "w")
            if taken is None:
                # Its sweep was paused meanwhile.
                continue
            with planned.store.write() as connection:
                finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def either_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'either.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    opened = open_store(url)
    yield opened
    opened.close()


def test_caps_hold_with_two_dispatchers(either_store: Store, broker: EmbeddedBroker) -> None:
    """A build in two sweeps, capped in one of them: two dispatchers at the same moment never queue more."""
    store = either_store
    # The capped sweep has more to do, so that its cap holds to the end.
    one = plan(store, pull_requests=16, name="one")
    plan(store, pull_requests=4, name="two")
    _set(store, "one", agent="minimal", concurrency=3)
    _worker(store, 20)
    pair = [_dispatcher(store, broker) for _ in range(2)]
    seen = []
    while sum(seen) < 20:
        begin = threading.Barrier(2)

        def fill(dispatcher: Dispatcher, begin: threading.Barrier = begin) -> None:
            begin.wait()
            dispatcher.fill()

        threads = [threading.Thread(target=fill, args=(dispatcher,)) for dispatcher, _ in pair]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.append(sum(_in_flight(store).values()))
        assert 0 < seen[-1] <= 3
        _end_all(one)
    assert max(seen) == 3
    for _, client in pair:
        client.close()


def test_limits_change_while_a_sweep_runs(either_store: Store, broker: EmbeddedBroker) -> None:
    """Concurrency down and up, weight, priority, pause: each holds from the next fill on."""
    store = either_store
    big = plan(store, pull_requests=40, agent="big", name="big")
    plan(store, pull_requests=40, agent="small", name="small")
    _worker(store, 12)
    dispatcher, client = _dispatcher(store, broker)

    def next_fill() -> dict[str, int]:
        _end_all(big)
        dispatcher.fill()
        return _in_flight(store)

    assert next_fill() == {"big": 6, "small": 6}
    _set(store, "big", concurrency=2)
    assert next_fill() == {"big": 2, "small": 10}
    _set(store, "big", concurrency=None, weight=3.0)
    assert next_fill() == {"big": 9, "small": 3}
    with store.write() as connection:
        pause_sweep(connection, "small", actor="a test")
    assert next_fill() == {"big": 12}
    with store.write() as connection:
        resume_sweep(connection, "small", actor="a test")
    _set(store, "small", priority=1)
    assert next_fill() == {"small": 12}
    client.close()


def test_one_slot_is_shared_by_turns(store: Store, broker: EmbeddedBroker) -> None:
    """Also where there is never more than one step in flight, a sweep of another agent is not starved."""
    first = plan(store, pull_requests=8, agent="a", name="first")
    plan(store, pull_requests=8, agent="b", name="second")
    _worker(store, 1)
    dispatcher, client = _dispatcher(store, broker)
    turns = []
    for _ in range(8):
        dispatcher.fill()
        turns += list(_in_flight(store))
        _end_all(first)
    assert turns == ["first", "second"] * 4 or turns == ["second", "first"] * 4
    client.close()


def test_nothing_is_written_where_nothing_may_go(store: Store, broker: EmbeddedBroker) -> None:
    """A paused sweep with thousands of steps costs the store no write transaction a second."""
    planned = plan(store, pull_requests=5)
    _worker(store, 3)
    planned.set_state(SweepState.PAUSED)
    dispatcher, client = _dispatcher(store, broker)
    with store.write():
        # The write lock is taken: a dispatcher that wanted it would wait for it.
        assert dispatcher.fill() == 0
    client.close()


def _states(planned: Planned, stage: Stage = Stage.REVIEW) -> list[str]:
    return [planned.state(step_id) for step_id in planned.ids(stage)]


def test_what_nobody_takes_is_not_in_flight(either_store: Store, broker: EmbeddedBroker) -> None:
    """Slots set to 0, or the last worker gone: queued steps are ready again, and count against no cap.

    With slots again they are published again; a message from before is worked on once, whichever comes first.
    """
    store = either_store
    planned = plan(store, pull_requests=5)
    _worker(store, 3)
    _set(store, planned.sweep_id, concurrency=3)
    dispatcher, client = _dispatcher(store, broker)
    assert dispatcher.fill() == 3
    taken = take(store, planned.ids()[0], "w")
    assert taken is not None

    def set_slots(count: int) -> None:
        with store.write() as connection:
            connection.execute(update(workers).values(slots={"review": count}))

    set_slots(0)
    assert dispatcher.fill() == 0
    assert _states(planned) == ["running", "ready", "ready", "ready", "ready"]
    assert take(store, planned.ids()[1], "w") is None, "a message of a step that is not queued is dropped"
    set_slots(3)
    assert dispatcher.fill() == 2
    assert _in_flight(store) == {"sweep-of-minimal": 3}
    with store.write() as connection:
        connection.execute(delete(workers))
    dispatcher.fill()
    assert _states(planned) == ["running", "ready", "ready", "ready", "ready"]
    client.close()


def test_what_a_paused_agent_has_found_is_dispatched_to_its_judges(store: Store, broker: EmbeddedBroker) -> None:
    """Its reviews are not; of a paused sweep nothing is."""
    planned = plan(store, pull_requests=2)
    taken = planned.take(planned.ids()[0])
    with store.write() as connection:
        finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
        add_judge_steps(connection, taken)
        connection.execute(
            insert(workers).values(name="w", host="h", pid=1, beat=0, slots={"review": 2, "match": 2}, started_at="now")
        )
    dispatcher, client = _dispatcher(store, broker)
    planned.set_state(SweepState.PAUSED)
    planned.pause_build(True)
    assert dispatcher.fill() == 0
    planned.set_state(SweepState.ACTIVE)
    assert dispatcher.fill() == 1
    assert (_states(planned, Stage.MATCH), _states(planned)) == (["queued"], ["done", "ready"])
    client.close()
