"""What reviews used and cost (seed B, *Cost records* and *What a token total counts*; seed A 10; rule 21; facts A13).

Every figure is the reviewer's own claim. What nobody reported is None, never 0. A *charge* is an observed amount with
the SHA-256 of the evidence that states it; an amount without evidence is named, but enters no metric, and a list price
is only ever an estimate. Token totals are comparable where the lists of models that they count are equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.finding import Record

__all__ = [
    "LARGEST_FIGURE",
    "TOKEN_METRICS",
    "USAGE_METRICS",
    "Charges",
    "Efficiency",
    "FailedAttempts",
    "Figure",
    "JudgeCosts",
    "MetricUsage",
    "ReviewCost",
    "UsageRecord",
    "UsageSummary",
    "charges",
    "efficiency",
    "failed_attempts",
    "token_problem",
    "usage_summary",
]

TOKEN_METRICS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")
#: The figures that a review can report; ``time_in_ms`` in milliseconds, ``cost_usd`` in US dollars.
USAGE_METRICS = (*TOKEN_METRICS, "time_in_ms", "cost_usd")

#: Largest figure that counts: no number of reviews sums to infinity.
LARGEST_FIGURE = 1e300

_DIGEST = re.compile(r"[0-9a-f]{64}")


class UsageRecord(Record):
    """What one review reported. ``models`` are those that its figures count, sorted; None where nothing says so.

    ``evidence`` is the SHA-256 of the blob that states ``cost_usd``.
    """

    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    total_tokens: float | None = None
    cached_tokens: float | None = None
    time_in_ms: float | None = None
    cost_usd: float | None = None
    models: tuple[str, ...] | None = None
    evidence: str | None = None

    @classmethod
    def of_report(cls, report: Mapping[str, Any] | None, *, evidence: str | None = None) -> UsageRecord | None:
        """The record of a stored usage report; None where there is none.

        Which models it counts only the report itself can say: a harness may run others than its build declares.
        InputError for a figure that is negative, not finite or no number.
        """
        if report is None:
            return None
        figures: dict[str, float] = {}
        for name in USAGE_METRICS:
            value = report.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_FIGURE:
                raise InputError(
                    f"{name} is {value!r}, but a usage figure is a number of at least 0 and at most {LARGEST_FIGURE:g}",
                    where=Where(field=f"usage.{name}"),
                    remedy="Leave out what was not measured",
                )
            figures[name] = float(value)
        named = report.get("models")
        listed = named if isinstance(named, list) and all(isinstance(each, str) for each in named) else []
        if evidence is not None and not _DIGEST.fullmatch(evidence):
            raise InputError(f"{evidence!r} is no SHA-256 in lower-case hex", where=Where(field="evidence"))
        return cls(**figures, models=tuple(sorted(set(listed))) or None, evidence=evidence)


class MetricUsage(Record):
    """One figure over reviews: ``reported`` of ``reviews`` have it; total and mean are over these, None without any."""

    reported: int
    reviews: int
    total: float | None
    mean: float | None


class UsageSummary(Record):
    """Usage over reviews. ``reported_reviews`` have at least one figure.

    ``models`` is the list that all token counts share; None with a reason where they do not share one.
    """

    reviews: int
    reported_reviews: int
    metrics: dict[str, MetricUsage]
    models: tuple[str, ...] | None
    models_reason: str | None


class Charges(Record):
    """Observed charges over reviews, in US dollars.

    ``observed`` of ``reviews`` have a charge with evidence and ``unsupported`` an amount without; ``total_usd`` and
    ``evidence`` (sorted SHA-256s) are of the former only.
    """

    total_usd: float | None
    observed: int
    reviews: int
    evidence: tuple[str, ...]
    unsupported: int
    unsupported_usd: float | None

    @property
    def mean_usd(self) -> float | None:
        """The mean charge of a review; None unless every review's charge was observed."""
        if self.total_usd is None or self.observed < self.reviews:
            return None
        return self.total_usd / self.reviews

    @property
    def reason(self) -> str | None:
        """Why there is no mean."""
        if self.mean_usd is not None:
            return None
        if not self.reviews:
            return "no scored review is averaged"
        amounts = f" ({self.unsupported} state an amount without evidence)" if self.unsupported else ""
        return f"{self.observed} of {self.reviews} scored reviews have an observed charge{amounts}"

    def to_row(self, failed: FailedAttempts) -> dict[str, Any]:
        """What a leaderboard's row says of it; ``crb leaderboard usage`` has the evidence.

        ``failed`` are the attempts that did not succeed: none of the other figures counts them.
        """
        return {
            "mean_usd": self.mean_usd,
            "total_usd": self.total_usd,
            "observed": self.observed,
            "reviews": self.reviews,
            "without_evidence": self.unsupported,
            "reason": self.reason,
            "failed_attempts": failed.model_dump(mode="json", exclude={"evidence"}),
        }


