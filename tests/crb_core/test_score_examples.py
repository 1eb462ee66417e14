"""Scores that a reader checks by hand against the seeds."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.aggregate import mean
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.metrics import MetricSet, f_measure, score
from crb_core.strata import Subset


def golden(tp_fp: str = "tp", producer: str = "human", **axes: Any) -> GoldenFinding:
    return GoldenFinding(
        file="a.py", start_line=1, end_line=1, message="golden", producer=producer, label=Label(tp_fp=tp_fp, **axes)
    )


def judged(
    goldens: list[GoldenFinding],
    candidates: int,
    matches: dict[int, list[int]] | None = None,
    labels: dict[int, Label] | None = None,
    key: str = "pr",
) -> JudgedPullRequest:
    return JudgedPullRequest(
        key=key,
        golden=tuple(goldens),
        candidates=tuple(
            CandidateFinding(file="a.py", start_line=1, end_line=1, message=f"{n}", producer="agent")
            for n in range(candidates)
        ),
        correspondences=tuple(Correspondence(candidate=c, golden=tuple(g)) for c, g in (matches or {}).items()),
        classifications=tuple(Classification(candidate=c, label=label) for c, label in (labels or {}).items()),
    )


def overall(*prs: JudgedPullRequest, **options: Any) -> MetricSet:
    return score(prs, **options).micro.overall


@pytest.mark.parametrize(("novel", "expected"), [(2, 7 / 12), (100, 105 / 110)])
def test_augmented_recall_grows_with_novel_findings_alone(novel, expected):
    """Seed A 7.2: 5 of 10 golden TPs found; 2 novel TPs give 7/12, 100 give 105/110, grounded recall stays 1/2."""
    pr = judged(
        [golden()] * 10,
        5 + novel,
        {n: [n] for n in range(5)},
        {n: Label(tp_fp="tp") for n in range(5, 5 + novel)},
    )
    metrics = overall(pr)
    assert (metrics.augmented_recall, metrics.grounded_recall) == (expected, 0.5)


def test_one_candidate_that_matches_two_golden_tps():
    """Seed A 6.2.4: both are covered for recall, but only one matched TP counts for precision."""
    assert overall(judged([golden(), golden()], 1, {0: [0, 1]})) == MetricSet(
        grounded_precision=1.0,
        grounded_recall=1.0,
        grounded_f=1.0,
        augmented_precision=1.0,
        augmented_recall=1.0,
        augmented_f=1.0,
        novel_tp_count=0,
        novel_tp_yield=0.0,
        candidate_count=1,
        golden_tp_count=2,
        matched_count=1,
        matched_tp_count=1,
        unmatched_count=0,
        unmatched_tp_count=0,
        unmatched_fp_count=0,
        unclassified_count=0,
        golden_covered_count=2,
    )


def test_an_empty_review_of_golden_tps():
    """Nothing reported: precisions are undefined, recalls are 0 (facts A9)."""
    metrics = overall(judged([golden()], 0))
    assert (metrics.grounded_precision, metrics.augmented_precision) == (None, None)
    assert (metrics.grounded_recall, metrics.augmented_recall) == (0.0, 0.0)
    assert (metrics.grounded_f, metrics.augmented_f) == (None, None)


def test_a_golden_set_of_false_positives_only():
    """Recall is undefined, and matching the known bad finding costs precision (facts A3)."""
    metrics = overall(judged([golden("fp")], 1, {0: [0]}))
    assert (metrics.grounded_precision, metrics.grounded_recall, metrics.grounded_f) == (0.0, None, None)
    assert (metrics.augmented_precision, metrics.augmented_recall) == (0.0, None)


def test_a_golden_set_emptied_by_exclusion():
    """No golden finding and one candidate judged tp: grounded undefined, augmented 1 (facts A9)."""
    metrics = overall(judged([], 1, labels={0: Label(tp_fp="tp")}))
    assert (metrics.grounded_recall, metrics.augmented_precision, metrics.augmented_recall) == (None, 1.0, 1.0)


def test_no_pull_request_at_all():
    """Everything is undefined and every count 0; nothing is invented."""
    result = score([])
    assert result.macro == result.micro
    assert set(result.micro.overall.model_dump().values()) == {None, 0}


def test_a_second_candidate_on_a_claimed_golden_is_judged_on_its_own():
    """It claims nothing, still covers, and counts as novel if the classifier says tp (facts A7)."""
    metrics = overall(judged([golden()], 2, {0: [0], 1: [0]}, {1: Label(tp_fp="tp")}))
    assert (metrics.matched_count, metrics.unmatched_tp_count, metrics.golden_covered_count) == (1, 1, 1)


def test_a_candidate_claims_the_first_free_golden_in_golden_order():
    """Candidate 0 takes golden 0; candidate 1 names 0 and 2 in any order and takes 2, with its label fp."""
    metrics = overall(judged([golden(), golden(), golden("fp")], 2, {1: [2, 0], 0: [0]}))
    assert (metrics.matched_count, metrics.matched_tp_count, metrics.golden_covered_count) == (2, 1, 1)


def test_a_candidate_counts_where_it_claims_and_covers_where_it_matches():
    """Claiming a high golden and covering a low one: candidate in high, coverage in each golden's own stratum."""
    pr = judged([golden(severity="high"), golden(severity="low")], 1, {0: [0, 1]})
    strata = score([pr]).micro.by_severity
    assert (strata["high"].matched_count, strata["high"].golden_covered_count) == (1, 1)
    assert (strata["low"].matched_count, strata["low"].golden_covered_count) == (0, 1)
    assert strata["low"].grounded_precision is None
    assert strata["low"].grounded_recall == 1.0


