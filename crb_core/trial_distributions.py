"""Distributions of what single trials measured (seed B, *Trial distributions*)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from crb_core.aggregate import f_measure
from crb_core.comment_rows import COMMENT_METRICS, CommentRow
from crb_core.distribution import Distribution, describe
from crb_core.rows import RANKINGS, Row, Trial
from crb_core.samples import Sample, sample_of
from crb_core.usage import TOKEN_METRICS

__all__ = ["comment_distributions", "trial_distributions"]


def trial_distributions(row: Row, pull_requests: Iterable[str] | None = None) -> dict[str, Distribution]:
    """By name the distribution of ``review_ms``, tokens, ``cost_usd`` and every metric over a row's scored trials.

    ``pull_requests`` restricts it, as a distribution of one pull request's trials does; None is all of them, a mixture
    that is to be labelled as such. A cost counts where it is an observed charge. All rounds count, complete or not.
    """
    trials = _scored(row.trials, pull_requests)
    found = _measured(trials)
    groups = {each.number: each.group for each in row.rounds if each.group is not None and each.scored}
    metrics = RANKINGS[row.rounds[0].scores.arrays.recipe.protocol].metrics if row.rounds else ()
    sample = sample_of(row.rounds[0].scores, groups) if groups else None
    for metric in metrics:
        found[metric] = [] if sample is None else _metric(sample, metric, trials)
    return {name: describe(values) for name, values in found.items()}


def comment_distributions(row: CommentRow, pull_requests: Iterable[str] | None = None) -> dict[str, Distribution]:
    """The same for a row of the golden-comments protocol, whose metrics are precision, recall and f."""
    trials = _scored(row.trials, pull_requests)
    found = _measured(trials)
    for metric in COMMENT_METRICS:
        found[metric] = [getattr(row.counted[each.round, each.pull_request], metric) for each in trials]
    return {name: describe(values) for name, values in found.items()}


def _scored(trials: Iterable[Trial], pull_requests: Iterable[str] | None) -> list[Trial]:
    wanted = None if pull_requests is None else set(pull_requests)
    return [each for each in trials if each.scored and (wanted is None or each.pull_request in wanted)]


def _measured(trials: Sequence[Trial]) -> dict[str, list[float | None]]:
    return {
        "review_ms": [_valid(each.review_ms) for each in trials],
        **{name: [_usage(each, name) for each in trials] for name in TOKEN_METRICS},
        "cost_usd": [
            each.usage.cost_usd if each.usage is not None and each.usage.evidence is not None else None
            for each in trials
        ],
    }


def _metric(sample: Sample, metric: str, trials: Sequence[Trial]) -> list[float | None]:
    rows = {key: place for place, key in enumerate(sample.keys)}
    columns = {number: place for place, number in enumerate(sample.rounds)}

    def ratio(name: str, trial: Trial) -> float | None:
        cell: Any = sample.data[rows[trial.pull_request], columns[trial.round]]
        return float(cell[sample.names.index(f"value {name}")]) if cell[sample.names.index(f"defined {name}")] else None

    parts = sample.recipe.measures.f_measures.get(metric)
    if parts is None:
        return [ratio(metric, trial) for trial in trials]
    precision, recall = parts
    return [f_measure(ratio(precision, trial), ratio(recall, trial), sample.beta) for trial in trials]


def _valid(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _usage(trial: Trial, name: str) -> float | None:
    value: float | None = None if trial.usage is None else getattr(trial.usage, name)
    return value
