"""From counts to metrics, for any protocol (seed A 7.4 and 7.6; rules 9 to 11).

Micro = ratios of summed counts; macro = mean of the pull requests' ratios where they are defined; counts are summed. A
ratio without a denominator is None, never 0. The seam is ``PullRequestCounts``: whatever way of counting gives equal
counts gets equal metrics, so this can be the oracle of a faster one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

from crb_core.errors import InputError, UsageError, Where
from crb_core.finding import Record
from crb_core.strata import Subset

__all__ = [
    "BETA_RANGE",
    "TIE",
    "AddableCounts",
    "Breakdown",
    "Level",
    "Measures",
    "PullRequestCounts",
    "PullRequestScore",
    "Score",
    "check_beta",
    "f_measure",
    "mean",
    "ranks",
    "ratio",
    "summarise",
    "to_json",
]

#: Differences of scores smaller than this are ties: rounding, not a difference.
TIE = 1e-9
#: Smallest and largest beta of an F measure.
BETA_RANGE = (0.1, 10.0)


def ratio(numerator: int, denominator: int) -> float | None:
    """The quotient, or None where the denominator is 0."""
    return numerator / denominator if denominator else None


def mean(values: Iterable[float | None]) -> tuple[float | None, int]:
    """The arithmetic mean of the values that are defined, and how many there are."""
    defined = [value for value in values if value is not None]
    # fsum rounds once, so the result does not depend on the order of the pull requests.
    return (math.fsum(defined) / len(defined) if defined else None), len(defined)


def ranks(values: Sequence[float | None]) -> list[int | None]:
    """Of each value 1 + how many are better; values that only rounding tells apart share a rank, None has none."""
    return [
        None if mine is None else 1 + sum(other is not None and other > mine + TIE for other in values)
        for mine in values
    ]


def check_beta(beta: float) -> float:
    """``beta`` as a float; InputError outside 0.1 to 10."""
    low, high = BETA_RANGE
    if isinstance(beta, bool) or not low <= beta <= high:
        raise UsageError(f"beta is {beta}, but it must be between {low:g} and {high:g}", where=Where(field="beta"))
    return float(beta)


def f_measure(precision: float | None, recall: float | None, beta: float = 1.0) -> float | None:
    """F-beta (seed A 7.4): None where a part is None, 0 where both are 0."""
    if precision is None or recall is None:
        return None
    if precision == 0 and recall == 0:
        return 0.0
    weight = beta * beta
    return (1 + weight) * precision * recall / (weight * precision + recall)


@dataclass(frozen=True, slots=True)
class AddableCounts:
    """Integers of a set of findings; the counts of several sets are their sums."""

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in dataclasses.fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


C = TypeVar("C", bound=AddableCounts)
M = TypeVar("M", bound=Record)


@dataclass(frozen=True)
class Measures(Generic[C, M]):
    """How a protocol turns counts into its metric set.

    ``ratios`` gives every metric that is not an F measure. ``f_measures`` maps an F measure to the names of its
    precision and recall, from which every level computes its own. ``withheld`` names the metrics that a set of findings
    must not show although they could be computed. ``metric_set`` is the record of counts, ratios and F measures.
    """

    metric_set: type[M]
    ratios: Callable[[C], dict[str, float | None]]
    f_measures: Mapping[str, tuple[str, str]]
    withheld: Callable[[C, Subset], frozenset[str]]

    def of_counts(self, counts: C, beta: float, subset: Subset) -> M:
        """The metrics of a pull request, or the micro average where the counts are sums."""
        return self._build(counts, self.ratios(counts), beta, subset)

    def of_means(self, total: C, parts: Sequence[C], beta: float, subset: Subset) -> tuple[M, dict[str, int]]:
        """The macro average of ``parts`` (one a pull request), and behind how many of them each mean stands."""
        per_part = []
        for part in parts:
            values = self.ratios(part)
            per_part.append(values | dict.fromkeys(self.withheld(part, subset)))
        means, numbers = {}, {}
        for name in self.ratios(total):
            means[name], numbers[name] = mean(values[name] for values in per_part)
        return self._build(total, means, beta, subset), numbers

    def _build(self, counts: C, values: dict[str, float | None], beta: float, subset: Subset) -> M:
        values = values | dict.fromkeys(self.withheld(counts, subset) & values.keys())
        for name, (precision, recall) in self.f_measures.items():
            values[name] = f_measure(values[precision], values[recall], beta)
        names = self.metric_set.model_fields
        return self.metric_set(**{name: values[name] if name in values else getattr(counts, name) for name in names})


@dataclass(frozen=True)
class Breakdown(Generic[C]):
    """Counts of one pull request: overall, and by axis and value for the strata that it has.

    ``absent`` are the counts of a stratum that it does not have: 0, except for what could belong to any stratum.
    """

    overall: C
    strata: Mapping[str, Mapping[str, C]]
    absent: C


@dataclass(frozen=True)
class PullRequestCounts(Generic[C]):
    """One pull request's counts under its key: the seam between any way of counting and the metrics."""

    key: str
    counts: Breakdown[C]


