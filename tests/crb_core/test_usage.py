"""Usage and cost: null is not 0, a charge needs its evidence, and tokens compare only between equal lists."""

from __future__ import annotations

import pytest

from crb_core.errors import InputError
from crb_core.usage import (
    LARGEST_FIGURE,
    ReviewCost,
    UsageRecord,
    charges,
    efficiency,
    failed_attempts,
    token_problem,
    usage_summary,
)

PROOF, OTHER = "a" * 64, "b" * 64


def record(**figures):
    return UsageRecord(**figures)


def test_totals_are_of_those_who_reported():
    """Two of three reported tokens: total and mean are of the two, with their number; nobody reported a cost."""
    found = usage_summary([record(total_tokens=100, models=("m",)), None, record(total_tokens=0, models=("m",))])
    tokens, cost = found.metrics["total_tokens"], found.metrics["cost_usd"]
    assert (tokens.total, tokens.mean, tokens.reported, tokens.reviews) == (100, 50, 2, 3)
    assert (cost.total, cost.mean, cost.reported, cost.reviews) == (None, None, 0, 3)
    assert found.reported_reviews == 2
    assert usage_summary([]).metrics["total_tokens"].total is None


def test_tokens_compare_only_between_equal_lists():
    """A total of all models that a harness ran is a wider figure than one of the model under test (seed B)."""
    one = usage_summary([record(total_tokens=1, models=("m",))])
    wider = usage_summary([record(total_tokens=9, models=("m", "small"))])
    unknown = usage_summary([record(total_tokens=9)])
    assert token_problem(one, one) is None
    assert "different models: m and m, small" in token_problem(one, wider)
    assert token_problem(one, unknown) == "a review does not say which models its tokens count"
    assert token_problem(unknown, unknown) == "a review does not say which models its tokens count"
    assert token_problem(one, usage_summary([None])) == "no review reported tokens"
    mixed = usage_summary([record(total_tokens=1, models=("m",)), record(total_tokens=1, models=("n",))])
    assert (mixed.models, mixed.models_reason) == (None, "the reviews count different models")


def test_a_charge_needs_evidence():
    """An amount that nothing proves is named apart, and never part of the total."""
    found = charges(
        [record(cost_usd=0.5, evidence=PROOF), record(cost_usd=9.0), record(cost_usd=0.0, evidence=OTHER), None]
    )
    assert (found.total_usd, found.observed, found.reviews) == (0.5, 2, 4)
    assert (found.unsupported, found.unsupported_usd) == (1, 9.0)
    assert found.evidence == (PROOF, OTHER)
    assert charges([None]).total_usd is None


def test_failed_attempts_are_counted_apart_and_the_silent_ones_named():
    """Of four, one charged, one claims without evidence, one reported nothing, one a token count of 0."""
    found = failed_attempts(
        [
            record(cost_usd=0.5, total_tokens=10, evidence=PROOF),
            record(cost_usd=9.0),
            None,
            record(total_tokens=0, evidence=OTHER),
        ]
    )
    assert (found.attempts, found.silent) == (4, 1)
    assert (found.total_usd, found.charged, found.without_evidence, found.evidence) == (0.5, 1, 1, (PROOF,))
    assert (found.total_tokens, found.tokens_reported) == (10, 2)
    nothing = failed_attempts([None])
    assert (nothing.attempts, nothing.silent, nothing.total_usd, nothing.total_tokens) == (1, 1, None, None)


def review(candidates=2, covered=1, milliseconds=30_000.0, **usage):
    return ReviewCost(
        candidates=candidates,
        covered=covered,
        milliseconds=milliseconds,
        usage=record(**({"cost_usd": 0.25, "evidence": PROOF, "total_tokens": 100} | usage)),
    )


