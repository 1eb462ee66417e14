"""The parts of a sweep's progress, each one aggregated query over the store."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, case, func, literal, select

from crb_core.agent import Outcome
from crb_core.finding import Record
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    TrialRow,
    WorkerRow,
    core,
)
from crb_core.store.texts import by_characters
from crb_scheduler.beats import BeatWatch

__all__ = [
    "CELL_CODES",
    "ENDED",
    "NO_TRIAL",
    "STATE_GLYPHS",
    "FailureGroup",
    "HeatMap",
    "HeatMapRow",
    "RunningTrial",
    "TrialState",
    "WorkerState",
    "failure_groups",
    "moment",
    "per_trial_state",
    "read_heat_map",
    "running_trials",
    "worker_states",
]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
trials = core(TrialRow)
workers = core(WorkerRow)

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)
_EXAMPLES = 3
#: Characters of an example: a reason may quote a whole page.
_LONGEST_EXAMPLE = 500


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


#: One character a state: what a heat map's cells are written with.
CELL_CODES: dict[TrialState, str] = {
    TrialState.WAITING: "w",
    TrialState.REVIEWING: "r",
    TrialState.JUDGING: "j",
    TrialState.SCORED: "s",
    TrialState.FAILED: "F",
    TrialState.JUDGE_FAILED: "J",
    TrialState.CANCELLED: "x",
}
#: The same for people, who read a filled cell and an empty one at a glance. Colour is never the only signal.
STATE_GLYPHS: dict[TrialState, str] = CELL_CODES | {TrialState.WAITING: "·", TrialState.SCORED: "█"}
#: Trials in these will not change any more.
ENDED = (TrialState.SCORED, TrialState.FAILED, TrialState.JUDGE_FAILED, TrialState.CANCELLED)
#: A cell without a trial: the sweep was extended by pull requests that this build and round do not have.
NO_TRIAL = " "


class HeatMapRow(Record):
    """One build in one round. ``cells`` has one character a pull request, in the order of the heat map's list."""

    agent: str
    build_id: str
    round: int
    cells: str


class HeatMap(Record):
    """The state of every trial: rows are builds and rounds, columns pull requests in corpus order.

    ``codes`` says which state a character stands for; a blank is no trial.
    """

    pull_requests: tuple[str, ...]
    rows: tuple[HeatMapRow, ...]
    codes: dict[str, str]


class RunningTrial(Record):
    """A step that a worker holds.

    ``seconds`` is by wall clocks: since the attempt began, and for a judge's step since it was sent to its queue. None
    where the clocks contradict each other.
    """

    trial_id: int
    stage: str
    agent: str
    pull_request: str
    round: int
    attempt: int | None
    worker: str | None
    seconds: float | None


class FailureGroup(Record):
    """Attempts, or judge steps, of one agent that ended in one way.

    ``fault`` is ``agent``, ``farm``, ``judge`` or ``nobody`` (cancelled). ``trials`` have such an attempt,
    ``failed_trials`` of them have failed for good; ``examples`` are the latest trials, ``example`` says what happened
    in the first of them.
    """

    agent: str
    build_id: str
    stage: str
    outcome: str
    fault: str
    attempts: int
    trials: int
    failed_trials: int
    examples: tuple[int, ...]
    example: str | None


class WorkerState(Record):
    """A worker and its load.

    ``status`` is what it last said of itself (crb_worker/status.py); None before its first beat. ``running`` counts the
    steps that it holds, of any sweep, by stage. ``alive`` is None where one reading cannot tell.
    """

    name: str
    host: str
    slots: dict[str, int]
    wanted_slots: dict[str, int] | None
    running: dict[str, int]
    status: dict[str, Any] | None
    alive: bool | None
    silent_seconds: float


def per_trial_state(sweep_id: str) -> Any:
    """A subquery with trial_id, build_id and state of every trial of a sweep."""
    is_review = steps.c.stage == Stage.REVIEW.value
    grouped = (
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
        (grouped.c.review == StepState.FAILED.value, TrialState.FAILED.value),
        (grouped.c.review == StepState.CANCELLED.value, TrialState.CANCELLED.value),
        (grouped.c.review == StepState.RUNNING.value, TrialState.REVIEWING.value),
        (grouped.c.review != StepState.DONE.value, TrialState.WAITING.value),
        (grouped.c.judging > 0, TrialState.JUDGING.value),
        (grouped.c.failed > 0, TrialState.JUDGE_FAILED.value),
        (grouped.c.cancelled > 0, TrialState.CANCELLED.value),
        else_=TrialState.SCORED.value,
    )
    return select(grouped.c.trial_id, grouped.c.build_id, state.label("state")).subquery()