@dataclass(frozen=True)
class Level(Generic[M]):
    """Metrics of one level of aggregation: of the whole subset, and of its strata by axis and value."""

    overall: M
    strata: Mapping[str, Mapping[str, M]]

    @property
    def by_severity(self) -> Mapping[str, M]:
        return self.strata.get("severity", {})

    @property
    def by_category(self) -> Mapping[str, M]:
        return self.strata.get("category", {})


@dataclass(frozen=True)
class PullRequestScore(Level[M]):
    """The metrics of one pull request."""

    key: str


@dataclass(frozen=True)
class Score(Generic[M]):
    """What one round of one agent build scores (``crb.score/1``).

    ``n`` says behind how many pull requests each macro mean stands: ``n["overall"][metric]``,
    ``n["severity"][value][metric]``.
    """

    protocol: str
    beta: float
    subset: Subset
    macro: Level[M]
    micro: Level[M]
    n: Mapping[str, Mapping[str, Any]]
    per_pull_request: tuple[PullRequestScore[M], ...]
    #: What else decides the numbers of this protocol, such as a profile (rule 12).
    settings: Mapping[str, Any] = field(default_factory=dict)


def summarise(
    per_pull_request: Sequence[PullRequestCounts[C]],
    measures: Measures[C, M],
    zero: C,
    *,
    protocol: str,
    axes: Sequence[str],
    beta: float,
    subset: Subset,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Score[M]:
    """Aggregate counts to macro, micro and per-pull-request metrics. ``zero`` is the sum over no pull request."""
    beta = check_beta(beta)
    _refuse_equal_keys(per_pull_request)

    def both(parts: Sequence[C]) -> tuple[M, M, dict[str, int]]:
        total = sum(parts, zero)
        macro, numbers = measures.of_means(total, parts, beta, subset)
        return macro, measures.of_counts(total, beta, subset), numbers

    macro, micro, numbers = both([pr.counts.overall for pr in per_pull_request])
    macro_strata: dict[str, dict[str, M]] = {axis: {} for axis in axes}
    micro_strata: dict[str, dict[str, M]] = {axis: {} for axis in axes}
    n: dict[str, dict[str, Any]] = {"overall": numbers, **{axis: {} for axis in axes}}
    for axis in axes:
        for value in sorted({value for pr in per_pull_request for value in pr.counts.strata[axis]}):
            parts = [pr.counts.strata[axis].get(value, pr.counts.absent) for pr in per_pull_request]
            macro_strata[axis][value], micro_strata[axis][value], n[axis][value] = both(parts)
    return Score(
        protocol=protocol,
        beta=beta,
        subset=subset,
        macro=Level(macro, MappingProxyType(macro_strata)),
        micro=Level(micro, MappingProxyType(micro_strata)),
        n=MappingProxyType(n),
        per_pull_request=tuple(
            PullRequestScore(
                key=pr.key,
                overall=measures.of_counts(pr.counts.overall, beta, subset),
                strata={
                    axis: {
                        value: measures.of_counts(pr.counts.strata[axis][value], beta, subset)
                        for value in sorted(pr.counts.strata[axis])
                    }
                    for axis in axes
                },
            )
            for pr in per_pull_request
        ),
        settings=settings,
    )


def _refuse_equal_keys(per_pull_request: Sequence[PullRequestCounts[C]]) -> None:
    first: dict[str, int] = {}
    for position, pr in enumerate(per_pull_request):
        if pr.key in first:
            raise InputError(
                f"pull request {pr.key!r} is already given at pull_requests[{first[pr.key]}]",
                where=Where(field=f"pull_requests[{position}].key"),
                remedy="Score one round of one agent build at a time",
            )
        first[pr.key] = position


def to_json(score: Score[Any]) -> dict[str, Any]:
    """A score as ``crb.score/1``, ready for ``json.dumps(..., allow_nan=False)``; undefined metrics are None."""

    def level(level: Level[Any]) -> dict[str, Any]:
        return {
            "overall": level.overall.model_dump(mode="json"),
            **{
                f"by_{axis}": {value: metrics.model_dump(mode="json") for value, metrics in strata.items()}
                for axis, strata in level.strata.items()
            },
        }

    n = {("overall" if axis == "overall" else f"by_{axis}"): dict(numbers) for axis, numbers in score.n.items()}
    return {
        "format": "crb.score/1",
        "protocol": score.protocol,
        "beta": score.beta,
        "filters": score.subset.to_json(),
        **score.settings,
        "macro": {**level(score.macro), "n": n},
        "micro": level(score.micro),
        "per_pull_request": [{"key": pr.key, **level(pr)} for pr in score.per_pull_request],
    }
