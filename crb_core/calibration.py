"""How far a judge's matches agree with a reference's: the figures of ``crb judge calibrate`` (seed A 5.3, 5.4).

The unit is "does this reviewer cover this golden finding", for reviewers with at least one candidate that the protocol
compares with it. F1 of a reviewer is counted as the golden-comments benchmark counts it (facts C3), for the judge and
for the reference alike. Intervals are 95% percentile bootstrap intervals over pull requests (rule 22).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from crb_core.agreement import RESAMPLES, agreement
from crb_core.corpus import fingerprint
from crb_core.finding import CandidateFinding, Record
from crb_core.matching import Correspondence

__all__ = [
    "Counts",
    "Interval",
    "MatchFigures",
    "ReviewAnswers",
    "ReviewerFigures",
    "calibration_key",
    "f1_of",
    "kendall_tau",
    "match_figures",
    "matched_counts",
    "ratio_intervals",
]

_SEED = 20_261_129
#: Share of resamples in which a ratio must be defined for its interval to be given.
_DEFINED = 0.95
#: What a judge's description says of where and for which corpus it works, not of how it judges.
_CIRCUMSTANCES = ("vocabulary", "base_url")


@dataclass(frozen=True, slots=True)
class Counts:
    """``tp`` and ``fn``: golden findings found and missed; ``fp``: distinct candidate texts that match nothing."""

    tp: int
    fp: int
    fn: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)


@dataclass(frozen=True, kw_only=True)
class ReviewAnswers:
    """One reviewer's findings on one pull request, judged twice.

    ``units`` holds (the reference's answer, the judge's answer) for each golden finding that can be compared and that
    the reference judged. ``recorded`` are the reference's counts as its own file lists them, where it has such lists.
    """

    reviewer: str
    pull_request: str
    units: tuple[tuple[bool, bool], ...]
    judged: Counts
    reference: Counts
    recorded: Counts | None = None


class Interval(Record):
    """A ratio with its 95% interval; None where it is undefined, and bounds None under two pull requests."""

    value: float | None
    low: float | None
    high: float | None


class ReviewerFigures(Record):
    """F1 of one reviewer under the judge and under the reference, on equal terms; None where nothing is there to count.

    ``recorded_f1`` is what the reference's own lists give, where it has any: they can hold what is no finding.
    """

    reviews: int = Field(ge=0)
    f1: float | None
    reference_f1: float | None
    recorded_f1: float | None


class MatchFigures(Record):
    """Agreement of a judge's matches with one reference.

    ``n`` units in ``pull_requests``; ``precision``, ``recall`` and ``f1`` are the judge's, with the reference as truth;
    ``covered`` and ``reference_covered`` the shares of units called covered. ``tools`` are the reviewers.
    """

    n: int = Field(ge=0)
    pull_requests: int = Field(ge=0)
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    precision: float | None
    precision_low: float | None
    precision_high: float | None
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    f1: float | None
    f1_low: float | None
    f1_high: float | None
    covered: float | None
    reference_covered: float | None
    tools: dict[str, ReviewerFigures]
    largest_f1_difference: float | None
    mean_f1_difference: float | None
    kendall_tau: float | None


def calibration_key(description: Mapping[str, Any]) -> str:
    """Which judges share a calibration: ``k-`` and 12 hex digits over a judge's description.

    Without the corpus's vocabulary and the address of the model's service: they are not how the judge judges, and a
    calibration would else hold for one corpus only.
    """

    def kept(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: kept(each) for name, each in value.items() if name not in _CIRCUMSTANCES}
        return [kept(each) for each in value] if isinstance(value, list | tuple) else value

    return "k-" + fingerprint(kept(description))[:12]


def matched_counts(
    candidates: Sequence[CandidateFinding], golden_count: int, correspondences: Iterable[Correspondence]
) -> Counts:
    """Count one review as the golden-comments benchmark counts it (facts C3).

    A golden finding keeps its best candidate: one in order that is more probable than those before it. A candidate that
    was a best one once is no false positive; equal texts count once. A judge without probabilities gives 1.
    """
    best = [0.0] * golden_count
    matched: set[str] = set()
    for record in sorted(correspondences, key=lambda each: each.candidate):
        for place, golden in enumerate(record.golden):
            probability = record.probabilities[place] if record.probabilities else 1.0
            if probability > best[golden]:
                best[golden] = probability
                matched.add(candidates[record.candidate].message)
    found = sum(value > 0 for value in best)
    wrong = {candidate.message for candidate in candidates} - matched
    return Counts(found, len(wrong), golden_count - found)


def f1_of(counts: Counts) -> float | None:
    """2tp / (2tp + fp + fn); None where there is nothing to count."""
    whole = 2 * counts.tp + counts.fp + counts.fn
    return 2 * counts.tp / whole if whole else None


def match_figures(reviews: Sequence[ReviewAnswers], *, resamples: int = RESAMPLES) -> MatchFigures:
    """The figures of one reference judge's reviews."""
    units = [(review.pull_request, *unit) for review in reviews for unit in review.units]
    found = agreement(
        [reference for _, reference, _ in units],
        [judged for _, _, judged in units],
        clusters=[key for key, _, _ in units],
        resamples=resamples,
    )
    ratios = ratio_intervals(
        [
            (
                key,
                (
                    (reference == judged, 1),
                    (reference and judged, judged),
                    (reference and judged, reference),
                    (2 * (reference and judged), judged + reference),
                ),
            )
            for key, reference, judged in units
        ],
        4,
        resamples=resamples,
    )
    tools = {name: _reviewer(reviews, name) for name in sorted({review.reviewer for review in reviews})}
    pairs = [
        (each.f1, each.reference_f1) for each in tools.values() if each.f1 is not None and each.reference_f1 is not None
    ]
    names = ("agreement", "precision", "recall", "f1")
    values: dict[str, Any] = {}
    for name, ratio in zip(names, ratios, strict=True):
        values |= {name: ratio.value, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
    return MatchFigures(
        n=found.n,
        pull_requests=found.clusters,
        kappa=found.kappa,
        kappa_low=found.kappa_low,
        kappa_high=found.kappa_high,
        covered=sum(judged for _, _, judged in units) / len(units) if units else None,
        reference_covered=sum(reference for _, reference, _ in units) / len(units) if units else None,
        tools=tools,
        largest_f1_difference=max((abs(left - right) for left, right in pairs), default=None),
        mean_f1_difference=sum(left - right for left, right in pairs) / len(pairs) if pairs else None,
        kendall_tau=kendall_tau(pairs),
        **values,
    )


def _reviewer(reviews: Sequence[ReviewAnswers], name: str) -> ReviewerFigures:
    mine = [review for review in reviews if review.reviewer == name]
    nothing = Counts(0, 0, 0)
    recorded = [review.recorded for review in mine if review.recorded is not None]
    return ReviewerFigures(
        reviews=len(mine),
        f1=f1_of(sum((review.judged for review in mine), nothing)),
        reference_f1=f1_of(sum((review.reference for review in mine), nothing)),
        recorded_f1=f1_of(sum(recorded, nothing)) if len(recorded) == len(mine) else None,
    )


def ratio_intervals(
    units: Sequence[tuple[Hashable, Sequence[tuple[int, int]]]], width: int, *, resamples: int = RESAMPLES
) -> tuple[Interval, ...]:
    """Pooled ratios with their intervals: each unit names its cluster and ``width`` (numerator, denominator) pairs."""
    import numpy as np

    if not units:
        return (Interval(value=None, low=None, high=None),) * width
    places = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in units))}
    sums = np.zeros((len(places), width, 2))
    for name, pairs in units:
        sums[places[name]] += np.array(pairs, dtype=float).reshape(width, 2)
    whole = sums.sum(axis=0)
    drawn = None
    if len(places) > 1:
        draws = np.random.default_rng(_SEED).multinomial(
            len(places), np.full(len(places), 1 / len(places)), size=resamples
        )
        drawn = np.tensordot(draws, sums, axes=1)
    found = []
    for place in range(width):
        above, below = (float(value) for value in whole[place])
        low = high = None
        if drawn is not None and below:
            defined = drawn[:, place, 1] > 0
            if defined.mean() > _DEFINED:
                values = drawn[defined, place, 0] / drawn[defined, place, 1]
                low, high = (float(bound) for bound in np.percentile(values, [2.5, 97.5]))
        found.append(Interval(value=above / below if below else None, low=low, high=high))
    return tuple(found)


def kendall_tau(values: Sequence[tuple[float, float]]) -> float | None:
    """Kendall's tau-b of pairs of values (Kendall 1945); None where one side is all ties."""
    left_only = right_only = net = 0
    for place, (left, right) in enumerate(values):
        for other_left, other_right in values[:place]:
            first = (left > other_left) - (left < other_left)
            second = (right > other_right) - (right < other_right)
            net += first * second
            left_only += first != 0
            right_only += second != 0
    return net / (left_only * right_only) ** 0.5 if left_only and right_only else None
