"""What a worker counts of its judge's calls, against the loopback service and the real SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crb_worker.judge.loopback import AnthropicServer, Fault
from crb_worker.metrics import worker_metrics
from tests.crb_worker.judge.claude_support import Desk
from tests.crb_worker.judge.test_claude_calls import ONE, good, quick

__all__ = ["quick"]


def _counted(name: str, **labels: str) -> float:
    return worker_metrics().registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def raised() -> Callable[..., float]:
    """By how much a metric has risen since the test began."""
    before: dict[tuple[str, frozenset[tuple[str, str]]], float] = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in worker_metrics().registry.collect()
        for sample in family.samples
    }

    def since(name: str, **labels: str) -> float:
        return _counted(name, **labels) - before.get((name, frozenset(labels.items())), 0.0)

    return since


def test_every_call_counts_with_what_its_answer_reported(desk: Desk, raised: Callable[..., float]) -> None:
    """A fault and the answer after it are two calls; tokens and list price are those of the stored rows."""
    script: list[Any] = [Fault(429, retry_after=0), Fault(500), good]
    with AnthropicServer(script) as server:
        desk.judge(server).match("pr", *ONE, protocol="reviewbench")
    rows = desk.calls()
    model = rows[-1].model
    for outcome in ("rate_limited", "server_error", "answered"):
        assert raised("crb_judge_calls_total", model=model, outcome=outcome) == 1, outcome
    assert raised("crb_judge_call_seconds_count", model=model) == 3
    assert raised("crb_judge_rate_limit_pauses_total") == 1
    assert raised("crb_judge_rate_limit_wait_seconds_count") == 3
    answered = rows[-1]
    for kind in ("input", "output", "cache_read", "cache_write"):
        stored = getattr(answered, f"{kind}_tokens")
        assert raised("crb_judge_tokens_total", model=model, kind=kind) == (stored or 0), kind
    if answered.list_price_usd is None:
        assert raised("crb_judge_calls_without_price_total", model=model) == 1
    else:
        assert raised("crb_judge_list_price_usd_total", model=model) == pytest.approx(answered.list_price_usd)
    assert raised("crb_judge_charge_usd_total", model=model) == (answered.charge_usd or 0)


def test_a_stored_answer_is_no_call(desk: Desk, raised: Callable[..., float]) -> None:
    """A judgment that is taken up again asks nobody, so nothing is counted twice."""
    with AnthropicServer(good) as server:
        judge = desk.judge(server)
        judge.match("pr", *ONE, protocol="reviewbench")
        judge.match("pr", *ONE, protocol="reviewbench")
        assert len(server.requests) == 1
    model = desk.calls()[0].model
    assert raised("crb_judge_calls_total", model=model, outcome="answered") == 1