def read_heat_map(connection: Connection, sweep_id: str) -> tuple[HeatMap, frozenset[int]]:
    """The state of every trial of a sweep, and the trials that will not change any more."""
    keys = connection.execute(
        select(pull_requests.c.id, pull_requests.c.key)
        .where(pull_requests.c.id.in_(select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id).distinct()))
        .order_by(pull_requests.c.position)
    ).all()
    column = {row.id: place for place, row in enumerate(keys)}
    agents: dict[str, str] = {
        row.id: row.agent
        for row in connection.execute(
            select(builds.c.id, builds.c.agent).where(
                builds.c.id.in_(select(trials.c.build_id).where(trials.c.sweep_id == sweep_id).distinct())
            )
        )
    }
    found = per_trial_state(sweep_id)
    codes = {state.value: code for state, code in CELL_CODES.items()}
    cells: dict[tuple[str, str, int], list[str]] = {}
    ended = []
    # Fetched at once: row by row takes three times as long.
    for trial_id, build_id, pull_request, round_number, state in connection.execute(
        select(trials.c.id, trials.c.build_id, trials.c.pull_request_id, trials.c.round, found.c.state).join(
            found, found.c.trial_id == trials.c.id
        )
    ).all():
        row = cells.setdefault((agents[build_id], build_id, round_number), [NO_TRIAL] * len(keys))
        row[column[pull_request]] = codes[state]
        if state in ENDED:
            ended.append(trial_id)
    heat_map = HeatMap(
        pull_requests=tuple(row.key for row in keys),
        rows=tuple(
            HeatMapRow(
                agent=agent, build_id=build_id, round=round_number, cells="".join(cells[agent, build_id, round_number])
            )
            for agent, build_id, round_number in sorted(cells)
        ),
        codes={code: state.value for state, code in CELL_CODES.items()},
    )
    return heat_map, frozenset(ended)


