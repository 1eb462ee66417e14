"""Progress of a sweep, counted from the store each time: there are no counter columns to go wrong.

``read_progress`` counts; ``sweep_progress`` is the whole picture of a running sweep, for the terminal and for web
pages. Both read only the store, so they work on any machine that reaches it.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.finding import Record
from crb_core.settings import Settings
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    PullRequestRow,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters
from crb_scheduler.beats import BeatWatch
from crb_scheduler.estimate import Estimate
from crb_scheduler.pace import Rate, read_estimate, read_rate, read_window, stored_time
from crb_scheduler.progress_parts import (
    ENDED,
    FailureGroup,
    HeatMap,
    RunningTrial,
    TrialState,
    WorkerState,
    failure_groups,
    per_trial_state,
    read_heat_map,
    running_trials,
    worker_states,
)

__all__ = ["Failure", "Rate", "SweepCounts", "SweepProgress", "TrialState", "read_progress", "sweep_progress"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

#: A date further away than this says nothing.
LONGEST_FORECAST_SECONDS = 10 * 365 * 86_400.0
#: Less than this says nothing of a rate.
SHORTEST_WINDOW_SECONDS = 1.0
#: How many running trials are described.
RUNNING_SHOWN = 10

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)


class Failure(Record):
    """A trial, or a judge's work on it, that failed, and why."""

    trial_id: int
    agent: str
    pull_request: str
    round: int
    stage: str
    reason: str


class SweepCounts(Record):
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
        return sum(self.by_state.get(state.value, 0) for state in ENDED)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json") | {"finished": self.finished, "ended": self.ended}


class SweepProgress(SweepCounts):
    """A sweep while it runs.

    ``queues`` counts its steps by stage and state (without done ones), ``steps_lost`` how often a step was given back
    because its worker was not heard of, ``paused_agents`` why agents are paused. ``rate`` is None before anything has
    ended and once the sweep has. ``running`` are the longest-running trials. ``workers`` are those of the whole farm.
    """

    at: str
    #: When its first attempt began; None before that.
    started_at: str | None
    rounds: int
    queues: dict[str, dict[str, int]]
    steps_lost: int
    paused_agents: dict[str, str]
    rate: Rate | None
    estimate: Estimate
    #: Now plus the estimate, UTC; None where there is no estimate.
    finish_at: str | None
    heat_map: HeatMap
    running: tuple[RunningTrial, ...]
    failure_groups: tuple[FailureGroup, ...]
    workers: tuple[WorkerState, ...]


def read_progress(connection: Connection, sweep_id: str, *, failures: int = 100) -> SweepCounts:
    """Count a sweep's trials by state; at most ``failures`` failures are described, all are counted."""
    sweep = connection.execute(select(sweeps.c.name, sweeps.c.state).where(sweeps.c.id == sweep_id)).one()
    found = per_trial_state(sweep_id)
    by_state: Counter[str] = Counter()
    by_agent: dict[str, dict[str, int]] = {}
    for row in connection.execute(
        select(builds.c.agent, found.c.state, func.count().label("n"))
        .join(builds, builds.c.id == found.c.build_id)
        .group_by(builds.c.agent, found.c.state)
        .order_by(by_characters(builds.c.agent))
    ):
        by_state[row.state] += row.n
        by_agent.setdefault(row.agent, {})[row.state] = row.n
    open_steps = connection.execute(
        select(func.count()).select_from(steps).where(steps.c.sweep_id == sweep_id, steps.c.state.in_(_OPEN))
    ).scalar_one()
    return SweepCounts(
        sweep_id=sweep_id,
        name=sweep.name,
        state=sweep.state,
        trials=by_state.total(),
        by_state=dict(by_state),
        by_agent=by_agent,
        open_steps=open_steps,
        failures=_failures(connection, sweep_id, failures),
    )


