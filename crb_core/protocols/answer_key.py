"""The answer-key protocol (seed B): a key of defects and intended trade-offs, written before any measured review.

A golden finding labelled tp is a *defect*: found where a candidate matches it, else missed. One labelled fp is an
*intended* trade-off: matching it earns neither credit nor charge. A candidate that matches nothing keyed is *unkeyed*:
absence from the key does not make it false, the classifier decides. Severity is impact; tier, how hard a defect is to
discover, is the label axis ``difficulty``. The two are never merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crb_core.aggregate import AddableCounts, Breakdown, Measures, PullRequestCounts, Score, ratio, summarise
from crb_core.claims import check_classifications, check_correspondences
from crb_core.errors import InputError, Where
from crb_core.finding import Finding, Record
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.pairs import PairGroup, product
from crb_core.protocols.reviewbench import CATEGORIES
from crb_core.strata import EVERYTHING, Subset

__all__ = [
    "AXES",
    "CATEGORIES",
    "LOCALITY_LINES",
    "SEVERITIES",
    "Counts",
    "Keyed",
    "MetricSet",
    "are_near",
    "check",
    "counts",
    "pairs",
    "ratios",
    "resolve",
    "score",
]

SEVERITIES = ("critical", "high", "medium", "low")
#: Axes whose strata are reported by default; ``difficulty`` is the tier.
AXES = ("severity", "difficulty", "category")
#: A finding this many lines away from a keyed one is still proposed to the judge.
LOCALITY_LINES = 3


def are_near(one: Finding, other: Finding) -> bool:
    """Whether locality proposes the pair: same file, and overlapping or at most three lines apart (rule 20).

    Lines 10-12 and 15 are three lines apart. Locality proposes, it never decides.
    """
    if one.file is None or one.file != other.file:
        return False
    if one.start_line is None or one.end_line is None or other.start_line is None or other.end_line is None:
        return False
    return max(0, other.start_line - one.end_line, one.start_line - other.end_line) <= LOCALITY_LINES


def pairs(pr: JudgedPullRequest) -> tuple[PairGroup, ...]:
    """The pairs that locality proposes; candidates with the same proposals share a request."""
    together: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for position, candidate in enumerate(pr.candidates):
        near = tuple(place for place, golden in enumerate(pr.golden) if are_near(candidate, golden))
        if near and candidate.file is not None:
            together.setdefault((candidate.file, near), []).append(position)
    return tuple(
        group for (file, near), candidates in sorted(together.items()) for group in product(file, candidates, near)
    )


@dataclass(frozen=True)
class Keyed:
    """What became of the candidates: ``claimed`` and ``intended`` map candidate to golden; ``found`` are defects."""

    claimed: Mapping[int, int]
    intended: Mapping[int, int]
    found: frozenset[int]

    def unkeyed(self, candidate_count: int) -> tuple[int, ...]:
        """The candidates that the classifier judges, ascending."""
        return tuple(c for c in range(candidate_count) if c not in self.claimed and c not in self.intended)


def resolve(judged: JudgedPullRequest) -> Keyed:
    """Claims of one pull request: candidates ascending, each the first unclaimed defect in key order.

    A candidate without such a defect that matches an intended trade-off is intended. Further matches of a claimed
    defect are unkeyed, so that the classifier judges them on their own.
    """
    check_correspondences(judged.correspondences, len(judged.golden), len(judged.candidates))
    claimed: dict[int, int] = {}
    intended: dict[int, int] = {}
    found: set[int] = set()
    taken: set[int] = set()
    for record in sorted(judged.correspondences, key=lambda record: record.candidate):
        defects = [golden for golden in sorted(record.golden) if judged.golden[golden].label.tp_fp == "tp"]
        trade_offs = [golden for golden in sorted(record.golden) if judged.golden[golden].label.tp_fp == "fp"]
        found.update(defects)
        free = [golden for golden in defects if golden not in taken]
        if free:
            claimed[record.candidate] = free[0]
            taken.add(free[0])
        elif trade_offs:
            intended[record.candidate] = trade_offs[0]
    return Keyed(claimed, intended, frozenset(found))


def check(judged: JudgedPullRequest) -> None:
    """Refuse a match that locality did not propose, and a classification of a candidate that is keyed."""
    keyed = resolve(judged)
    for position, record in enumerate(judged.correspondences):
        for place, golden in enumerate(record.golden):
            if not are_near(judged.candidates[record.candidate], judged.golden[golden]):
                raise InputError(
                    f"candidate {record.candidate} is not within {LOCALITY_LINES} lines of golden finding {golden} "
                    "in the same file, so the judge was never asked about them",
                    where=Where(field=f"correspondences[{position}].golden[{place}]"),
                    remedy="Remove this match",
                )
    check_classifications(judged, {**keyed.claimed, **keyed.intended})


@dataclass(frozen=True, slots=True)
class Counts(AddableCounts):
    """What the answer-key metrics are made of, for one set of findings.

    ``claimed_count`` counts candidates, ``found_count`` defects: one candidate may find two defects, but claims one.
    ``unclassified_count`` is every unkeyed candidate without a label, inside the set or not.
    """

    candidate_count: int = 0
    defect_count: int = 0
    found_count: int = 0
    claimed_count: int = 0
    intended_count: int = 0
    unkeyed_count: int = 0
    unkeyed_tp_count: int = 0
    unkeyed_fp_count: int = 0
    unclassified_count: int = 0

    @property
    def missed_count(self) -> int:
        """Keyed defects that no candidate matches."""
        return self.defect_count - self.found_count


class MetricSet(Record):
    """Metrics and counts of one set of findings; ``precision`` is None after a partial judge pass."""

    precision: float | None
    recall: float | None
    f: float | None
    candidate_count: int
    defect_count: int
    found_count: int
    missed_count: int
    claimed_count: int
    intended_count: int
    unkeyed_count: int
    unkeyed_tp_count: int
    unkeyed_fp_count: int
    unclassified_count: int


def counts(judged: JudgedPullRequest, subset: Subset = EVERYTHING, keyed: Keyed | None = None) -> Counts:
    """The counts of one pull request inside a subset; keyed candidates sit where their golden finding sits."""
    keyed = keyed or resolve(judged)
    labels = {record.candidate: record.label for record in judged.classifications}
    inside = {position for position, golden in enumerate(judged.golden) if subset.has_golden(golden)}
    defects = {position for position in inside if judged.golden[position].label.tp_fp == "tp"}
    claimed = [golden for golden in keyed.claimed.values() if golden in inside]
    intended = [golden for golden in keyed.intended.values() if golden in inside]
    unkeyed = keyed.unkeyed(len(judged.candidates))
    unclassified = [candidate for candidate in unkeyed if candidate not in labels]
    classified = [labels[candidate] for candidate in unkeyed if candidate in labels]
    classified = [label for label in classified if subset.has_label(label)]
    tps = [label for label in classified if label.tp_fp == "tp"]
    unkeyed_count = len(classified) + (0 if subset.restricts_labels else len(unclassified))
    return Counts(
        candidate_count=len(claimed) + len(intended) + unkeyed_count,
        defect_count=len(defects),
        found_count=len(keyed.found & defects),
        claimed_count=len(claimed),
        intended_count=len(intended),
        unkeyed_count=unkeyed_count,
        unkeyed_tp_count=len(tps),
        unkeyed_fp_count=len(classified) - len(tps),
        unclassified_count=len(unclassified),
    )


def ratios(counts: Counts) -> dict[str, float | None]:
    """Precision over the candidates that are no intended trade-offs, recall over the keyed defects (rule 20)."""
    return {
        "precision": ratio(
            counts.claimed_count + counts.unkeyed_tp_count, counts.candidate_count - counts.intended_count
        ),
        "recall": ratio(counts.found_count, counts.defect_count),
    }


def _withheld(counts: Counts, subset: Subset) -> frozenset[str]:
    partial = counts.unclassified_count > 0
    return frozenset({"precision"}) if partial or subset.restricts_goldens_only else frozenset()


MEASURES = Measures(metric_set=MetricSet, ratios=ratios, f_measures={"f": ("precision", "recall")}, withheld=_withheld)


def _pull_request_counts(judged: JudgedPullRequest, subset: Subset) -> PullRequestCounts[Counts]:
    keyed = resolve(judged)
    check_classifications(judged, {**keyed.claimed, **keyed.intended})
    inside = [golden.label for golden in judged.golden if subset.has_golden(golden)]
    inside += [record.label for record in judged.classifications if subset.has_label(record.label)]
    strata = {
        axis: {
            value: counts(judged, subset.with_value(axis, value), keyed)
            for value in {getattr(label, axis) for label in inside} - {None}
        }
        for axis in AXES
    }
    overall = counts(judged, subset, keyed)
    absent = Counts(unclassified_count=overall.unclassified_count)
    return PullRequestCounts(judged.key, Breakdown(overall, strata, absent))


def score(judged: Sequence[JudgedPullRequest], *, beta: float = 1.0, subset: Subset = EVERYTHING) -> Score[MetricSet]:
    """Score one round of one agent build by the answer-key protocol."""
    return summarise(
        [_pull_request_counts(pr, subset) for pr in judged],
        MEASURES,
        Counts(),
        protocol="answer-key",
        axes=AXES,
        beta=beta,
        subset=subset,
    )
