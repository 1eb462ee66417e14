"""Lists of trials. A single one is ``crb_core.store.trial_audit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, false, func, select

from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import is_storable

__all__ = ["MAX_NUMBER", "TrialFilter", "list_trials"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweeps = core(SweepRow)
trials = core(TrialRow)
other_steps = steps.alias("other_steps")

#: Largest number that an integer column of every database holds.
MAX_NUMBER = 2**31 - 1

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)


@dataclass(frozen=True, kw_only=True)
class TrialFilter:
    """Which trials: every given field must hold. ``outcome`` is that of the last attempt.

    ``failed`` and ``cancelled`` concern any step of the trial; both together mean either.
    """

    sweep: str | None = None
    agent: str | None = None
    pull_request: str | None = None
    round: int | None = None
    outcome: str | None = None
    failed: bool = False
    cancelled: bool = False
    trial_ids: Sequence[int] = ()


def list_trials(connection: Connection, wanted: TrialFilter) -> list[dict[str, Any]]:
    """One record a trial: ids, agent, pull request, round, state of its review, attempts, last outcome, review_ms.

    ``open_steps`` counts its steps that wait or run. InputError where the wanted sweep is not there.
    """
    open_steps = (
        select(func.count())
        .select_from(other_steps)
        .where(other_steps.c.trial_id == trials.c.id, other_steps.c.state.in_(_OPEN))
        .scalar_subquery()
    )
    last = (
        select(attempts.c.trial_id, func.max(attempts.c.number).label("number"))
        .group_by(attempts.c.trial_id)
        .subquery()
    )
    query = (
        select(
            trials.c.id.label("trial"),
            sweeps.c.id.label("sweep_id"),
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
            open_steps.label("open_steps"),
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
        # A number that no column can hold is the number of no trial.
        query = query.where(trials.c.id.in_([number for number in wanted.trial_ids if 0 < number <= MAX_NUMBER]))
    if wanted.sweep is not None:
        query = query.where(sweeps.c.id == find_sweep(connection, wanted.sweep).id)
    if not all(is_storable(text) for text in (wanted.agent, wanted.pull_request) if text is not None):
        return []
    if wanted.agent is not None:
        query = query.where(builds.c.agent == wanted.agent)
    if wanted.pull_request is not None:
        query = query.where(pull_requests.c.key == wanted.pull_request)
    if wanted.round is not None:
        query = query.where(trials.c.round == wanted.round if 0 < wanted.round <= MAX_NUMBER else false())
    if wanted.outcome is not None:
        query = query.where(attempts.c.outcome == wanted.outcome)
    if wanted.failed or wanted.cancelled:
        states = [StepState.FAILED.value] * wanted.failed + [StepState.CANCELLED.value] * wanted.cancelled
        query = query.where(trials.c.id.in_(select(steps.c.trial_id).where(steps.c.state.in_(states))))
    return [dict(row._mapping) for row in connection.execute(query)]
