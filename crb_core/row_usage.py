"""Usage and cost of a leaderboard row: the scored reviews of the rounds that it averages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crb_core.comment_rows import CommentRow
from crb_core.finding import Record
from crb_core.rows import RANKINGS, Row, Trial
from crb_core.usage import (
    Charges,
    Efficiency,
    FailedAttempts,
    ReviewCost,
    UsageSummary,
    charges,
    efficiency,
    failed_attempts,
    usage_summary,
)

__all__ = ["RowUsage", "comment_usage", "row_usage"]


class RowUsage(Record):
    """What a row's reviews used, what was charged for them, and what that bought.

    ``failed`` is what attempts that did not succeed used, in every round; the other figures do not hold it.
    """

    usage: UsageSummary
    charges: Charges
    efficiency: Efficiency
    failed: FailedAttempts


def row_usage(row: Row) -> RowUsage:
    """Usage of the scored trials of the used rounds; efficiency with the row's macro precision and recall."""
    ranking = RANKINGS[row.rounds[0].scores.arrays.recipe.protocol] if row.rounds else RANKINGS["reviewbench"]
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for each in row.rounds:
        if each.number not in row.used or each.group is None:
            continue
        arrays, counted = each.scores.arrays, each.scores.counted
        covered = counted.columns["found_count" if arrays.recipe.has_intended else "golden_covered_count"]
        for position in arrays.positions(each.group):
            slot, group = divmod(int(position), len(arrays.groups))
            key = arrays.pull_requests[int(arrays.position_pull_request[position])]
            found[each.number, key] = (int(arrays.candidates[position]), int(covered[slot, 0, group]))
    return _usage(row.trials, found, precision=row.macro[ranking.precision].mean, recall=row.macro[ranking.recall].mean)


def comment_usage(row: CommentRow) -> RowUsage:
    """The same for a golden-comments row; what is covered are the golden comments inside the profile."""
    found = {
        (number, key): (counts.candidate_count, counts.tp)
        for (number, key), counts in row.counted.items()
        if number in row.used
    }
    return _usage(row.trials, found, precision=row.figures["macro_precision"], recall=row.figures["macro_recall"])


def _usage(
    of_row: Iterable[Trial],
    found: Mapping[tuple[int, str], tuple[int, int]],
    *,
    precision: float | None,
    recall: float | None,
) -> RowUsage:
    every = list(of_row)
    trials = [trial for trial in every if (trial.round, trial.pull_request) in found and trial.scored]
    reviews = [
        ReviewCost(
            candidates=found[trial.round, trial.pull_request][0],
            covered=found[trial.round, trial.pull_request][1],
            milliseconds=trial.milliseconds,
            usage=trial.usage,
        )
        for trial in trials
    ]
    usages = [trial.usage for trial in trials]
    return RowUsage(
        usage=usage_summary(usages),
        charges=charges(usages),
        efficiency=efficiency(reviews, precision=precision, recall=recall),
        failed=failed_attempts([usage for trial in every for usage in trial.failed]),
    )
