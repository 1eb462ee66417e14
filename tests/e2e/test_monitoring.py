"""Metrics and progress of a real farm: scheduler and workers as processes, a broker, a store."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.settings import load_settings
from crb_core.store import Store
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.loop import run_scheduler
from crb_scheduler.metrics import SchedulerMetrics
from crb_scheduler.progress import sweep_progress
from crb_worker.app import make_app
from tests.crb_core.store.planned import plan
from tests.crb_scheduler.test_scrapes import read_scrape
from tests.e2e.farm import Farm, start, wait_for
from tests.e2e.parts import check_every_part_is_measured

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        running = Farm(tmp_path, broker)
        yield running
        running.close()


def targets(farm: Farm, process: str) -> set[str]:
    """Where processes of a kind say that they serve their metrics."""
    documents = [json.loads(file.read_text()) for file in (farm.home / "metrics").glob("*.json")]
    return {each[0]["targets"][0] for each in documents if each[0]["labels"]["process"] == process}


def scrape(target: str) -> Samples:
    """What a process serves, as Prometheus reads it."""
    return read_scrape(f"http://{target}/metrics")


def total(scraped: list[Samples], name: str, **labels: str) -> float:
    """The sum of a metric over processes and over the labels that are not given."""
    wanted = set(labels.items())
    return sum(
        value for samples in scraped for (found, has), value in samples.items() if found == name and wanted <= has
    )


def test_a_farm_tells_what_it_does(farm: Farm) -> None:
    """Two workers on one port both serve; together they count every attempt and step once; the store's truth agrees;

    a worker that was killed is silent after its lease, and the next one starts its counters at 0.
    """
    farm.start("scheduler", "--metrics-port", "0")
    workers = [farm.start("worker", "--metrics-port", "29464") for _ in range(2)]
    wait_for(lambda: len(targets(farm, "worker")) == 2 and targets(farm, "scheduler"))
    begun = farm.crb("sweep", "start", "--agent", "minimal", "--subset", "smoke", "--rounds", "2", "--name", "told")
    assert begun.returncode == 0, begun.stderr
    store = farm.store
    wait_for(lambda: farm.progress(store, "told").finished)
    trials = farm.progress(store, "told").trials
    (scheduler,) = targets(farm, "scheduler")
    wait_for(
        lambda: (
            total([scrape(each) for each in targets(farm, "worker")], "crb_judge_steps_total", result="done")
            == 2 * trials
        )
    )
    scraped = [scrape(each) for each in targets(farm, "worker")]
    assert total(scraped, "crb_attempts_total", agent="minimal", outcome="succeeded") == trials
    assert total(scraped, "crb_attempts_total") == trials
    for phase in ("prepare", "slot", "review", "collect", "teardown"):
        assert total(scraped, "crb_phase_seconds_count", phase=phase) == trials, phase
    for stage in ("match", "score"):
        assert total(scraped, "crb_judge_step_seconds_count", stage=stage) == trials
    assert total(scraped, "crb_worker_running_steps") == 0
    assert total(scraped, "crb_worker_slots", queue="score") == 4
    truth = [scrape(scheduler)]
    assert total(truth, "crb_steps_published_total") >= 3 * trials
    assert total(truth, "crb_steps", state="failed") == 0
    assert total(truth, "crb_broker_messages") == 0
    wait_for(lambda: total([scrape(scheduler)], "crb_workers", state="alive") == 2)

    with store.read() as connection:
        progress = sweep_progress(connection, farm.progress(store, "told").sweep_id)
    assert [set(worker.slots) for worker in progress.workers] == [{"review", "match", "classify", "score"}] * 2
    for worker in progress.workers:
        assert worker.status is not None
        assert worker.status["disk_free_bytes"] > 0
        assert worker.status["cores"] >= 1

    check_every_part_is_measured(store)

    killed, stays = workers
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    wait_for(lambda: total([scrape(scheduler)], "crb_workers", state="silent") == 1)
    assert total([scrape(scheduler)], "crb_slots", queue="score") == 2
    farm.start("worker", "--metrics-port", "29464")

    def answering() -> list[Samples]:
        found = []
        for target in targets(farm, "worker"):
            try:
                found.append(scrape(target))
            except OSError:
                return []
        return found

    wait_for(lambda: len(answering()) == 2)
    wait_for(lambda: total([scrape(scheduler)], "crb_workers", state="alive") == 2)
    counts = sorted(total([samples], "crb_attempts_total") for samples in answering())
    assert counts[0] == 0
    assert stays.poll() is None
    store.close()
    farm.close()
    assert list((farm.home / "metrics").iterdir()) == []


def test_steps_that_are_lost_are_counted_where_they_are_given_back(farm: Farm) -> None:
    """A step whose worker is not heard of for the lease: the scheduler that gives it back counts it, once."""
    store: Store = farm.store
    planned = plan(store)
    (step_id,) = planned.ids()
    planned.take(step_id, worker="gone")
    metrics, stop = SchedulerMetrics(), threading.Event()
    settings = load_settings(home=farm.home, lease_seconds=0.5)
    thread = threading.Thread(
        target=run_scheduler,
        args=(store, make_app(farm.broker.url, events=False), farm.broker.url, settings, stop),
        kwargs={"metrics": metrics},
    )
    thread.start()
    try:
        wait_for(lambda: planned.state(step_id) == "ready")
        wait_for(lambda: metrics.registry.get_sample_value("crb_steps_lost_total") == 1)
        assert metrics.registry.get_sample_value("crb_steps", {"stage": "review", "state": "ready"}) == 1
    finally:
        stop.set()
        thread.join(timeout=30)
    store.close()


def test_a_local_run_serves_its_metrics_as_long_as_it_lasts(tmp_path: Path) -> None:
    """Its scheduler and its worker, each on a port of its own."""
    running = start(
        "demo", "--subset", "smoke", "--runner", "process", home=tmp_path, log=tmp_path / "log", CRB_METRICS_PORT="0"
    )
    folder = Farm(tmp_path, EmbeddedBroker(tmp_path / "unused"))
    try:
        wait_for(lambda: targets(folder, "scheduler") and targets(folder, "worker"))
        (scheduler,), (worker,) = targets(folder, "scheduler"), targets(folder, "worker")
        assert total([scrape(scheduler)], "crb_store_up") == 1
        assert ("crb_worker_store_away_seconds_total", frozenset()) in scrape(worker)
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=120)
    # The worker of a run that was broken off has no time to tidy up; the next run does it.
    assert targets(folder, "scheduler") == set()
