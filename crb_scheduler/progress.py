"""Progress of a sweep, counted from the step table each time: there are no counter columns to go wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, case, func, select

from crb_core.store.tables import (
    AgentBuildRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepRow,
    TrialRow,
    core,
)

__all__ = ["Failure", "SweepProgress", "TrialState", "read_progress"]

steps = core(StepRow)
trials = core(TrialRow)
builds = core(AgentBuildRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)


class TrialState(StrEnum):
    """Where a trial is, derived from its steps."""

    WAITING = "waiting"
    REVIEWING = "reviewing"
    JUDGING = "judging"
    SCORED = "scored"
    #: The review is out of attempts.
    FAILED = "failed"
    #: The review is there, but a judge step is out of tries.
    JUDGE_FAILED = "judge failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A trial, or a judge's work on it, that failed, and why."""

    trial_id: int
    agent: str
    pull_request: str
    round: int
    stage: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """Trials by state, and the failures. ``finished`` when nothing waits or runs any more."""

    sweep_id: str
    name: str
    state: str
    trials: int
    by_state: dict[str, int]
    by_agent: dict[str, dict[str, int]]
    open_steps: int
    failures: tuple[Failure, ...]

    @property
    def finished(self) -> bool:
        return self.open_steps == 0

    @property
    def ended(self) -> int:
        """Trials that will not change any more."""
        ending = (TrialState.SCORED, TrialState.FAILED, TrialState.JUDGE_FAILED, TrialState.CANCELLED)
        return sum(self.by_state.get(state.value, 0) for state in ending)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"finished": self.finished, "ended": self.ended}


def read_progress(connection: Connection, sweep_id: str, *, failures: int = 100) -> SweepProgress:
    """Count a sweep's trials by state; at most ``failures`` failures are described, all are counted."""
    sweep = connection.execute(select(sweeps.c.name, sweeps.c.state).where(sweeps.c.id == sweep_id)).one()
    is_review = steps.c.stage == Stage.REVIEW.value
    per_trial = (
        select(
            steps.c.trial_id,
            steps.c.build_id,
            func.max(case((is_review, steps.c.state))).label("review"),
            func.sum(case((~is_review & steps.c.state.in_(_OPEN), 1), else_=0)).label("judging"),
            func.sum(case((~is_review & (steps.c.state == StepState.FAILED.value), 1), else_=0)).label("failed"),
            func.sum(case((~is_review & (steps.c.state == StepState.CANCELLED.value), 1), else_=0)).label("cancelled"),
        )
        .where(steps.c.sweep_id == sweep_id)
        .group_by(steps.c.trial_id, steps.c.build_id)
        .subquery()
    )
    state = case(
        (per_trial.c.review == StepState.FAILED.value, TrialState.FAILED.value),
        (per_trial.c.review == StepState.CANCELLED.value, TrialState.CANCELLED.value),
        (per_trial.c.review == StepState.RUNNING.value, TrialState.REVIEWING.value),
        (per_trial.c.review != StepState.DONE.value, TrialState.WAITING.value),
        (per_trial.c.judging > 0, TrialState.JUDGING.value),
        (per_trial.c.failed > 0, TrialState.JUDGE_FAILED.value),
        (per_trial.c.cancelled > 0, TrialState.CANCELLED.value),
        else_=TrialState.SCORED.value,
    ).label("state")
    by_state: dict[str, int] = {}
    by_agent: dict[str, dict[str, int]] = {}
    for row in connection.execute(
        select(builds.c.agent, state, func.count().label("n"))
        .join(builds, builds.c.id == per_trial.c.build_id)
        .group_by(builds.c.agent, state)
        .order_by(builds.c.agent)
    ):
        by_state[row.state] = by_state.get(row.state, 0) + row.n
        by_agent.setdefault(row.agent, {})[row.state] = row.n + by_agent.get(row.agent, {}).get(row.state, 0)
    open_steps = connection.execute(
        select(func.count()).select_from(steps).where(steps.c.sweep_id == sweep_id, steps.c.state.in_(_OPEN))
    ).scalar_one()
    failed = connection.execute(
        select(steps.c.trial_id, builds.c.agent, pull_requests.c.key, trials.c.round, steps.c.stage, steps.c.reason)
        .join(trials, trials.c.id == steps.c.trial_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(steps.c.sweep_id == sweep_id, steps.c.state == StepState.FAILED.value)
        .order_by(steps.c.id)
        .limit(failures)
    )
    return SweepProgress(
        sweep_id=sweep_id,
        name=sweep.name,
        state=sweep.state,
        trials=sum(by_state.values()),
        by_state=by_state,
        by_agent=by_agent,
        open_steps=open_steps,
        failures=tuple(
            Failure(
                trial_id=row.trial_id,
                agent=row.agent,
                pull_request=row.key,
                round=row.round,
                stage=row.stage,
                reason=row.reason or "no reason was recorded",
            )
            for row in failed
        ),
    )
