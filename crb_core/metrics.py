"""The metrics of the reviewbench protocol (seed A 7.1 to 7.3; rules 6, 7 and 10).

This is the definition, kept readable so that it can be checked by hand and serve as the oracle for faster paths. The
seam is ``Counts``: whatever produces equal counts gets equal metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_core.aggregate import (
    AddableCounts,
    Breakdown,
    Measures,
    PullRequestCounts,
    Score,
    f_measure,
    ratio,
    summarise,
    to_json,
)
from crb_core.claims import Claims, check_classifications, claims_of
from crb_core.errors import InputError
from crb_core.finding import Record
from crb_core.matching import JudgedPullRequest
from crb_core.strata import EVERYTHING, Subset

__all__ = [
    "REVIEWBENCH_MEASURES",
    "Counts",
    "MetricSet",
    "Score",
    "counts",
    "f_measure",
    "pull_request_counts",
    "ratios",
    "score",
    "to_json",
]


@dataclass(frozen=True, slots=True)
class Counts(AddableCounts):
    """What the reviewbench metrics are made of, for one set of findings.

    ``unclassified_count`` is every unmatched candidate without a label, inside the set or not (rule 10): each could
    belong to any stratum. ``unmatched_count`` includes them only where the set is not restricted by labels, so that
    strata and ``unclassified_count`` sum to the whole.
    """

    candidate_count: int = 0
    golden_tp_count: int = 0
    matched_count: int = 0
    matched_tp_count: int = 0
    unmatched_count: int = 0
    unmatched_tp_count: int = 0
    unmatched_fp_count: int = 0
    unclassified_count: int = 0
    golden_covered_count: int = 0

    @property
    def novel_tp_count(self) -> int:
        """Useful findings that the golden set does not have (seed A 7.2)."""
        return self.unmatched_tp_count


class MetricSet(Record):
    """The metrics and counts of one set of findings; ratios are fractions of 1, None where undefined.

    ``grounded_*`` use golden labels only; ``augmented_*`` also the classifier's and are None while a candidate is
    unclassified. Augmented recall has an agent-dependent denominator: no ranking by it (seed A 7.2).
    """

    grounded_precision: float | None
    grounded_recall: float | None
    grounded_f: float | None
    augmented_precision: float | None
    augmented_recall: float | None
    augmented_f: float | None
    novel_tp_count: int
    novel_tp_yield: float | None
    candidate_count: int
    golden_tp_count: int
    matched_count: int
    matched_tp_count: int
    unmatched_count: int
    unmatched_tp_count: int
    unmatched_fp_count: int
    unclassified_count: int
    golden_covered_count: int


def counts(judged: JudgedPullRequest, subset: Subset = EVERYTHING, claims: Claims | None = None) -> Counts:
    """The counts of one pull request inside a subset.

    Claimed candidates sit where their golden finding sits, unmatched ones where the classifier puts them, coverage
    where the covered golden finding sits. ``claims`` saves making them again; they never depend on the subset.
    """
    claims = claims or claims_of(judged)
    labels = {record.candidate: record.label for record in judged.classifications}
    goldens = [position for position, golden in enumerate(judged.golden) if subset.has_golden(golden)]
    golden_tps = [position for position in goldens if judged.golden[position].label.tp_fp == "tp"]
    inside, tps_inside = set(goldens), set(golden_tps)

    matched = [golden for golden in claims.claimed.values() if golden in inside]
    unmatched = claims.unmatched(len(judged.candidates))
    unclassified = [candidate for candidate in unmatched if candidate not in labels]
    classified = [labels[candidate] for candidate in unmatched if candidate in labels]
    classified = [label for label in classified if subset.has_label(label)]
    unmatched_tps = [label for label in classified if label.tp_fp == "tp"]

    unmatched_count = len(classified) + (0 if subset.restricts_labels else len(unclassified))
    return Counts(
        candidate_count=len(matched) + unmatched_count,
        golden_tp_count=len(golden_tps),
        matched_count=len(matched),
        matched_tp_count=len([golden for golden in matched if golden in tps_inside]),
        unmatched_count=unmatched_count,
        unmatched_tp_count=len(unmatched_tps),
        unmatched_fp_count=len(classified) - len(unmatched_tps),
        unclassified_count=len(unclassified),
        golden_covered_count=len(claims.covered & tps_inside),
    )


def ratios(counts: Counts) -> dict[str, float | None]:
    """The ratios of seed A 7.1 and 7.2."""
    useful = counts.matched_tp_count + counts.unmatched_tp_count
    covered = counts.golden_covered_count
    novel = counts.novel_tp_count
    return {
        "grounded_precision": ratio(counts.matched_tp_count, counts.matched_count),
        "grounded_recall": ratio(covered, counts.golden_tp_count),
        "augmented_precision": ratio(useful, counts.candidate_count),
        "augmented_recall": ratio(covered + novel, counts.golden_tp_count + novel),
        "novel_tp_yield": ratio(novel, counts.candidate_count),
    }


_AUGMENTED = frozenset({"augmented_precision", "augmented_recall", "novel_tp_yield"})


def _withheld(counts: Counts, subset: Subset) -> frozenset[str]:
    return _AUGMENTED if counts.unclassified_count or subset.restricts_goldens_only else frozenset()


REVIEWBENCH_MEASURES = Measures(
    metric_set=MetricSet,
    ratios=ratios,
    f_measures={
        "grounded_f": ("grounded_precision", "grounded_recall"),
        "augmented_f": ("augmented_precision", "augmented_recall"),
    },
    withheld=_withheld,
)


def pull_request_counts(
    judged: JudgedPullRequest, subset: Subset = EVERYTHING, axes: Sequence[str] = ("severity", "category")
) -> PullRequestCounts[Counts]:
    """The counts of one pull request inside a subset, and of its strata on each of ``axes``.

    A stratum exists where a golden finding or a classified unmatched candidate of the subset has its value.
    Raises InputError, naming pull request and place, where correspondences or classifications contradict each other.
    """
    try:
        claims = claims_of(judged)
        check_classifications(judged, claims.claimed)
    except InputError as error:
        raise InputError(
            f"pull request {judged.key}: {error.problem}", where=error.where, remedy=error.remedy
        ) from None
    inside = [golden.label for golden in judged.golden if subset.has_golden(golden)]
    inside += [record.label for record in judged.classifications if subset.has_label(record.label)]
    strata = {
        axis: {
            value: counts(judged, subset.with_value(axis, value), claims)
            for value in {getattr(label, axis) for label in inside} - {None}
        }
        for axis in axes
    }
    overall = counts(judged, subset, claims)
    absent = Counts(unclassified_count=overall.unclassified_count)
    return PullRequestCounts(judged.key, Breakdown(overall, strata, absent))


def score(judged: Sequence[JudgedPullRequest], *, beta: float = 1.0, subset: Subset = EVERYTHING) -> Score[MetricSet]:
    """Score one round of one agent build by the reviewbench protocol: what the leaderboard calls.

    ``beta`` weighs recall against precision (0.1 to 10); ``subset`` re-scores only the findings inside it.
    Raises InputError for a beta out of range, equal pull-request keys, or contradictory judgments.
    """
    return summarise(
        [pull_request_counts(pr, subset) for pr in judged],
        REVIEWBENCH_MEASURES,
        Counts(),
        protocol="reviewbench",
        axes=("severity", "category"),
        beta=beta,
        subset=subset,
    )