def test_claims_are_not_made_again_under_a_filter():
    """Candidate 1 matches golden 0 only, which candidate 0 claimed: no filter lets it claim (rule 5)."""
    pr = judged(
        [golden(severity="high"), golden(severity="low")],
        2,
        {0: [0, 1], 1: [0]},
        {1: Label(tp_fp="fp", severity="high")},
    )
    low = overall(pr, subset=Subset(severity=frozenset({"low"})))
    assert (low.candidate_count, low.golden_covered_count) == (0, 1)
    high = overall(pr, subset=Subset(severity=frozenset({"high"})))
    assert (high.matched_count, high.unmatched_fp_count) == (1, 1)


def test_macro_is_the_mean_where_defined_and_micro_pools():
    """1/1 and 1/4 recall: macro 0.625, micro 2/5; the third pull request has no golden TP and is not in n."""
    prs = [
        judged([golden()], 1, {0: [0]}, key="a"),
        judged([golden()] * 4, 1, {0: [0]}, key="b"),
        judged([], 0, key="c"),
    ]
    result = score(prs)
    assert (result.macro.overall.grounded_recall, result.micro.overall.grounded_recall) == (0.625, 0.4)
    assert result.n["overall"]["grounded_recall"] == 2
    assert result.macro.overall.golden_tp_count == result.micro.overall.golden_tp_count == 5


def test_means_do_not_depend_on_order():
    """0.1 + 0.2 + 0.3 and its reverse differ in floating point; their means must not (same bits everywhere)."""
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.2, 0.1]) == (0.6 / 3, 3)
    assert mean([None, None]) == (None, 0)


def test_macro_f_comes_from_macro_precision_and_recall():
    """Not the mean of the pull requests' f: P = 1 and 1, R = 1 and 0.25 give f of (1, 0.625)."""
    prs = [judged([golden()], 1, {0: [0]}, key="a"), judged([golden()] * 4, 1, {0: [0]}, key="b")]
    assert score(prs).macro.overall.grounded_f == pytest.approx(2 * 0.625 / 1.625)


