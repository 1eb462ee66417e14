"""A killed worker, an emptied broker, doubled messages, two schedulers: no trial is lost and none runs twice."""

from __future__ import annotations

import signal

import pytest
from sqlalchemy import select

from crb_core.store.tables import Stage, StepRow, core
from crb_worker.app import BrokerClient, make_app, publish
from tests.e2e.farm import Farm, check_every_trial_is_whole, wait_for

steps = core(StepRow)

pytestmark = pytest.mark.timeout(240)


def _start_sweep(farm: Farm, rounds: int = 2, *more: str) -> None:
    planned = farm.crb(
        "sweep", "start", "--agent", "minimal", "--agent", "recorded-eager", "--subset", "smoke",
        "--rounds", str(rounds), "--name", "faulty", *more,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert f"{(8 + 4 * len(more) // 2) * rounds} new trials" in planned.stdout


@pytest.mark.thorough
def test_a_worker_killed_in_the_middle_costs_no_trial(farm: Farm) -> None:
    """kill -9 while reviews run: their attempts are lost, the trials run again on the other worker."""
    _start_sweep(farm)
    store = farm.store
    farm.start("scheduler")
    first = farm.start("worker", "--slots", "2")
    wait_for(lambda: farm.progress(store, "faulty").by_state.get("reviewing"))
    first.send_signal(signal.SIGKILL)
    first.wait()
    farm.start("worker", "--slots", "2")
    wait_for(lambda: farm.progress(store, "faulty").finished)
    check_every_trial_is_whole(store)
    store.close()


def test_emptied_broker_doubled_messages_and_two_schedulers(farm: Farm) -> None:
    """FLUSHALL, CLIENT KILL and every message sent twice, under two schedulers: each trial runs once."""
    _start_sweep(farm, rounds=3)
    store = farm.store
    farm.start("scheduler")
    farm.start("scheduler")
    farm.start("worker", "--slots", "2")
    app, client = make_app(farm.broker.url), BrokerClient(farm.broker.url)
    for turn in range(12):
        wait_for(lambda turn=turn: farm.progress(store, "faulty").ended > turn or None)
        if turn % 4 == 1:
            client._redis.flushall()
        if turn % 4 == 2:
            client._redis.client_kill_filter(_type="normal", skipme=True)
        with store.read() as connection:
            known = connection.execute(select(steps.c.id, steps.c.stage, steps.c.fence)).all()
        for row in known[:30]:
            publish(app, Stage(row.stage), row.id, fence=row.fence, shown_as="a doubled message")
    wait_for(lambda: farm.progress(store, "faulty").finished)
    check_every_trial_is_whole(store)
    with store.read() as connection:
        reviews = connection.execute(select(steps.c.fence).where(steps.c.stage == "review")).scalars().all()
    assert set(reviews) == {1}
    client.close()
    store.close()


def test_cancel_and_resume(farm: Farm) -> None:
    """A cancelled sweep stops within seconds and, resumed, ends as an undisturbed one would."""
    # lint takes long enough for a cancel to find it at work.
    _start_sweep(farm, 3, "--agent", "lint")
    store = farm.store
    farm.start("scheduler")
    farm.start("worker", "--slots", "2")
    wait_for(lambda: farm.progress(store, "faulty").ended >= 1)
    assert farm.crb("sweep", "cancel", "faulty").returncode == 0
    cancelled = wait_for(lambda: (p := farm.progress(store, "faulty")).finished and p, seconds=30)
    assert cancelled.by_state["cancelled"] > 0
    assert farm.crb("sweep", "resume", "faulty").returncode == 0
    wait_for(lambda: (p := farm.progress(store, "faulty")).finished and p.by_state == {"scored": 36})
    store.close()
