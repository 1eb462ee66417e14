"""The golden-comments protocol (seed C): every candidate against every golden comment, no files, profiles, F-beta.

Identity is the position in the list, so that equal texts never collapse (facts C3, C6.1). Strict counting: a golden
comment of the profile is a tp where any candidate matches it, else a fn. A candidate that matches only comments
outside the profile is neutral (*matched-excluded*). A candidate that matches nothing is a fp, once per dedup group, and
not if a sibling of its group matches something. ``compatible`` is the public tool's own counting, for published tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crb_core.aggregate import AddableCounts, Breakdown, Measures, PullRequestCounts, Score, ratio, summarise
from crb_core.claims import check_correspondences
from crb_core.errors import InputError, Where
from crb_core.finding import Record
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.pairs import PairGroup, product
from crb_core.strata import EVERYTHING, Subset

__all__ = [
    "AXES",
    "CATEGORIES",
    "DEFAULT_PROFILE",
    "PROFILES",
    "RECORDED_LISTS",
    "SEVERITIES",
    "CompatibleScore",
    "Counts",
    "DedupGroups",
    "MetricSet",
    "RecordedLists",
    "check",
    "check_dedup_groups",
    "compatible",
    "counts",
    "pairs",
    "profile_subset",
    "ratios",
    "score",
]

SEVERITIES = ("critical", "high", "medium", "low")
_STRICT = ("bug", "security", "concurrency", "data", "api")
_CORE = (*_STRICT, "perf", "test_gap", "doc_defect")
CATEGORIES = (*_CORE, "style", "speculative")
#: The categories that count in each profile. A golden comment without a category counts in none of them.
PROFILES: Mapping[str, tuple[str, ...]] = {"strict": _STRICT, "core": _CORE, "all": CATEGORIES}
DEFAULT_PROFILE = "core"
#: Axes whose strata are reported by default. Candidates have no labels, so a stratum is charged every fp of the pull
#: requests that have it.
AXES = ("severity", "category")

#: Candidates of one pull request that say the same; a candidate in no group is a group of its own.
DedupGroups = Sequence[Sequence[int]]


def pairs(pr: JudgedPullRequest) -> tuple[PairGroup, ...]:
    """Every candidate against every golden comment of the pull request, in chunks."""
    return tuple(product(None, range(len(pr.candidates)), range(len(pr.golden))))


def profile_subset(profile: str | None) -> Subset:
    """The golden comments of a profile; all of them where it is None. InputError for an unknown name."""
    if profile is None:
        return EVERYTHING
    if profile not in PROFILES:
        raise InputError(
            f"there is no profile {profile!r}",
            where=Where(field="profile"),
            remedy=f"Choose from {', '.join(PROFILES)}",
        )
    return Subset(category=frozenset(PROFILES[profile]))


def check(judged: JudgedPullRequest) -> None:
    """Refuse positions out of range or said twice, and golden comments labelled fp, which this protocol has not."""
    check_correspondences(judged.correspondences, len(judged.golden), len(judged.candidates))
    for position, golden in enumerate(judged.golden):
        if golden.label.tp_fp != "tp":
            raise InputError(
                "golden comments are all true positives in this protocol",
                where=Where(field=f"golden[{position}].tp_fp"),
                remedy="Remove this finding or choose the reviewbench protocol",
            )


def check_dedup_groups(groups: DedupGroups, candidate_count: int) -> None:
    """Refuse a position out of range and a candidate in two groups."""
    first: dict[int, int] = {}
    for number, group in enumerate(groups):
        for place, candidate in enumerate(group):
            where = Where(field=f"dedup_groups[{number}][{place}]")
            if not 0 <= candidate < candidate_count:
                raise InputError(f"there is no candidate finding {candidate}", where=where)
            if candidate in first:
                raise InputError(
                    f"candidate {candidate} is already in dedup_groups[{first[candidate]}]",
                    where=where,
                    remedy="Name each candidate once",
                )
            first[candidate] = number


@dataclass(frozen=True, slots=True)
class Counts(AddableCounts):
    """``tp`` and ``fn`` count golden comments of the subset, ``fp`` dedup groups of candidates.

    ``matched_excluded_count`` counts golden comments outside the subset that some candidate matches,
    ``match_unrecorded_count`` candidates of which only is known that they matched something.
    """

    tp: int = 0
    fp: int = 0
    fn: int = 0
    matched_excluded_count: int = 0
    match_unrecorded_count: int = 0
    candidate_count: int = 0


class MetricSet(Record):
    """Metrics and counts of one set of golden comments; ratios are None where undefined."""

    precision: float | None
    recall: float | None
    f: float | None
    tp: int
    fp: int
    fn: int
    matched_excluded_count: int
    match_unrecorded_count: int
    candidate_count: int


def counts(
    judged: JudgedPullRequest,
    subset: Subset = EVERYTHING,
    *,
    dedup_groups: DedupGroups = (),
    match_unrecorded: Collection[int] = (),
) -> Counts:
    """The counts of one pull request; ``subset`` holds the profile's categories too (``profile_subset``).

    ``match_unrecorded`` are candidates that an imported judgment calls matched without saying with what: neither fp
    nor tp.
    """
    check_correspondences(judged.correspondences, len(judged.golden), len(judged.candidates))
    check_dedup_groups(dedup_groups, len(judged.candidates))
    inside = {position for position, golden in enumerate(judged.golden) if subset.has_golden(golden)}
    matched_golden = {golden for record in judged.correspondences for golden in record.golden}
    matching = {record.candidate for record in judged.correspondences if record.golden} | set(match_unrecorded)
    grouped = {candidate for group in dedup_groups for candidate in group}
    groups = [set(group) for group in dedup_groups if group]
    groups += [{candidate} for candidate in range(len(judged.candidates)) if candidate not in grouped]
    return Counts(
        tp=len(inside & matched_golden),
        fp=len([group for group in groups if not group & matching]),
        fn=len(inside - matched_golden),
        matched_excluded_count=len(matched_golden - inside),
        match_unrecorded_count=len(set(match_unrecorded)),
        candidate_count=len(judged.candidates),
    )


def ratios(counts: Counts) -> dict[str, float | None]:
    """Precision tp/(tp+fp) and recall tp/(tp+fn)."""
    return {
        "precision": ratio(counts.tp, counts.tp + counts.fp),
        "recall": ratio(counts.tp, counts.tp + counts.fn),
    }


MEASURES = Measures(
    metric_set=MetricSet,
    ratios=ratios,
    f_measures={"f": ("precision", "recall")},
    withheld=lambda _counts, _subset: frozenset(),
)


def score(
    judged: Sequence[JudgedPullRequest],
    *,
    beta: float = 1.0,
    subset: Subset = EVERYTHING,
    profile: str | None = DEFAULT_PROFILE,
    dedup_groups: Mapping[str, DedupGroups] | None = None,
    match_unrecorded: Mapping[str, Collection[int]] | None = None,
) -> Score[MetricSet]:
    """Score one round of one agent build, strictly counted.

    ``dedup_groups`` and ``match_unrecorded`` are by pull-request key; without groups this is the no-dedup baseline.
    """
    inside = subset & profile_subset(profile)

    def breakdown(pr: JudgedPullRequest) -> Breakdown[Counts]:
        def of(part: Subset) -> Counts:
            return counts(
                pr,
                part,
                dedup_groups=(dedup_groups or {}).get(pr.key, ()),
                match_unrecorded=(match_unrecorded or {}).get(pr.key, ()),
            )

        labels = [golden.label for golden in pr.golden if inside.has_golden(golden)]
        strata = {
            axis: {
                value: of(inside.with_value(axis, value))
                for value in {getattr(label, axis) for label in labels} - {None}
            }
            for axis in AXES
        }
        return Breakdown(of(inside), strata, Counts())

    return summarise(
        [PullRequestCounts(pr.key, breakdown(pr)) for pr in judged],
        MEASURES,
        Counts(),
        protocol="golden-comments",
        axes=AXES,
        beta=beta,
        subset=subset,
        settings={"profile": profile, "dedup": dedup_groups is not None},
    )


#: What a recorded evaluation calls its three lists (facts C1).
RECORDED_LISTS = ("true_positives", "false_positives", "false_negatives")


@dataclass(frozen=True)
class RecordedLists:
    """The three lists of one recorded evaluation (facts C1); only how many entries each has is counted."""

    true_positives: Sequence[Any]
    false_positives: Sequence[Any]
    false_negatives: Sequence[Any]


class CompatibleScore(Record):
    """The public tool's own figures: micro ratios, 0 where undefined, and means of the per-review ratios."""

    tp: int
    fp: int
    fn: int
    precision: float
    recall: float
    f: float
    macro_precision: float
    macro_recall: float
    macro_f1: float
    reviews: int


def compatible(reviews: Sequence[RecordedLists]) -> CompatibleScore:
    """Count recorded lists as the public tool does (rule 19): no profile, beta 1, an undefined ratio is 0."""
    parts = [
        (len(review.true_positives), len(review.false_positives), len(review.false_negatives)) for review in reviews
    ]
    tp, fp, fn = (sum(part[place] for part in parts) for place in range(3))
    precision, recall, f = _zero_where_undefined(tp, fp, fn)
    each = [_zero_where_undefined(*part) for part in parts]
    macro = [sum(values) / len(each) if each else 0.0 for values in (zip(*each, strict=True) if each else ((),) * 3)]
    return CompatibleScore(
        tp=tp,
        fp=fp,
        fn=fn,
        precision=precision,
        recall=recall,
        f=f,
        macro_precision=macro[0],
        macro_recall=macro[1],
        macro_f1=macro[2],
        reviews=len(reviews),
    )


def _zero_where_undefined(tp: int, fp: int, fn: int) -> tuple[float, float, float]:
    precision = tp / (tp + fp) if tp + fp else 0.0
    recall = tp / (tp + fn) if tp + fn else 0.0
    f = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return precision, recall, f