def test_one_unclassified_candidate_withholds_augmented_metrics_everywhere():
    """In its pull request, in macro, in micro, in every stratum and filter; the others keep their own (rule 10)."""
    clean = judged([golden(severity="high")], 1, {0: [0]}, key="clean")
    partial = judged([golden(severity="low")], 1, key="partial")
    result = score([clean, partial])
    assert result.per_pull_request[0].overall.augmented_precision == 1.0
    assert result.per_pull_request[1].overall.augmented_precision is None
    for level in (result.macro, result.micro):
        for metrics in (level.overall, *level.by_severity.values()):
            assert metrics.augmented_precision is None
            assert metrics.augmented_recall is None
            assert metrics.augmented_f is None
            assert metrics.novel_tp_yield is None
            assert metrics.unclassified_count == 1
        assert level.by_severity["high"].grounded_recall == 1.0
    high = score([clean, partial], subset=Subset(severity=frozenset({"high"}))).macro.overall
    assert (high.augmented_precision, high.unclassified_count, high.unmatched_count) == (None, 1, 0)
    assert result.micro.overall.unmatched_count == 1


def test_the_producer_axis_filters_goldens_only():
    """Unmatched candidates stay, augmented metrics are withheld (rule 7)."""
    pr = judged([golden(producer="human"), golden(producer="tool")], 3, {0: [0], 1: [1]}, {2: Label(tp_fp="tp")})
    metrics = overall(pr, subset=Subset(producer=frozenset({"tool"})))
    assert (metrics.golden_tp_count, metrics.matched_count, metrics.unmatched_count) == (1, 1, 1)
    assert (metrics.grounded_recall, metrics.augmented_precision, metrics.novel_tp_yield) == (1.0, None, None)


def test_a_finding_without_a_value_is_in_no_stratum():
    """A golden without severity is in no severity stratum and in no severity filter, but in the whole."""
    pr = judged([golden(), golden(severity="high")], 0)
    result = score([pr])
    assert result.micro.overall.golden_tp_count == 2
    assert {value: metrics.golden_tp_count for value, metrics in result.micro.by_severity.items()} == {"high": 1}


@pytest.mark.parametrize(
    ("precision", "recall", "beta", "expected"),
    [
        (0.5, 0.5, 1, 0.5),
        (1.0, 0.25, 1, 0.4),
        (1.0, 0.25, 2, 5 * 0.25 / 4.25),
        (0.0, 0.0, 1, 0.0),
        (0.0, 1.0, 1, 0.0),
        (None, 1.0, 1, None),
        (1.0, None, 1, None),
    ],
)
def test_f_measure(precision, recall, beta, expected):
    """(1 + b2) P R / (b2 P + R); null where a part is null, 0 where both are 0 (seed A 7.4)."""
    assert f_measure(precision, recall, beta) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("beta", [0.0999, 10.001, 0, -1, float("nan"), float("inf"), True])
def test_beta_out_of_range_is_refused(beta):
    """Beta is 0.1 to 10."""
    with pytest.raises(InputError, match="beta is"):
        score([], beta=beta)


def test_equal_pull_request_keys_are_refused():
    """Two rounds in one list would be pooled silently, so the second key is an error."""
    with pytest.raises(InputError, match="'pr' is already given at pull_requests\\[0\\]"):
        score([judged([], 0), judged([], 0)])


def test_contradictions_name_the_pull_request():
    """A judgment from a store is checked too: a classification of a claimed candidate."""
    with pytest.raises(InputError, match="pull request pr: candidate 0 claims golden finding 0"):
        score([judged([golden()], 1, {0: [0]}, {0: Label(tp_fp="tp")})])


def test_an_empty_intersection_admits_nothing():
    """Two filters that exclude each other leave an empty subset, not an unrestricted one."""
    subset = Subset(severity=frozenset({"high"})) & Subset(severity=frozenset({"low"}))
    assert overall(judged([golden(severity="high")], 0), subset=subset).golden_tp_count == 0


def test_a_filter_names_its_unknown_value():
    """An enum axis refuses what it does not have."""
    with pytest.raises(InputError, match="'huge' is not a value of difficulty"):
        Subset.parse(difficulty=["huge"])
