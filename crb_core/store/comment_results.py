"""Results of a sweep under the golden-comments protocol: what its leaderboard needs beyond the general results."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from crb_core.comment_rows import CommentTrial
from crb_core.rows import Trial
from crb_core.store.results import StoredJudge, SweepResults, TrialResult, load_results
from crb_core.store.reviews import Reviews
from crb_core.store.tables import (
    CorrespondenceRow,
    GoldenRow,
    JudgmentRow,
    PullRequestRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = ["load_comment_trials", "scorable_pull_requests"]

correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def load_comment_trials(
    connection: Connection, sweep_id: str, judge: StoredJudge
) -> tuple[SweepResults, dict[str, list[CommentTrial]]]:
    """The general results, and by build id every trial with what its judgment recorded and leaves open."""
    results = load_results(connection, sweep_id, judge)
    mine = (trials.c.sweep_id == sweep_id) & (judgments.c.judge_id == judge.judge_id)
    documents: dict[int, dict[str, Any]] = {
        row.trial_id: row.document or {}
        for row in connection.execute(
            select(judgments.c.trial_id, judgments.c.document)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(mine)
        )
    }
    probabilities: dict[int, dict[tuple[int, int], float]] = {}
    for row in connection.execute(
        select(
            judgments.c.trial_id,
            correspondences.c.candidate,
            correspondences.c.golden,
            correspondences.c.probability,
        )
        .join(judgments, judgments.c.id == correspondences.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(mine, correspondences.c.probability.is_not(None))
    ):
        probabilities.setdefault(row.trial_id, {})[row.candidate, row.golden] = row.probability
    reviews = Reviews(connection, sweep_id, trials.c.sweep_id == sweep_id)
    by_build: dict[str, list[CommentTrial]] = {build.build_id: [] for build in results.builds}
    for trial in results.trials:
        by_build[trial.build_id].append(
            _trial(
                trial,
                documents.get(trial.trial_id, {}),
                probabilities.get(trial.trial_id, {}),
                reviews.of_trial(trial.trial_id),
            )
        )
    return results, by_build


def scorable_pull_requests(connection: Connection, sweep_id: str) -> tuple[str, ...]:
    """The pull requests of a sweep that have a golden comment, in corpus order: what a complete round has."""
    with_golden = select(goldens.c.pull_request_id)
    reviewed = select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id)
    rows = connection.execute(
        select(pull_requests.c.key)
        .join(sweeps, sweeps.c.corpus_id == pull_requests.c.corpus_id)
        .where(sweeps.c.id == sweep_id, pull_requests.c.id.in_(with_golden), pull_requests.c.id.in_(reviewed))
        .order_by(pull_requests.c.position)
    )
    return tuple(row.key for row in rows)


def _trial(
    trial: TrialResult,
    document: dict[str, Any],
    probabilities: dict[tuple[int, int], float],
    review: dict[str, Any],
) -> CommentTrial:
    return CommentTrial.of_document(
        document,
        judged=trial.judged,
        pull_request=trial.pull_request,
        round=trial.round,
        problem=trial.problem,
        probabilities=probabilities,
        review=Trial(
            pull_request=trial.pull_request,
            round=trial.round,
            scored=trial.judged is not None,
            problem=trial.problem,
            **review,
        ),
    )
