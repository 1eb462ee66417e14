"""Single trials: lists, details, and which of them may be retried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.errors import InputError
from crb_core.store.steps import retry_step
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    ScoreRow,
    Stage,
    StepRow,
    StepState,
    SweepRow,
    TrialRow,
    core,
)

__all__ = ["TrialFilter", "list_trials", "retry_trials", "show_trial"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
candidates = core(CandidateRow)
judges = core(JudgeRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
scores = core(ScoreRow)
steps = core(StepRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

_ENDED_BADLY = (StepState.FAILED.value, StepState.CANCELLED.value)


@dataclass(frozen=True, kw_only=True)
class TrialFilter:
    """Which trials: every given field must hold. ``outcome`` is that of the last attempt."""

    sweep: str | None = None
    agent: str | None = None
    pull_request: str | None = None
    round: int | None = None
    outcome: str | None = None
    failed: bool = False
    trial_ids: Sequence[int] = ()


def list_trials(connection: Connection, wanted: TrialFilter) -> list[dict[str, Any]]:
    """One record a trial: ids, agent, pull request, round, state of its review, attempts, last outcome, review_ms."""
    last = (
        select(attempts.c.trial_id, func.max(attempts.c.number).label("number"))
        .group_by(attempts.c.trial_id)
        .subquery()
    )
    query = (
        select(
            trials.c.id.label("trial"),
            sweeps.c.name.label("sweep"),
            builds.c.agent,
            trials.c.build_id.label("build"),
            pull_requests.c.key.label("pull_request"),
            trials.c.round,
            steps.c.state.label("review"),
            func.coalesce(last.c.number, 0).label("attempts"),
            attempts.c.outcome,
            attempts.c.review_ms,
            steps.c.reason,
        )
        .join(sweeps, sweeps.c.id == trials.c.sweep_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .join(steps, (steps.c.trial_id == trials.c.id) & (steps.c.stage == Stage.REVIEW.value))
        .outerjoin(last, last.c.trial_id == trials.c.id)
        .outerjoin(attempts, (attempts.c.trial_id == trials.c.id) & (attempts.c.number == last.c.number))
        .order_by(trials.c.id)
    )
    if wanted.trial_ids:
        query = query.where(trials.c.id.in_(wanted.trial_ids))
    if wanted.sweep is not None:
        query = query.where((sweeps.c.name == wanted.sweep) | (sweeps.c.id == wanted.sweep))
    if wanted.agent is not None:
        query = query.where(builds.c.agent == wanted.agent)
    if wanted.pull_request is not None:
        query = query.where(pull_requests.c.key == wanted.pull_request)
    if wanted.round is not None:
        query = query.where(trials.c.round == wanted.round)
    if wanted.outcome is not None:
        query = query.where(attempts.c.outcome == wanted.outcome)
    if wanted.failed:
        bad_judging = select(steps.c.trial_id).where(steps.c.state == StepState.FAILED.value)
        query = query.where(steps.c.state.in_(_ENDED_BADLY) | trials.c.id.in_(bad_judging))
    return [dict(row._mapping) for row in connection.execute(query)]


def show_trial(connection: Connection, trial_id: int) -> dict[str, Any]:
    """A trial with its steps, attempts, findings and scores; InputError when there is none of that number."""
    found = list_trials(connection, TrialFilter(trial_ids=[trial_id]))
    if not found:
        raise InputError(f"There is no trial {trial_id}", remedy="`crb trial list` shows the numbers")

    def rows(query: Any) -> list[dict[str, Any]]:
        return [dict(row._mapping) for row in connection.execute(query)]

    return found[0] | {
        "steps": rows(
            select(steps.c.id, steps.c.stage, steps.c.judge_id, steps.c.state, steps.c.fence, steps.c.reason)
            .where(steps.c.trial_id == trial_id)
            .order_by(steps.c.id)
        ),
        "attempts": rows(
            select(*(column for column in attempts.c if column.name not in {"id", "trial_id"}))
            .where(attempts.c.trial_id == trial_id)
            .order_by(attempts.c.number)
        ),
        "findings": rows(
            select(*(column for column in candidates.c if column.name != "trial_id"))
            .where(candidates.c.trial_id == trial_id)
            .order_by(candidates.c.position)
        ),
        "scores": rows(
            select(judges.c.name.label("judge"), judges.c.id.label("judge_id"), scores.c.document.label("score"))
            .join(judgments, judgments.c.id == scores.c.judgment_id)
            .join(judges, judges.c.id == judgments.c.judge_id)
            .where(judgments.c.trial_id == trial_id)
        ),
    }


def retry_trials(connection: Connection, wanted: TrialFilter) -> list[int]:
    """Put failed or cancelled steps of the chosen trials back to ready; returns the trials' numbers.

    A trial whose review succeeded keeps it: only its failed judge steps are retried. InputError when a trial that was
    named itself has nothing to retry, and when nothing at all was chosen.
    """
    chosen = list_trials(connection, wanted)
    missing = set(wanted.trial_ids) - {record["trial"] for record in chosen}
    if missing:
        raise InputError(f"There is no trial {min(missing)}", remedy="`crb trial list` shows the numbers")
    retried = []
    for record in chosen:
        failed = connection.execute(
            select(steps.c.id).where(steps.c.trial_id == record["trial"], steps.c.state.in_(_ENDED_BADLY))
        ).scalars()
        changed = [retry_step(connection, step_id) for step_id in failed.all()]
        if any(changed):
            retried.append(record["trial"])
        elif record["trial"] in wanted.trial_ids:
            state = "succeeded" if record["review"] == StepState.DONE.value else record["review"]
            raise InputError(
                f"The review of trial {record['trial']} is {state}; only failed or cancelled ones are retried",
                remedy="Start a new sweep with --force to measure again",
            )
    if not retried:
        raise InputError("No failed trial matches", remedy="`crb trial list --failed` shows the failed ones")
    return retried
