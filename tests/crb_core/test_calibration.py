"""Figures of a calibration, on examples that can be checked by hand."""

from __future__ import annotations

import pytest

from crb_core.calibration import (
    Counts,
    Interval,
    ReviewAnswers,
    calibration_key,
    f1_of,
    kendall_tau,
    match_figures,
    matched_counts,
    ratio_intervals,
)
from crb_core.finding import CandidateFinding
from crb_core.label_calibration import LabelAnswers, axis_figures
from crb_core.matching import Correspondence

SEVERITIES = ("high", "medium", "low")


def review(reviewer: str, pull_request: str, units: str, *, judged: Counts, reference: Counts) -> ReviewAnswers:
    """``units`` are two letters each: the reference's answer and the judge's, y or n."""
    pairs = tuple((first == "y", second == "y") for first, second in units.split())
    return ReviewAnswers(reviewer=reviewer, pull_request=pull_request, units=pairs, judged=judged, reference=reference)


def candidate(text: str) -> CandidateFinding:
    return CandidateFinding(message=text, producer="tool")


def link(place: int, golden: dict[int, float]) -> Correspondence:
    return Correspondence(candidate=place, golden=tuple(golden), probabilities=tuple(golden.values()))


def test_figures_by_hand() -> None:
    """Six units, four equal: kappa (4/6 - 1/2) / (1 - 1/2); precision 2/3, recall 2/3; F1 a tool on equal terms."""
    found = match_figures(
        [
            review("a", "p1", "yy yn nn", judged=Counts(1, 1, 2), reference=Counts(2, 0, 1)),
            review("b", "p2", "yy ny nn", judged=Counts(2, 0, 1), reference=Counts(1, 1, 2)),
        ]
    )
    assert (found.n, found.pull_requests) == (6, 2)
    assert found.agreement == pytest.approx(4 / 6)
    assert found.kappa == pytest.approx(1 / 3)
    assert (found.precision, found.recall, found.f1) == (pytest.approx(2 / 3),) * 3
    assert {name: (each.f1, each.reference_f1, each.recorded_f1) for name, each in found.tools.items()} == {
        "a": (pytest.approx(2 / 5), pytest.approx(4 / 5), None),
        "b": (pytest.approx(4 / 5), pytest.approx(2 / 5), None),
    }
    assert found.largest_f1_difference == pytest.approx(2 / 5)
    assert found.mean_f1_difference == pytest.approx(0)
    assert found.kendall_tau == -1.0


def test_nothing_to_compare_is_null() -> None:
    """No unit has no figure; null is not 0."""
    found = match_figures([])
    assert (found.n, found.agreement, found.kappa, found.precision, found.f1, found.kendall_tau) == (0, *[None] * 5)


def test_counts_follow_the_public_tool() -> None:
    """A better candidate does not make the one before it wrong; an equal one later is wrong; equal texts count once."""
    candidates = [candidate(text) for text in ("first", "better", "equal", "wrong", "wrong")]
    links = [link(0, {0: 0.6}), link(1, {0: 0.9}), link(2, {0: 0.9})]
    assert matched_counts(candidates, 2, links) == Counts(1, 2, 1)
    certain = [Correspondence(candidate=place, golden=(0,)) for place in (0, 1)]
    assert matched_counts(candidates[:2], 1, certain) == Counts(1, 1, 0)
    assert f1_of(Counts(0, 0, 0)) is None


def test_intervals_hold_the_ratio_and_are_reproducible() -> None:
    """Pooled 3/4; the bounds lie around it, are the same again, and need two clusters and a denominator."""
    units = [("p1", ((1, 1),)), ("p1", ((1, 1),)), ("p2", ((0, 1),)), ("p3", ((1, 1),))]
    (found,) = ratio_intervals(units, 1)
    assert found.value == 0.75
    assert (found.low or 0) < 0.75 < (found.high or 0)
    assert ratio_intervals(units, 1) == (found,)
    assert ratio_intervals(units[:2], 1) == (Interval(value=1.0, low=None, high=None),)
    assert ratio_intervals([("p1", ((0, 0),)), ("p2", ((0, 0),))], 1) == (Interval(value=None, low=None, high=None),)


def test_the_key_is_of_the_judge_not_of_the_corpus() -> None:
    """Another vocabulary or address is the same judge; another model or threshold is not, at any depth."""
    base = {"judge": "offline", "model": "m", "threshold": 0.5, "vocabulary": "one"}
    assert calibration_key(base) == calibration_key(base | {"vocabulary": "two"})
    assert calibration_key(base) != calibration_key(base | {"threshold": 0.4})
    nested = {"judge": "hybrid", "offline": base, "requests": {"base_url": "http://a"}}
    other = {"judge": "hybrid", "offline": base | {"vocabulary": "two"}, "requests": {"base_url": "http://b"}}
    assert calibration_key(nested) == calibration_key(other)
    assert calibration_key(nested) != calibration_key(nested | {"offline": base | {"model": "n"}})


def test_axes_by_hand() -> None:
    """Severity within one level with its direction, confusion of category; what the judge left open is unanswered."""
    answers = [
        LabelAnswers(pull_request="p1", people={"severity": "high", "category": "security"}, judge={"severity": "low"}),
        LabelAnswers(
            pull_request="p1",
            people={"severity": "medium", "category": "security"},
            judge={"severity": "high", "category": "correctness"},
        ),
        LabelAnswers(
            pull_request="p2",
            people={"severity": "low", "category": "security"},
            judge={"severity": "low", "category": "security"},
        ),
    ]
    severity, category = axis_figures(answers, severities=SEVERITIES)
    assert (severity.axis, severity.n, severity.agreement) == ("severity", 3, pytest.approx(1 / 3))
    assert severity.ordered is not None
    assert severity.ordered.within_one.value == pytest.approx(2 / 3)
    assert (severity.ordered.higher, severity.ordered.lower) == (1, 1)
    assert (category.axis, category.n, category.unanswered) == ("category", 2, 1)
    assert category.confusion == {"security": {"correctness": 1, "security": 1}}
    assert category.ordered is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(1, 1), (2, 2), (3, 3)], 1.0),
        ([(1, 3), (2, 2), (3, 1)], -1.0),
        ([(1, 1), (2, 3), (3, 2)], 1 / 3),
        ([(1, 1), (1, 2)], None),
        ([], None),
    ],
)
def test_kendall(values: list[tuple[float, float]], expected: float | None) -> None:
    """Full agreement is 1, reversal -1, one swap of three 1/3; all ties on a side have no tau."""
    assert kendall_tau(values) == (None if expected is None else pytest.approx(expected))