class FailedAttempts(Record):
    """What attempts that did not succeed used. No figure of a review holds it, so it is said beside them.

    ``silent`` of ``attempts`` reported nothing: what they used is not known. Tokens are of the ``tokens_reported``
    attempts that named a total, ``total_usd`` (observed charges, stated in ``evidence``) of the ``charged`` ones;
    ``without_evidence`` state an amount that nothing shows.
    """

    attempts: int
    silent: int
    total_tokens: float | None
    tokens_reported: int
    total_usd: float | None
    charged: int
    without_evidence: int
    evidence: tuple[str, ...]


class JudgeCosts(Record):
    """What a judge's model calls used. ``charge_usd`` was observed for ``charged`` of ``calls``.

    ``list_price_usd`` is an estimate from dated price tables over the ``priced`` calls; it is no charge.
    """

    calls: int
    charge_usd: float | None
    charged: int
    evidence: tuple[str, ...]
    list_price_usd: float | None
    priced: int
    price_tables: tuple[str, ...]


class Figure(Record):
    """A derived figure, or the reason why there is none."""

    value: float | None
    reason: str | None = None


class ReviewCost(Record):
    """What one scored review found and took: candidates, covered golden TPs, milliseconds, usage."""

    candidates: int
    covered: int
    milliseconds: float | None
    usage: UsageRecord | None


class Efficiency(Record):
    """Cost-adjusted figures of a row. A figure is None unless every scored review measured what it is made of.

    Per dollar and per minute mean the metric divided by the mean charge, or the mean minutes, of a review.
    """

    usd_per_finding: Figure
    usd_per_covered_golden: Figure
    ms_per_finding: Figure
    ms_per_covered_golden: Figure
    tokens_per_finding: Figure
    tokens_per_covered_golden: Figure
    precision_per_usd: Figure
    recall_per_usd: Figure
    precision_per_minute: Figure
    recall_per_minute: Figure


def usage_summary(records: Sequence[UsageRecord | None]) -> UsageSummary:
    """Totals and means of reviews, one entry a review, None where it reported nothing."""
    metrics = {}
    for name in USAGE_METRICS:
        values = [value for each in records if each is not None and (value := getattr(each, name)) is not None]
        total = math.fsum(values) if values else None
        metrics[name] = MetricUsage(
            reported=len(values),
            reviews=len(records),
            total=total,
            mean=None if total is None else total / len(values),
        )
    counting = [each for each in records if each is not None and _has_any(each, TOKEN_METRICS)]
    lists = {each.models for each in counting}
    reason = None
    if not counting:
        reason = "no review reported tokens"
    elif None in lists:
        reason = "a review does not say which models its tokens count"
    elif len(lists) > 1:
        reason = "the reviews count different models"
    return UsageSummary(
        reviews=len(records),
        reported_reviews=len([each for each in records if each is not None and _has_any(each, USAGE_METRICS)]),
        metrics=metrics,
        models=None if reason else counting[0].models,
        models_reason=reason,
    )


def _has_any(record: UsageRecord, names: Iterable[str]) -> bool:
    return any(getattr(record, name) is not None for name in names)


