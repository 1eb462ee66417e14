"""What a worker counts, and that no label can grow without bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from crb_core.telemetry import OTHERS
from crb_worker.metrics import AGENTS_NAMED, MODELS_NAMED, WorkerMetrics
from tests.crb_scheduler.running_sweeps import PHASES

#: Labels that a worker may use; none of them names a trial, a pull request, a sweep or a worker.
LABELS = {"agent", "outcome", "stage", "phase", "queue", "result", "model", "kind", "le", "process", "version"}


@pytest.fixture
def metrics() -> WorkerMetrics:
    return WorkerMetrics()


def value(metrics: WorkerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_an_attempt_counts_by_agent_and_outcome_and_in_every_part_it_has(metrics: WorkerMetrics) -> None:
    """A histogram a part, in seconds; the queue is counted at the take; review by agent where it succeeded."""
    metrics.attempt_ended("lint", "succeeded", phases_ms=PHASES, review_ms=950.0)
    metrics.attempt_ended("lint", "timeout", phases_ms={"prepare": 1000.0}, review_ms=5000.0)
    metrics.attempt_ended("lint", "engine_error", phases_ms=None, review_ms=None)
    outcomes = ("succeeded", "timeout", "engine_error")
    assert [value(metrics, "crb_attempts_total", agent="lint", outcome=each) for each in outcomes] == [1, 1, 1]
    assert value(metrics, "crb_phase_seconds_count", phase="prepare") == 2
    assert value(metrics, "crb_phase_seconds_sum", phase="prepare") == pytest.approx(1.030)
    assert value(metrics, "crb_phase_seconds_count", phase="review") == 2
    assert value(metrics, "crb_phase_seconds_count", phase="queue") is None
    assert value(metrics, "crb_review_seconds_sum", agent="lint") == pytest.approx(0.950)


def test_a_held_step_is_running_until_it_ends(metrics: WorkerMetrics) -> None:
    """Also when its work raises. A negative wait, which clocks can give, is None and not counted."""

    def fails() -> None:
        with metrics.holding("match", 250.0):
            assert value(metrics, "crb_worker_running_steps", stage="match") == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    with metrics.holding("match", None):
        pass
    assert value(metrics, "crb_worker_running_steps", stage="match") == 0
    assert value(metrics, "crb_queue_wait_seconds_count", stage="match") == 1
    assert value(metrics, "crb_queue_wait_seconds_sum", stage="match") == 0.25


def test_only_a_judge_step_that_is_done_says_how_long_it_took(metrics: WorkerMetrics) -> None:
    """One that waits for a batch is taken again and again."""
    for result, seconds in (("deferred", 0.1), ("deferred", 0.1), ("done", 3.0)):
        metrics.judge_step_ended("classify", result, seconds)
    assert value(metrics, "crb_judge_steps_total", stage="classify", result="deferred") == 2
    assert value(metrics, "crb_judge_step_seconds_sum", stage="classify") == 3.0


@pytest.mark.parametrize(
    ("usage", "tokens", "price", "charge", "unpriced"),
    [
        (
            {
                "input_tokens": 10,
                "output_tokens": 2,
                "cache_read_tokens": 7,
                "cache_write_tokens": 0,
                "list_price_usd": 0.25,
                "charge_usd": None,
            },
            {"input": 10, "output": 2, "cache_read": 7, "cache_write": 0},
            0.25,
            None,
            None,
        ),
        ({"input_tokens": 5, "list_price_usd": None, "charge_usd": 0.5}, {"input": 5}, None, 0.5, 1),
    ],
)
def test_tokens_and_money_are_what_was_reported(
    metrics: WorkerMetrics,
    usage: dict[str, Any],
    tokens: dict[str, int],
    price: float | None,
    charge: float | None,
    unpriced: int | None,
) -> None:
    """List price and charge are apart; what an answer does not report is in no sum, and calls without a price count."""
    metrics.judge_call_ended("m", "answered", milliseconds=1500.0, usage=usage)
    assert value(metrics, "crb_judge_calls_total", model="m", outcome="answered") == 1
    assert value(metrics, "crb_judge_call_seconds_sum", model="m") == 1.5
    kinds = ("input", "output", "cache_read", "cache_write")
    found = {kind: value(metrics, "crb_judge_tokens_total", model="m", kind=kind) for kind in kinds}
    assert {kind: count for kind, count in found.items() if count is not None} == tokens
    assert value(metrics, "crb_judge_list_price_usd_total", model="m") == price
    assert value(metrics, "crb_judge_charge_usd_total", model="m") == charge
    assert value(metrics, "crb_judge_calls_without_price_total", model="m") == unpriced


def test_a_call_that_failed_has_no_usage(metrics: WorkerMetrics) -> None:
    """It counts by its outcome, and nothing of it is a price that is not known."""
    metrics.judge_call_ended("m", "overloaded", milliseconds=20.0)
    assert value(metrics, "crb_judge_calls_total", model="m", outcome="overloaded") == 1
    assert value(metrics, "crb_judge_calls_without_price_total", model="m") is None


def test_the_disk_is_read_at_each_scrape(metrics: WorkerMetrics, tmp_path: Path) -> None:
    """A folder that is gone is NaN, not 0: an empty disk would raise an alarm."""
    metrics.watch_disk(tmp_path)
    free = value(metrics, "crb_disk_free_bytes")
    assert free is not None
    assert free > 0
    metrics.watch_disk(tmp_path / "gone")
    missing = value(metrics, "crb_disk_free_bytes")
    assert missing is not None
    assert missing != missing


def test_labels_do_not_grow_without_end(metrics: WorkerMetrics) -> None:
    """Agents and models beyond the first ones count together, so that sums stay right."""
    for number in range(AGENTS_NAMED + 5):
        metrics.attempt_ended(f"agent-{number}", "succeeded", phases_ms=None, review_ms=1.0)
        metrics.attempt_ended("agent-0", "succeeded", phases_ms=None, review_ms=1.0)
        metrics.judge_call_ended(f"model-{number}", "answered", milliseconds=1.0)
    assert value(metrics, "crb_attempts_total", agent=OTHERS, outcome="succeeded") == 5
    assert value(metrics, "crb_attempts_total", agent="agent-0", outcome="succeeded") == AGENTS_NAMED + 6
    assert value(metrics, "crb_judge_calls_total", model=OTHERS, outcome="answered") == AGENTS_NAMED + 5 - MODELS_NAMED
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    assert len({sample.labels["agent"] for sample in samples if "agent" in sample.labels}) == AGENTS_NAMED + 1


def test_no_label_names_a_trial(metrics: WorkerMetrics) -> None:
    """Whatever was counted, the labels are of small sets; a hostile agent name is escaped."""
    metrics.attempt_ended('a"\n} x', "succeeded", phases_ms=PHASES, review_ms=1.0)
    metrics.judge_call_ended("m", "answered", milliseconds=1.0, usage={"input_tokens": 1})
    metrics.judge_step_ended("match", "done", 1.0)
    metrics.set_slots({"review": 2})
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    assert {label for sample in samples for label in sample.labels} <= LABELS
    assert b'agent="a\\"\\n} x"' in generate_latest(metrics.registry)
