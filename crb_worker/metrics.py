"""What a worker process counts for Prometheus. No label names a trial, a pull request or a sweep."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from crb_core.phases import split
from crb_core.telemetry import SECONDS_BUCKETS, AwayClock, FewNames, new_registry

__all__ = ["WorkerMetrics", "worker_metrics"]


#: Agents and models that have series of their own in one process.
AGENTS_NAMED, MODELS_NAMED = 200, 50


class WorkerMetrics:
    """The metrics of one worker process. Counters begin at 0 with the process; ``rate()`` allows for that."""

    def __init__(self) -> None:
        self.registry = new_registry("worker")
        self._agents, self._models = FewNames(AGENTS_NAMED), FewNames(MODELS_NAMED)
        registry = self.registry
        self.queue_wait = Histogram(
            "crb_queue_wait_seconds",
            "From the publishing of a step to its take, by stage.",
            ["stage"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.phase = Histogram(
            "crb_phase_seconds",
            "Parts of an attempt: prepare, pull, slot, review, collect, teardown.",
            ["phase"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.review = Histogram(
            "crb_review_seconds",
            "review_ms of the attempts that succeeded, by agent.",
            ["agent"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.judge_step = Histogram(
            "crb_judge_step_seconds",
            "From the last take of a judge's step that is done to its end, by stage.",
            ["stage"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.attempts = Counter(
            "crb_attempts", "Attempts that ended, by agent and outcome.", ["agent", "outcome"], registry=registry
        )
        self.late = Counter(
            "crb_late_results",
            "Results that came after their step had been given to another worker, by stage.",
            ["stage"],
            registry=registry,
        )
        self.judge_steps = Counter(
            "crb_judge_steps",
            "Judge steps that ended here, by stage and result: done, late, failed, deferred, stopped.",
            ["stage", "result"],
            registry=registry,
        )
        self.running = Gauge("crb_worker_running_steps", "Steps held now, by stage.", ["stage"], registry=registry)
        self.slots = Gauge("crb_worker_slots", "Steps that may run at once, by queue.", ["queue"], registry=registry)
        self.judge_calls = Counter(
            "crb_judge_calls", "Calls of a judge's model, by outcome.", ["model", "outcome"], registry=registry
        )
        self.judge_call = Histogram(
            "crb_judge_call_seconds",
            "Duration of a judge's call, answered or not; batches are not timed.",
            ["model"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.judge_tokens = Counter(
            "crb_judge_tokens",
            "Tokens that the answers reported, by kind: input, output, cache_read, cache_write.",
            ["model", "kind"],
            registry=registry,
        )
        self.judge_list_price = Counter(
            "crb_judge_list_price_usd",
            "List price of the judge's calls in USD: an estimate from a dated price table, never a charge.",
            ["model"],
            registry=registry,
        )
        self.judge_charge = Counter(
            "crb_judge_charge_usd", "What the service itself said it charged, in USD.", ["model"], registry=registry
        )
        self.judge_unpriced = Counter(
            "crb_judge_calls_without_price",
            "Answered calls whose list price is not known; they are in no sum.",
            ["model"],
            registry=registry,
        )
        self.rate_limit_wait = Histogram(
            "crb_judge_rate_limit_wait_seconds",
            "Waiting of one call for its place in the rate limit.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.rate_limited = Counter(
            "crb_judge_rate_limit_pauses", "Pauses that a model service asked for.", registry=registry
        )
        self.store_away = AwayClock(
            Counter("crb_worker_store_away_seconds", "Seconds for which the store did not answer.", registry=registry)
        )
        self.disk_free = Gauge("crb_disk_free_bytes", "Free space where CRB_HOME is.", registry=registry)
        self.disk_size = Gauge("crb_disk_size_bytes", "Size of the file system of CRB_HOME.", registry=registry)

    def watch_disk(self, folder: Path) -> None:
        """Serve the free space of a folder's file system, read at each scrape; NaN where it cannot be read."""

        def read(which: str) -> float:
            try:
                return float(getattr(shutil.disk_usage(folder), which))
            except OSError:
                return float("nan")

        self.disk_free.set_function(lambda: read("free"))
        self.disk_size.set_function(lambda: read("total"))

    def set_slots(self, slots: Mapping[str, int]) -> None:
        for queue, count in slots.items():
            self.slots.labels(queue).set(count)
            self.running.labels(queue)

    @contextmanager
    def holding(self, stage: str, queue_ms: float | None) -> Iterator[None]:
        """Around a step that this worker holds."""
        if queue_ms is not None:
            self.queue_wait.labels(stage).observe(queue_ms / 1000)
        with self.running.labels(stage).track_inprogress():
            yield

    def attempt_ended(
        self, agent: str, outcome: str, *, phases_ms: Mapping[str, float] | None, review_ms: float | None
    ) -> None:
        """An attempt whose result is in the store."""
        agent = self._agents(agent)
        self.attempts.labels(agent, outcome).inc()
        for part, milliseconds in split(phases_ms, review_ms).items():
            # The queue is counted at the take, for every stage alike.
            if part != "queue":
                self.phase.labels(part).observe(milliseconds / 1000)
        if outcome == "succeeded" and review_ms is not None:
            self.review.labels(agent).observe(review_ms / 1000)

    def judge_step_ended(self, stage: str, result: str, seconds: float) -> None:
        self.judge_steps.labels(stage, result).inc()
        # A step that waits for a batch is taken again and again; only its last take says how long it took.
        if result == "done":
            self.judge_step.labels(stage).observe(seconds)

    def judge_call_ended(
        self, model: str, outcome: str, *, milliseconds: float | None, usage: Mapping[str, object] | None = None
    ) -> None:
        """A call that ended. ``usage`` are the usage columns of an answered call's row; what it lacks stays missing."""
        model = self._models(model)
        self.judge_calls.labels(model, outcome).inc()
        if milliseconds is not None:
            self.judge_call.labels(model).observe(milliseconds / 1000)
        if usage is None:
            return
        for kind in ("input", "output", "cache_read", "cache_write"):
            tokens = usage.get(f"{kind}_tokens")
            if isinstance(tokens, int):
                self.judge_tokens.labels(model, kind).inc(tokens)
        price, charge = usage.get("list_price_usd"), usage.get("charge_usd")
        if isinstance(price, int | float):
            self.judge_list_price.labels(model).inc(price)
        else:
            self.judge_unpriced.labels(model).inc()
        if isinstance(charge, int | float):
            self.judge_charge.labels(model).inc(charge)


@functools.cache
def worker_metrics() -> WorkerMetrics:
    """The metrics of this process."""
    return WorkerMetrics()