def test_efficiency_by_hand():
    """Two reviews: 0.50 USD, 1 minute, 200 tokens, 4 findings, 2 covered; precision 0.5, recall 0.25."""
    found = efficiency([review(), review()], precision=0.5, recall=0.25)
    assert found.usd_per_finding.value == 0.125
    assert found.usd_per_covered_golden.value == 0.25
    assert found.ms_per_finding.value == 15_000
    assert found.tokens_per_covered_golden.value == 100
    # A review costs 0.25 USD and takes half a minute.
    assert (found.precision_per_usd.value, found.recall_per_usd.value) == (2.0, 1.0)
    assert (found.precision_per_minute.value, found.recall_per_minute.value) == (1.0, 0.5)


def test_a_partial_sample_gives_no_figure():
    """One review without a charge, a time or tokens makes the figures made of it undefined, with the count."""
    found = efficiency([review(), review(milliseconds=None, cost_usd=None, total_tokens=None)], precision=1, recall=1)
    assert found.usd_per_finding.reason == "only 1 of 2 scored reviews have an observed charge"
    assert found.precision_per_minute.reason == "only 1 of 2 scored reviews have a measured time"
    assert found.tokens_per_finding.reason == "only 1 of 2 scored reviews have a token total"
    assert [found.usd_per_finding.value, found.recall_per_usd.value] == [None, None]


def test_an_amount_without_evidence_buys_nothing():
    """Rule 21: only observed charges enter a per-dollar metric."""
    found = efficiency([review(evidence=None)], precision=1, recall=1)
    assert found.usd_per_finding.value is None
    assert found.ms_per_finding.value == 15_000


def test_no_division_by_nothing():
    """No finding, no covered golden, no charge, no score: undefined with a reason, not 0 and not infinite."""
    idle = efficiency([review(candidates=0, covered=0, cost_usd=0.0)], precision=None, recall=0.0)
    assert idle.usd_per_finding.reason == "there is no finding"
    assert idle.ms_per_covered_golden.reason == "there is no covered golden finding"
    assert idle.recall_per_usd.reason == "nothing was charged"
    assert idle.precision_per_minute.reason == "the metric is undefined"
    assert idle.recall_per_minute.value == 0.0
    assert efficiency([], precision=1, recall=1).ms_per_finding.reason == "no review was scored"


def test_no_figure_makes_another_one_infinite():
    """The largest figures still have a sum, and the smallest charge of all buys no infinite precision."""
    most = [record(cost_usd=LARGEST_FIGURE, evidence=PROOF, total_tokens=LARGEST_FIGURE)] * 1000
    assert charges(most).mean_usd == pytest.approx(LARGEST_FIGURE)
    assert usage_summary(most).metrics["total_tokens"].total == pytest.approx(1000 * LARGEST_FIGURE)
    for least in (5e-324, 1e-310):
        found = efficiency([review(cost_usd=least), review(cost_usd=0.0)], precision=1.0, recall=0.0)
        assert (found.precision_per_usd.value, found.precision_per_usd.reason) == (None, "nothing was charged")


def test_a_stored_report_is_read_strictly():
    """Unknown keys are ignored (facts A13); which models it counts only the report itself can say (seed B)."""
    found = UsageRecord.of_report({"total_tokens": 5, "shoe_size": 43, "models": ["b", "a", "a"]}, evidence=PROOF)
    assert found == UsageRecord(total_tokens=5, models=("a", "b"), evidence=PROOF)
    for unknown in ({}, {"models": None}, {"models": []}, {"models": "b"}, {"models": [1]}):
        assert UsageRecord.of_report({"total_tokens": 5} | unknown).models is None
    assert UsageRecord.of_report(None) is None


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "5", True, 1.7e308, 9 * 10**308])
def test_a_figure_that_is_none_is_refused(value):
    """Negative, not finite, absurdly large, text or a truth value: named with its field."""
    with pytest.raises(InputError, match=r"usage\.total_tokens"):
        UsageRecord.of_report({"total_tokens": value})
