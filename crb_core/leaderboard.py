"""The leaderboard: a row an agent build, computed from persisted findings, matches and judgments (seed A 7.4 to 7.7).

Nothing here is read from stored scores: a row is what the definitions give for the judgments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crb_core import distribution, duration
from crb_core.agent import AgentBuild
from crb_core.aggregate import Score, to_json
from crb_core.distribution import AcrossRounds, RoundValue
from crb_core.duration import Duration, Measurement
from crb_core.errors import InputError
from crb_core.identity import RowIdentity
from crb_core.matching import JudgedPullRequest
from crb_core.metrics import MetricSet, score
from crb_core.strata import EVERYTHING, Subset

__all__ = [
    "HEADLINE",
    "METRICS",
    "SORTABLE",
    "Leaderboard",
    "Row",
    "RowRound",
    "Trial",
    "leaderboard",
]

#: The ratios of a row, in the order in which tables show them.
METRICS = (
    "grounded_precision",
    "grounded_recall",
    "grounded_f",
    "augmented_precision",
    "augmented_recall",
    "augmented_f",
    "novel_tp_yield",
)
#: What rows are ranked by (rule 11): macro grounded f.
HEADLINE = "grounded_f"
#: Augmented recall has an agent-dependent denominator (seed A 7.2): no ranking by it.
SORTABLE = tuple(metric for metric in METRICS if metric not in {"augmented_recall", "augmented_f"})

_COUNTS = tuple(name for name in MetricSet.model_fields if name.endswith("_count"))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a build as a leaderboard needs it. ``judged`` is None without a score; ``problem`` says why."""

    pull_request: str
    round: int
    judged: JudgedPullRequest | None
    review_ms: float | None
    succeeded: bool
    problem: str | None = None
    #: Legacy duration in seconds of an imported review, where it has no ``review_ms``.
    duration_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class RowRound:
    """One round of a row. ``score`` is over the ``scored`` of ``planned`` pull requests; None without any."""

    number: int
    scored: int
    planned: int
    score: Score[MetricSet] | None
    problems: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A build's row: each metric across rounds, macro and micro, the duration of the same rounds, and its marks."""

    build: AgentBuild
    identity: RowIdentity
    macro: Mapping[str, AcrossRounds]
    micro: Mapping[str, AcrossRounds]
    duration: Duration
    rounds: tuple[RowRound, ...]
    counts: Mapping[str, int]
    ranked: bool
    submittable: bool
    marks: tuple[str, ...]
    rank: int | None = None

    def to_json(self) -> dict[str, Any]:
        headline = self.macro[HEADLINE]
        return {
            "agent": self.build.agent,
            "display_name": self.build.display_name,
            "build": self.build.build_id,
            "runner": self.build.runner,
            "isolated": self.build.isolated,
            "kind": self.build.kind,
            "row_identity": self.identity.model_dump(mode="json"),
            "row_sha256": self.identity.sha256,
            "rank": self.rank,
            "ranked": self.ranked,
            "submittable": self.submittable,
            "marks": list(self.marks),
            "scored": headline.scored,
            "planned": headline.planned,
            "rounds_used": list(headline.used),
            "rounds_left_out": list(headline.left_out),
            "macro": {name: _across_json(value) for name, value in self.macro.items()},
            "micro": {name: _across_json(value) for name, value in self.micro.items()},
            "counts": dict(self.counts),
            "duration": self.duration.model_dump(mode="json"),
            "rounds": [
                {
                    "round": each.number,
                    "scored": each.scored,
                    "planned": each.planned,
                    "problems": [{"pull_request": key, "problem": problem} for key, problem in each.problems],
                    "score": None if each.score is None else to_json(each.score),
                }
                for each in self.rounds
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """Ranked rows first, then those that cannot be ranked, each with its reason in ``marks``."""

    beta: float
    subset: Subset
    sort: str
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "crb.leaderboard/1",
            "beta": self.beta,
            "subset": self.subset.to_json(),
            "sort": self.sort,
            "rows": [row.to_json() for row in self.rows],
        }


def leaderboard(
    builds: Iterable[tuple[AgentBuild, RowIdentity, Sequence[Trial]]],
    *,
    beta: float = 1.0,
    subset: Subset = EVERYTHING,
    sort: str = HEADLINE,
    allow_partial: bool = False,
    oversubscribed: frozenset[str] = frozenset(),
) -> Leaderboard:
    """Rows of builds under one protocol and judge. ``sort`` is a metric of ``SORTABLE``, taken macro.

    ``oversubscribed`` are build ids whose containers shared cores. InputError for a metric that must not rank.
    """
    if sort not in SORTABLE:
        reason = (
            "has a denominator of its own for every agent, so it ranks nobody (seed A 7.2)"
            if sort in METRICS
            else "is no metric"
        )
        raise InputError(f"{sort} {reason}", remedy=f"Sort by one of {', '.join(SORTABLE)}")
    rows = [
        _row(build, identity, trials, beta, subset, allow_partial, oversubscribed) for build, identity, trials in builds
    ]
    ranked = sorted(
        (row for row in rows if row.ranked and row.macro[sort].mean is not None),
        key=lambda row: (-_mean(row, sort), row.build.agent, row.build.build_id),
    )
    placed = [replace(row, rank=1 + sum(_mean(other, sort) > _mean(row, sort) for other in ranked)) for row in ranked]
    rest = sorted((row for row in rows if row not in ranked), key=lambda row: (row.build.agent, row.build.build_id))
    return Leaderboard(beta=beta, subset=subset, sort=sort, rows=(*placed, *rest))


def _row(
    build: AgentBuild,
    identity: RowIdentity,
    trials: Sequence[Trial],
    beta: float,
    subset: Subset,
    allow_partial: bool,
    oversubscribed: frozenset[str],
) -> Row:
    numbers = sorted({trial.round for trial in trials})
    rounds = tuple(
        _round(number, [trial for trial in trials if trial.round == number], beta, subset) for number in numbers
    )

    def across(level: str, metric: str) -> AcrossRounds:
        values = [
            RoundValue(
                number=each.number,
                value=None if each.score is None else getattr(getattr(each.score, level).overall, metric),
                scored=each.scored,
                planned=each.planned,
            )
            for each in rounds
        ]
        return distribution.across_rounds(values, allow_partial=allow_partial)

    macro = {metric: across("macro", metric) for metric in METRICS}
    micro = {metric: across("micro", metric) for metric in METRICS}
    headline = macro[HEADLINE]
    used = set(headline.used)
    spent = duration.across_rounds(
        [
            duration.round_duration(
                [
                    Measurement(
                        pull_request=trial.pull_request,
                        review_ms=trial.review_ms,
                        duration_seconds=trial.duration_seconds,
                    )
                    for trial in trials
                    if trial.round == number and trial.succeeded
                ]
            )
            for number in sorted(used)
        ]
    )
    micro_sets = [each.score.micro.overall for each in rounds if each.number in used and each.score is not None]
    complete = all(each.scored == each.planned for each in rounds if each.number in used) and bool(used)
    marks = tuple(_marks(build, headline, rounds, spent, complete, build.build_id in oversubscribed))
    return Row(
        build=build,
        identity=identity,
        macro=macro,
        micro=micro,
        duration=spent,
        rounds=rounds,
        counts={name: sum(getattr(each, name) for each in micro_sets) for name in _COUNTS},
        ranked=complete,
        submittable=headline.submittable and build.kind == "reviewer" and build.isolated,
        marks=marks,
    )


def _round(number: int, trials: Sequence[Trial], beta: float, subset: Subset) -> RowRound:
    judged = [trial.judged for trial in trials if trial.judged is not None]
    return RowRound(
        number=number,
        scored=len(judged),
        planned=len(trials),
        score=score(judged, beta=beta, subset=subset) if judged else None,
        problems=tuple((trial.pull_request, trial.problem or "no score") for trial in trials if trial.judged is None),
    )


def _marks(
    build: AgentBuild,
    headline: AcrossRounds,
    rounds: Sequence[RowRound],
    spent: Duration,
    complete: bool,
    oversubscribed: bool,
) -> Iterable[str]:
    if not build.isolated:
        yield "imported" if build.runner == "imported" else "not isolated"
    if build.kind == "replay":
        yield "recorded"
    if oversubscribed:
        yield "cores shared"
    if headline.left_out:
        yield f"round {', '.join(map(str, headline.left_out))} incomplete"
    if not complete:
        missing = sum(each.planned - each.scored for each in rounds)
        yield f"unranked: {missing} of {sum(each.planned for each in rounds)} trials have no score"
    if spent.from_seconds:
        yield "duration includes retries"


def _mean(row: Row, metric: str) -> float:
    value = row.macro[metric].mean
    assert value is not None
    return value


def _across_json(value: AcrossRounds) -> dict[str, Any]:
    return {
        "mean": value.mean,
        "std": value.std,
        "rounds": [each.value for each in value.rounds],
        "reason": value.reason,
    }