def token_problem(one: UsageSummary, other: UsageSummary) -> str | None:
    """Why the token totals of two summaries cannot be compared; None where they can."""
    for summary in (one, other):
        if summary.models is None:
            return summary.models_reason
    if one.models != other.models:
        return f"they count different models: {', '.join(one.models or ())} and {', '.join(other.models or ())}"
    return None


def charges(records: Sequence[UsageRecord | None]) -> Charges:
    """The observed charges of reviews; an amount without evidence is counted apart."""
    amounts = [(each.cost_usd, each.evidence) for each in records if each is not None and each.cost_usd is not None]
    observed = [amount for amount, evidence in amounts if evidence is not None]
    unsupported = [amount for amount, evidence in amounts if evidence is None]
    return Charges(
        total_usd=math.fsum(observed) if observed else None,
        observed=len(observed),
        reviews=len(records),
        evidence=tuple(sorted({evidence for _, evidence in amounts if evidence is not None})),
        unsupported=len(unsupported),
        unsupported_usd=math.fsum(unsupported) if unsupported else None,
    )


def failed_attempts(records: Sequence[UsageRecord | None]) -> FailedAttempts:
    """What failed attempts used, one entry an attempt, None where it reported nothing."""
    summary, observed = usage_summary(records), charges(records)
    tokens = summary.metrics["total_tokens"]
    return FailedAttempts(
        attempts=len(records),
        silent=len(records) - summary.reported_reviews,
        total_tokens=tokens.total,
        tokens_reported=tokens.reported,
        total_usd=observed.total_usd,
        charged=observed.observed,
        without_evidence=observed.unsupported,
        evidence=observed.evidence,
    )


def efficiency(reviews: Sequence[ReviewCost], *, precision: float | None, recall: float | None) -> Efficiency:
    """The cost-adjusted figures of scored reviews, with the row's macro precision and recall."""
    found = {
        "finding": sum(each.candidates for each in reviews),
        "covered golden finding": sum(each.covered for each in reviews),
    }
    usages = [each.usage for each in reviews]
    usd = _complete(
        [None if each is None or each.evidence is None else each.cost_usd for each in usages], "an observed charge"
    )
    spent = _complete([each.milliseconds for each in reviews], "a measured time")
    tokens = _complete([None if each is None else each.total_tokens for each in usages], "a token total")

    def per(total: Figure, what: str) -> Figure:
        if total.value is None:
            return total
        if not found[what]:
            return Figure(value=None, reason=f"there is no {what}")
        return Figure(value=total.value / found[what])

    def rate(metric: float | None, total: Figure, unit: float, nothing: str) -> Figure:
        if total.value is None:
            return total
        if metric is None:
            return Figure(value=None, reason="the metric is undefined")
        of_review = total.value / len(reviews) / unit
        # An amount that is smaller than any that exists would make a figure that is none.
        value = metric / of_review if of_review else math.inf
        return Figure(value=value) if math.isfinite(value) else Figure(value=None, reason=nothing)

    return Efficiency(
        usd_per_finding=per(usd, "finding"),
        usd_per_covered_golden=per(usd, "covered golden finding"),
        ms_per_finding=per(spent, "finding"),
        ms_per_covered_golden=per(spent, "covered golden finding"),
        tokens_per_finding=per(tokens, "finding"),
        tokens_per_covered_golden=per(tokens, "covered golden finding"),
        precision_per_usd=rate(precision, usd, 1, "nothing was charged"),
        recall_per_usd=rate(recall, usd, 1, "nothing was charged"),
        precision_per_minute=rate(precision, spent, 60_000, "no time passed"),
        recall_per_minute=rate(recall, spent, 60_000, "no time passed"),
    )


def _complete(values: Sequence[float | None], what: str) -> Figure:
    """The sum, where every review has a value."""
    measured = [value for value in values if value is not None]
    if not values:
        return Figure(value=None, reason="no review was scored")
    if len(measured) < len(values):
        return Figure(value=None, reason=f"only {len(measured)} of {len(values)} scored reviews have {what}")
    return Figure(value=math.fsum(measured))
