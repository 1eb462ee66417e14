"""What a scheduler serves is what Prometheus and OpenMetrics read, also where it is started again in its process."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families
from sqlalchemy import update

from crb_core.settings import load_settings
from crb_core.store import Store
from crb_core.store.tables import SweepRow, core
from crb_core.telemetry import MetricsServer
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.loop import run_scheduler
from crb_scheduler.metrics import SchedulerMetrics, scheduler_metrics
from crb_worker.app import make_app
from crb_worker.metrics import WorkerMetrics
from tests.crb_core.store.planned import plan
from tests.crb_scheduler.running_sweeps import PHASES
from tests.e2e.farm import wait_for

__all__ = ["read_scrape"]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read_scrape(url: str) -> Samples:
    """What is served at an address, in both forms, by the library's own parsers. No series is there twice."""
    found = []
    for accepted, parse in (("text/plain", prometheus_families), (OPENMETRICS, openmetrics_families)):
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accepted}), timeout=30) as answer:
            assert answer.headers["content-type"].startswith(accepted.split(";")[0])
            text = answer.read().decode()
        samples: Samples = {}
        for family in parse(text):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in samples, f"{key} is served twice"
                samples[key] = sample.value
        found.append(samples)
    plain, strict = ({name for name, _ in each if not name.endswith("_created")} for each in found)
    assert plain == strict
    return found[0]


def counters(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if key[0].endswith(("_total", "_count", "_bucket"))}


def test_a_scheduler_that_is_started_again_goes_on_counting(sqlite_store: Store, tmp_path: Path) -> None:
    """One registry a process: no series twice, no counter below what it was, and none of its gauges in between."""
    plan(sqlite_store, pull_requests=3)
    with sqlite_store.write() as connection:
        # As a store may hold it that was made before names were checked.
        connection.execute(update(core(SweepRow)).values(name='a "name"\nof\\ two lines'))
    metrics = SchedulerMetrics()
    settings = load_settings(home=tmp_path)
    with (
        EmbeddedBroker(tmp_path / "broker-folder") as broker,
        MetricsServer(
            metrics.registry, process="scheduler", address="127.0.0.1", port=0, folder=tmp_path / "m"
        ) as server,
    ):

        def while_it_runs(look: Callable[[], Samples]) -> Samples:
            stop = threading.Event()
            turns = metrics.registry.get_sample_value("crb_dispatch_seconds_count") or 0
            thread = threading.Thread(
                target=run_scheduler,
                args=(sqlite_store, make_app(broker.url, events=False), broker.url, settings, stop),
                kwargs={"metrics": metrics},
            )
            thread.start()
            try:
                wait_for(lambda: (metrics.registry.get_sample_value("crb_dispatch_seconds_count") or 0) > turns)
                return look()
            finally:
                stop.set()
                thread.join(timeout=30)

        first = while_it_runs(lambda: read_scrape(server.url))
        between = read_scrape(server.url)
        second = while_it_runs(lambda: read_scrape(server.url))
    assert not any(name == "crb_steps" for name, _ in between)
    assert {key for key in first if key[0].startswith("crb_")} <= set(second)
    for key, value in counters(first).items():
        assert second[key] >= value, key
    assert ("crb_trials", frozenset({("sweep", 'a "name"\nof\\ two lines'), ("state", "waiting")})) in second


def test_a_process_has_one_set_of_counters() -> None:
    """A second scheduler of the process counts on."""
    assert scheduler_metrics() is scheduler_metrics()


@pytest.mark.parametrize("agent", ["lint", 'a"\n} x\\', "審査員 🦀", "e\u202evil"])
def test_what_a_worker_counted_is_read_by_both(agent: str, tmp_path: Path) -> None:
    """Names of any kind are escaped; a value without a number is NaN and not 0."""
    metrics = WorkerMetrics()
    metrics.watch_disk(tmp_path / "gone")
    metrics.attempt_ended(agent, "succeeded", phases_ms=PHASES, review_ms=950.0)
    metrics.judge_call_ended(agent, "answered", milliseconds=1.0, usage={"input_tokens": 1, "list_price_usd": 0.5})
    metrics.judge_step_ended("match", "done", 1.0)
    metrics.set_slots({"review": 2})
    with MetricsServer(
        metrics.registry, process="worker", address="127.0.0.1", port=0, folder=tmp_path / "m"
    ) as server:
        samples = read_scrape(server.url)
    assert samples["crb_attempts_total", frozenset({("agent", agent), ("outcome", "succeeded")})] == 1
    assert samples["crb_disk_free_bytes", frozenset()] != samples["crb_disk_free_bytes", frozenset()]