def sweep_progress(
    connection: Connection,
    sweep_id: str,
    *,
    beats: BeatWatch | None = None,
    now: datetime | None = None,
    failures: int = 100,
) -> SweepProgress:
    """Everything about a running sweep, from one reading of the store.

    ``beats`` is kept by a reader that looks more than once: without it no worker is known to be alive or dead. ``now``
    (default: this machine's clock) may lag behind the workers' clocks: the window of the rate then ends at their last
    sign.
    """
    now = now or datetime.now(UTC)
    sweep = connection.execute(
        select(sweeps.c.name, sweeps.c.state, sweeps.c.rounds).where(sweeps.c.id == sweep_id)
    ).one()
    heat_map, ended = read_heat_map(connection, sweep_id)
    by_state: Counter[str] = Counter()
    by_agent: dict[str, Counter[str]] = {}
    by_build: dict[str, Counter[str]] = {}
    for row in heat_map.rows:
        for code, state in heat_map.codes.items():
            count = row.cells.count(code)
            if count:
                by_state[state] += count
                by_agent.setdefault(row.agent, Counter())[state] += count
                by_build.setdefault(row.build_id, Counter())[state] += count
    queues: dict[str, dict[str, int]] = {}
    for stage, step_state, count in connection.execute(
        select(steps.c.stage, steps.c.state, func.count())
        .where(steps.c.sweep_id == sweep_id, steps.c.state != StepState.DONE.value)
        .group_by(steps.c.stage, steps.c.state)
        .order_by(steps.c.stage, steps.c.state)
    ).all():
        queues.setdefault(stage, {})[step_state] = count
    open_steps = sum(count for states in queues.values() for state, count in states.items() if state in _OPEN)
    paused = {
        row.build_id: (row.agent, row.paused_reason)
        for row in connection.execute(
            select(sweep_builds.c.build_id, sweep_builds.c.paused_reason, builds.c.agent)
            .join(builds, builds.c.id == sweep_builds.c.build_id)
            .where(sweep_builds.c.sweep_id == sweep_id, sweep_builds.c.paused)
            .order_by(by_characters(builds.c.agent))
        )
    }
    worker_list = worker_states(connection, beats or BeatWatch(Settings.model_fields["lease_seconds"].default))
    started_at = connection.execute(
        select(func.min(attempts.c.started_at))
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(trials.c.sweep_id == sweep_id)
    ).scalar_one()
    measured = read_window(connection, sweep_id, now)
    outlook = read_estimate(
        connection,
        sweep_id,
        state=sweep.state,
        by_build=by_build,
        paused=set(paused),
        queues=queues,
        window=None if measured is None else measured[0],
        workers=worker_list,
    )
    finish_at = None
    if outlook.seconds is not None and outlook.seconds < LONGEST_FORECAST_SECONDS:
        finish_at = stored_time(now + timedelta(seconds=outlook.seconds))
    rate = None
    if open_steps and measured is not None and measured[0].seconds >= SHORTEST_WINDOW_SECONDS:
        rate = read_rate(connection, sweep_id, *measured, ended)
    return SweepProgress(
        sweep_id=sweep_id,
        name=sweep.name,
        state=sweep.state,
        trials=by_state.total(),
        by_state=dict(by_state),
        by_agent={agent: dict(states) for agent, states in sorted(by_agent.items())},
        open_steps=open_steps,
        failures=_failures(connection, sweep_id, failures),
        at=stored_time(now),
        started_at=started_at,
        rounds=sweep.rounds,
        queues=queues,
        steps_lost=connection.execute(
            select(func.coalesce(func.sum(steps.c.losses), 0)).where(steps.c.sweep_id == sweep_id)
        ).scalar_one(),
        paused_agents={agent: reason or "no reason was given" for agent, reason in paused.values()},
        rate=rate,
        estimate=outlook,
        finish_at=finish_at,
        heat_map=heat_map,
        running=running_trials(connection, sweep_id, now, limit=RUNNING_SHOWN),
        failure_groups=failure_groups(connection, sweep_id),
        workers=worker_list,
    )


def _failures(connection: Connection, sweep_id: str, limit: int) -> tuple[Failure, ...]:
    rows = connection.execute(
        select(steps.c.trial_id, builds.c.agent, pull_requests.c.key, trials.c.round, steps.c.stage, steps.c.reason)
        .join(trials, trials.c.id == steps.c.trial_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(steps.c.sweep_id == sweep_id, steps.c.state == StepState.FAILED.value)
        .order_by(steps.c.id)
        .limit(limit)
    )
    return tuple(
        Failure(
            trial_id=row.trial_id,
            agent=row.agent,
            pull_request=row.key,
            round=row.round,
            stage=row.stage,
            reason=row.reason or "no reason was recorded",
        )
        for row in rows
    )
