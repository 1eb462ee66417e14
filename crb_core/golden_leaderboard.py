"""The leaderboard of the golden-comments protocol, counted strictly (seed C; rule 18).

Positions count, inside a profile, with dedup groups; what is undefined is None. ``crb_core.comment_lists`` counts as
the public tool does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crb_core import distribution
from crb_core.agent import AgentBuild
from crb_core.aggregate import Score, f_measure, mean
from crb_core.bootstrap import Bootstrap, LevelName
from crb_core.comment_rows import (
    BETA_RANGE,
    COMMENT_METRICS,
    CommentBuilds,
    CommentRow,
    CommentTrial,
    marks_of,
    problems_of,
    ranked_rows,
)
from crb_core.distribution import AcrossRounds, RoundValue
from crb_core.errors import UsageError, Where
from crb_core.finding import GoldenFinding
from crb_core.identity import RowIdentity
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.golden_comments import MetricSet, profile_subset, score
from crb_core.recipes import COMMENTS
from crb_core.rows import late_trials
from crb_core.samples import sample_of_counts
from crb_core.strata import EVERYTHING, Subset
from crb_core.telling_apart import tell_apart

__all__ = ["strict_rows"]

_LEVELS: tuple[LevelName, ...] = ("macro", "micro")


def strict_rows(
    builds: CommentBuilds,
    *,
    judge: str,
    pull_requests: Sequence[str],
    profile: str | None,
    beta: float = 1.0,
    dedup: bool = True,
    subset: Subset = EVERYTHING,
    allow_partial: bool = False,
    answer_key_at: str | None = None,
    oversubscribed: frozenset[str] = frozenset(),
    bootstrap: Bootstrap | None = None,
) -> tuple[CommentRow, ...]:
    """Rows by position and profile. ``pull_requests`` are all that a complete round has.

    ``answer_key_at`` is when the golden comments were there, None where that is not known (rule 14).
    ``oversubscribed`` are build ids whose containers shared cores.

    ``bootstrap`` adds intervals and the letters of rows that cannot be told apart by micro f.
    InputError for a beta outside 0.5 to 3 or an unknown profile.
    """
    low, high = BETA_RANGE
    if isinstance(beta, bool) or not low <= beta <= high:
        raise UsageError(f"beta is {beta}, but this protocol takes {low:g} to {high:g}", where=Where(field="beta"))
    inside = subset & profile_subset(profile)
    rows = [
        _with_marks(
            _strict_row(
                build, identity, trials, judge, pull_requests, profile, beta, dedup, subset, inside, allow_partial
            ),
            answer_key_at,
            build.build_id in oversubscribed,
        )
        for build, identity, trials in builds
    ]
    return ranked_rows(rows) if bootstrap is None else _with_uncertainty(ranked_rows(rows), bootstrap)


def _with_marks(row: CommentRow, answer_key_at: str | None, oversubscribed: bool) -> CommentRow:
    """The row with what else decides whether it has a rank: the age of the golden comments, and a value."""
    starts = [trial.started_at for trial in row.trials if trial.scored and trial.round in row.used]
    late = late_trials(row.build, starts, answer_key_at)
    marks = [*row.marks]
    if oversubscribed:
        marks.append("cores shared")
    if late:
        marks.append(f"unranked: the answer key is not older than {late} trial{'' if late == 1 else 's'}")
    if row.ranked and row.f is None:
        marks.append(f"unranked: micro f is {row.figures['micro']['f']['reason']}")
    return replace(
        row,
        ranked=row.ranked and not late and row.f is not None,
        answer_key="unknown" if late is None else "not older" if late else "older",
        marks=tuple(marks),
    )


def _with_uncertainty(rows: Sequence[CommentRow], bootstrap: Bootstrap) -> tuple[CommentRow, ...]:
    ranked = [row for row in rows if row.rank is not None and row.sample is not None]
    samples = [row.sample for row in ranked if row.sample is not None]
    grouping = tell_apart(bootstrap, samples, "f", "micro")
    letters = {id(row): text for row, text in zip(ranked, grouping.letters, strict=True)}
    found = []
    for row in rows:
        intervals = None
        if row.sample is not None:
            intervals = {
                level: {
                    name: interval.model_dump(mode="json")
                    for name, interval in bootstrap.intervals([row.sample], level, COMMENT_METRICS)[0].items()
                }
                for level in _LEVELS
            }
        figures = {**row.figures, "intervals": intervals}
        found.append(replace(row, letters=letters.get(id(row)), figures=figures))
    return tuple(found)


def _strict_row(
    build: AgentBuild,
    identity: RowIdentity,
    trials: Sequence[CommentTrial],
    judge: str,
    pull_requests: Sequence[str],
    profile: str | None,
    beta: float,
    dedup: bool,
    subset: Subset,
    inside: Subset,
    allow_partial: bool,
) -> CommentRow:
    scores: dict[int, Score[MetricSet] | None] = {}
    scored: dict[int, int] = {}
    problems: list[dict[str, Any]] = []
    for number in sorted({trial.round for trial in trials}):
        mine = [trial for trial in trials if trial.round == number and trial.pull_request in pull_requests]
        usable = [(trial, _judged_part(trial)) for trial in mine if _is_usable(trial)]
        there = {trial.pull_request for trial in mine}
        problems += problems_of(trial for trial in mine if not _is_usable(trial))
        problems += [
            {"pull_request": key, "round": number, "problem": "not reviewed"}
            for key in pull_requests
            if key not in there
        ]
        scored[number] = len(usable)
        groups = {trial.pull_request: trial.dedup_groups for trial, _ in usable}
        scores[number] = (
            score(
                [judged for _, judged in usable],
                beta=beta,
                subset=subset,
                profile=profile,
                dedup_groups=groups if dedup else None,
                match_unrecorded={trial.pull_request: trial.match_unrecorded for trial, _ in usable},
            )
            if usable
            else None
        )

    def across(level: str, metric: str, of_beta: float = beta) -> AcrossRounds:
        values = []
        for number, result in scores.items():
            found = None if result is None else getattr(result, level).overall
            value = None if found is None else getattr(found, metric)
            if found is not None and metric == "f" and of_beta != beta:
                value = f_measure(found.precision, found.recall, of_beta)
            values.append(RoundValue(number=number, value=value, scored=scored[number], planned=len(pull_requests)))
        return distribution.across_rounds(values, allow_partial=allow_partial)

    micro = {metric: across("micro", metric) for metric in COMMENT_METRICS}
    macro = {metric: across("macro", metric) for metric in COMMENT_METRICS}
    headline = micro["f"]
    used = [result.micro.overall for number, result in scores.items() if result is not None and number in headline.used]
    judged_trials = [trial for trial in trials if trial.round in headline.used and _is_usable(trial)]
    unjudged = sum(len(trial.golden_unjudged) for trial in judged_trials)
    outside = sum(golden.label.category is None for trial in judged_trials for golden in _judged_part(trial).golden)
    counted = {
        (number, pr.key): pr.overall
        for number, result in scores.items()
        if result is not None
        for pr in result.per_pull_request
    }
    complete = bool(headline.used) and headline.scored == headline.planned
    marks = []
    if not complete:
        planned = len(pull_requests) * max(1, len(scores))
        marks.append(f"unranked: {planned - sum(scored.values())} of {planned} reviews have no score")
    if unjudged:
        marks.append(f"unranked: {unjudged} golden comments were not judged and are left out")
    if outside and inside.category is not None:
        marks.append(f"{outside} golden comments have no category and count in no profile")

    in_rounds = [scores[number] for number in headline.used]

    def total(name: str) -> int | None:
        return sum(getattr(each, name) for each in used) if used else None

    return CommentRow(
        build=build,
        identity=identity,
        judge=judge,
        ranked=complete and not unjudged,
        sample=sample_of_counts(
            COMMENTS,
            {
                number: {pr.key: pr.overall for pr in result.per_pull_request}
                for number, result in scores.items()
                if result is not None and number in headline.used
            },
            beta,
        )
        if used
        else None,
        trials=tuple(
            replace(trial.review, scored=(trial.round, trial.pull_request) in counted)
            for trial in trials
            if trial.review is not None
        ),
        counted=counted,
        grouped=sum(bool(trial.dedup_groups) for trial in judged_trials),
        strata=_strata([each for each in in_rounds if each is not None]),
        covered=frozenset(
            (trial.pull_request, position) for trial in judged_trials for position in _matched(trial, inside)
        ),
        marks=tuple(marks_of(build, marks)),
        figures={
            "tp": total("tp"),
            "fp": total("fp"),
            "fn": total("fn"),
            "precision": micro["precision"].mean,
            "recall": micro["recall"].mean,
            "f": micro["f"].mean,
            "macro_precision": macro["precision"].mean,
            "macro_recall": macro["recall"].mean,
            "macro_f": macro["f"].mean,
            "macro_f1": across("macro", "f", 1.0).mean,
            "matched_excluded_count": total("matched_excluded_count"),
            "match_unrecorded_count": total("match_unrecorded_count"),
            "golden_unjudged_count": unjudged if used else None,
            "candidate_count": total("candidate_count"),
            "reviews": headline.scored,
            "planned": headline.planned,
            "rounds_used": list(headline.used),
            "rounds_left_out": list(headline.left_out),
            "micro": {name: value.to_json() for name, value in micro.items()},
            "macro": {name: value.to_json() for name, value in macro.items()},
            "problems": problems,
        },
    )


def _strata(rounds: Sequence[Score[MetricSet]]) -> dict[tuple[str, str], tuple[float | None, str | None]]:
    """Micro f of every stratum that a round has: the mean of the rounds."""
    names = sorted({(axis, value) for each in rounds for axis, of in each.micro.strata.items() for value in of})
    found: dict[tuple[str, str], tuple[float | None, str | None]] = {}
    for axis, value in names:
        values = [None if (of := each.micro.strata[axis].get(value)) is None else of.f for each in rounds]
        known = [each for each in values if each is not None]
        if len(known) == len(values):
            found[axis, value] = (mean(known)[0], None)
        else:
            found[axis, value] = (None, f"undefined in {len(values) - len(known)} of {len(values)} rounds")
    return found


def _matched(trial: CommentTrial, inside: Subset) -> set[int]:
    """Positions of the golden comments inside that a candidate matches."""
    judged = trial.judged
    assert judged is not None
    found = {golden for record in judged.correspondences for golden in record.golden} - trial.golden_unjudged
    labels = {}
    for position in found:
        label = judged.golden[position].label
        category = label.category or trial.golden_categories.get(position)
        labels[position] = judged.golden[position].model_copy(
            update={"label": label.model_copy(update={"category": category})}
        )
    return {position for position in found if inside.has_golden(labels[position])}


def _is_usable(trial: CommentTrial) -> bool:
    return trial.judged is not None and trial.unscorable is None


def _judged_part(trial: CommentTrial) -> JudgedPullRequest:
    """The judged pull request without the golden comments that were not judged, with categories filled in."""
    judged = trial.judged
    assert judged is not None
    if not trial.golden_unjudged and not trial.golden_categories:
        return judged
    place: dict[int, int] = {}
    golden: list[GoldenFinding] = []
    for position, finding in enumerate(judged.golden):
        if position in trial.golden_unjudged:
            continue
        place[position] = len(golden)
        category = trial.golden_categories.get(position)
        if category is not None and finding.label.category is None:
            finding = finding.model_copy(update={"label": finding.label.model_copy(update={"category": category})})
        golden.append(finding)
    correspondences = [
        record.model_copy(update={"golden": tuple(place[each] for each in record.golden if each in place)})
        for record in judged.correspondences
    ]
    return judged.model_copy(update={"golden": tuple(golden), "correspondences": tuple(correspondences)})