def running_trials(connection: Connection, sweep_id: str, now: datetime, *, limit: int) -> tuple[RunningTrial, ...]:
    """What workers hold of a sweep, the longest first."""
    rows = connection.execute(
        select(
            steps.c.trial_id,
            steps.c.stage,
            steps.c.worker,
            steps.c.published_at,
            builds.c.agent,
            pull_requests.c.key,
            trials.c.round,
            attempts.c.number,
            attempts.c.started_at,
        )
        .join(trials, trials.c.id == steps.c.trial_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .outerjoin(attempts, (attempts.c.trial_id == trials.c.id) & attempts.c.outcome.is_(None))
        .where(steps.c.state == StepState.RUNNING.value, steps.c.sweep_id == sweep_id)
    )
    found = []
    for row in rows:
        if row.stage == Stage.REVIEW.value:
            seconds = None if row.started_at is None else (now - moment(row.started_at)).total_seconds()
        else:
            seconds = None if row.published_at is None else now.timestamp() - row.published_at
        found.append(
            RunningTrial(
                trial_id=row.trial_id,
                stage=row.stage,
                agent=row.agent,
                pull_request=row.key,
                round=row.round,
                attempt=row.number,
                worker=row.worker,
                seconds=seconds if seconds is not None and seconds >= 0 else None,
            )
        )
    found.sort(key=lambda each: (-(each.seconds if each.seconds is not None else -1.0), each.trial_id))
    return tuple(found[:limit])


def failure_groups(connection: Connection, sweep_id: str) -> tuple[FailureGroup, ...]:
    """Attempts that did not succeed, and judge steps that failed, by agent and outcome; the most frequent first."""
    review = steps.alias("review")
    made = (
        select(
            attempts.c.trial_id,
            trials.c.build_id,
            literal(Stage.REVIEW.value).label("stage"),
            attempts.c.outcome,
            attempts.c.detail.label("reason"),
            case((review.c.state == StepState.FAILED.value, attempts.c.trial_id)).label("failed_trial"),
            attempts.c.id.label("place"),
        )
        .join(trials, trials.c.id == attempts.c.trial_id)
        .join(review, (review.c.trial_id == trials.c.id) & (review.c.stage == Stage.REVIEW.value))
        .where(
            trials.c.sweep_id == sweep_id,
            attempts.c.outcome.is_not(None),
            attempts.c.outcome != Outcome.SUCCEEDED.value,
        )
    )
    judged = select(
        steps.c.trial_id,
        steps.c.build_id,
        steps.c.stage,
        literal("judge step failed").label("outcome"),
        steps.c.reason,
        steps.c.trial_id.label("failed_trial"),
        steps.c.id.label("place"),
    ).where(
        steps.c.sweep_id == sweep_id,
        steps.c.stage != Stage.REVIEW.value,
        steps.c.state == StepState.FAILED.value,
    )
    found: list[FailureGroup] = []
    for query in (made, judged):
        each = query.subquery()
        key = (each.c.build_id, each.c.stage, each.c.outcome)
        counts = connection.execute(
            select(
                *key,
                builds.c.agent,
                func.count().label("n"),
                func.count(each.c.trial_id.distinct()).label("trials"),
                func.count(each.c.failed_trial.distinct()).label("failed"),
            )
            .join(builds, builds.c.id == each.c.build_id)
            .group_by(*key, builds.c.agent)
        ).all()
        if not counts:
            continue
        rank = func.row_number().over(partition_by=key, order_by=each.c.place.desc()).label("rank")
        ranked = select(*key, each.c.trial_id, each.c.reason, rank).subquery()
        examples: dict[tuple[str, str, str], list[tuple[int, str | None]]] = {}
        for row in connection.execute(
            select(ranked).where(ranked.c.rank <= _EXAMPLES).order_by(ranked.c.build_id, ranked.c.rank)
        ):
            examples.setdefault((row.build_id, row.stage, row.outcome), []).append((row.trial_id, row.reason))
        for row in counts:
            latest = examples[row.build_id, row.stage, row.outcome]
            found.append(
                FailureGroup(
                    agent=row.agent,
                    build_id=row.build_id,
                    stage=row.stage,
                    outcome=row.outcome,
                    fault=_fault(row.stage, row.outcome),
                    attempts=row.n,
                    trials=row.trials,
                    failed_trials=row.failed,
                    # A trial may have two attempts that ended alike.
                    examples=tuple(dict.fromkeys(trial for trial, _ in latest)),
                    example=None if latest[0][1] is None else latest[0][1][:_LONGEST_EXAMPLE],
                )
            )
    return tuple(sorted(found, key=lambda group: (-group.attempts, group.agent, group.outcome, group.stage)))


def worker_states(connection: Connection, beats: BeatWatch) -> tuple[WorkerState, ...]:
    """Every worker of the farm with its load, by name."""
    held: dict[str, dict[str, int]] = {}
    for row in connection.execute(
        select(steps.c.worker, steps.c.stage, func.count().label("n"))
        .where(steps.c.state == StepState.RUNNING.value, steps.c.worker.is_not(None))
        .group_by(steps.c.worker, steps.c.stage)
    ):
        held.setdefault(row.worker, {})[row.stage] = row.n
    rows = connection.execute(select(workers).order_by(by_characters(workers.c.name))).all()
    seen = beats.read((row.name, row.beat) for row in rows)
    return tuple(
        WorkerState(
            name=row.name,
            host=row.host,
            slots=row.slots,
            wanted_slots=row.wanted_slots,
            running=held.get(row.name, {}),
            status=row.status,
            alive=seen[row.name].alive,
            silent_seconds=seen[row.name].silent_seconds,
        )
        for row in rows
    )


def moment(stored: str) -> datetime:
    """A stored time (crb_core/clock.py)."""
    return datetime.fromisoformat(stored)


def _fault(stage: str, outcome: str) -> str:
    if stage != Stage.REVIEW.value:
        return "judge"
    if outcome == Outcome.CANCELLED.value:
        return "nobody"
    return "farm" if Outcome(outcome).is_farms_fault else "agent"
