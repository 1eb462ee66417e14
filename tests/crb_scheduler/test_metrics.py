"""What the scheduler says of the store at each scrape."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from crb_core.store import Store
from crb_core.store.steps import beat
from crb_core.store.tables import StepRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.metrics import SWEEPS_SHOWN, SchedulerMetrics
from crb_worker.app import BrokerClient
from tests.crb_core.store.planned import plan
from tests.crb_scheduler.running_sweeps import RunningSweep


@pytest.fixture
def metrics() -> SchedulerMetrics:
    return SchedulerMetrics()


def value(metrics: SchedulerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_gauges_are_the_truth_in_the_store(any_store: Store, metrics: SchedulerMetrics, tmp_path: Path) -> None:
    """Steps by stage and state, slots, workers whose beat moves, trials of unfinished sweeps, messages that wait."""
    sweep = RunningSweep(any_store, agents=("alpha",), pull_requests=3)
    sweep.worker("one", slots={"review": 2, "match": 1})
    sweep.worker("two", slots={"review": 3})
    sweep.done("alpha", 0)
    sweep.take(sweep.step("alpha", 1))
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        client.redis.lpush("review", "x", "y")
        metrics.watch_farm(any_store, client, lease_seconds=60)
        assert value(metrics, "crb_workers", state="unknown") == 2
        beat(any_store, "one", [])
        states = ("ready", "queued", "running", "failed")
        assert [value(metrics, "crb_steps", stage="review", state=each) for each in states] == [1, 0, 1, 0]
        assert value(metrics, "crb_steps", stage="classify", state="ready") == 0
        assert value(metrics, "crb_slots", queue="review") == 5
        assert [value(metrics, "crb_workers", state=each) for each in ("alive", "silent", "unknown")] == [1, 0, 1]
        assert value(metrics, "crb_trials", sweep="nightly", state="scored") == 1
        assert value(metrics, "crb_trials", sweep="nightly", state="reviewing") == 1
        assert value(metrics, "crb_broker_messages", queue="review") == 2
        assert (value(metrics, "crb_store_up"), value(metrics, "crb_broker_up")) == (1, 1)
        client.close()


def test_slots_of_a_silent_worker_do_not_count(sqlite_store: Store, metrics: SchedulerMetrics, tmp_path: Path) -> None:
    """A row that a killed worker left behind is no slot."""
    sweep = RunningSweep(sqlite_store, agents=("alpha",))
    sweep.worker("gone", slots={"review": 8})
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        metrics.watch_farm(sqlite_store, client, lease_seconds=0.0)
        assert value(metrics, "crb_workers", state="silent") == 1
        assert value(metrics, "crb_slots", queue="review") == 0
        client.close()


def test_a_store_or_broker_that_is_away_is_said_and_not_zero(metrics: SchedulerMetrics, tmp_path: Path) -> None:
    """Its gauges are absent, so that no panel shows an idle farm; the scrape itself works."""
    from crb_core.store import open_store

    path = tmp_path / "crb.sqlite"
    store = open_store(f"sqlite:///{path}")
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client = BrokerClient(broker.url)
    metrics.watch_farm(store, client, lease_seconds=30)
    store.close()
    path.write_bytes(b"this is no database any more" * 100)
    for side in ("-wal", "-shm"):
        Path(f"{path}{side}").unlink(missing_ok=True)
    assert (value(metrics, "crb_store_up"), value(metrics, "crb_broker_up")) == (0, 0)
    assert value(metrics, "crb_steps", stage="review", state="ready") is None
    assert value(metrics, "crb_broker_messages", queue="review") is None
    client.close()


def test_the_oldest_step_that_nobody_took(sqlite_store: Store, metrics: SchedulerMetrics, tmp_path: Path) -> None:
    """A queue without workers grows old; one without steps has no age."""
    planned = plan(sqlite_store, pull_requests=2)
    planned.queue(*planned.ids())
    steps = core(StepRow)
    with sqlite_store.write() as connection:
        connection.execute(update(steps).values(published_at=steps.c.published_at - 100))
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        metrics.watch_farm(sqlite_store, client, lease_seconds=30)
        age = value(metrics, "crb_oldest_queued_seconds", stage="review")
        assert age is not None
        assert age >= 100
        assert value(metrics, "crb_oldest_queued_seconds", stage="match") is None
        client.close()


def test_only_the_latest_unfinished_sweeps_are_named(
    sqlite_store: Store, metrics: SchedulerMetrics, tmp_path: Path
) -> None:
    """A farm that has run a thousand sweeps has as many labels as one that runs twenty."""
    for number in range(SWEEPS_SHOWN + 3):
        plan(sqlite_store, agent=f"agent-{number:03}")
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        metrics.watch_farm(sqlite_store, client, lease_seconds=30)
        families = {family.name: family for family in metrics.registry.collect()}
        names = {sample.labels["sweep"] for sample in families["crb_trials"].samples}
        assert len(names) == SWEEPS_SHOWN
        client.close()
