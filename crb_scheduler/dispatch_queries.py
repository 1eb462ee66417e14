"""What the dispatcher asks the store. Built once: it asks often, and building costs more than asking."""

from __future__ import annotations

from sqlalchemy import bindparam, func, or_, select

from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    JudgeRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    SweepState,
    TrialRow,
    WorkerRow,
    core,
)

__all__ = [
    "GROUPS_WITH_READY",
    "HEADS",
    "IN_FLIGHT",
    "LIMITS",
    "MESSAGES",
    "QUEUED",
    "QUEUED_LONG_AGO",
    "STAGES_WITH_READY",
    "WORKER_SLOTS",
]

steps = core(StepRow)
sweeps = core(SweepRow)
sweep_builds = core(SweepBuildRow)
workers = core(WorkerRow)
trials = core(TrialRow)
pull_requests = core(PullRequestRow)
builds = core(AgentBuildRow)
attempts = core(AttemptRow)
judges = core(JudgeRow)

#: Name, beat and slots of every worker.
WORKER_SLOTS = select(workers.c.name, workers.c.beat, workers.c.slots)

#: How many steps are queued, by stage.
QUEUED = (
    select(steps.c.stage, func.count().label("n"))
    .where(steps.c.state == StepState.QUEUED.value)
    .group_by(steps.c.stage)
)

#: One row: for each stage, under its name, whether a step of it is ready.
STAGES_WITH_READY = select(
    *(
        select(steps.c.id)
        .where(steps.c.state == StepState.READY.value, steps.c.stage == stage.value)
        .exists()
        .label(stage.value)
        for stage in Stage
    )
)

#: Queued and running steps by stage, sweep and build.
IN_FLIGHT = (
    select(steps.c.stage, steps.c.sweep_id, steps.c.build_id, func.count().label("n"))
    .where(steps.c.state.in_((StepState.QUEUED.value, StepState.RUNNING.value)))
    .group_by(steps.c.stage, steps.c.sweep_id, steps.c.build_id)
)

#: Sweeps and builds that may go on and have a ready step in ``stage``: a look into the index for each build, instead
#: of a walk over all that is ready. A paused agent is not run; what it has found already is judged.
GROUPS_WITH_READY = (
    select(sweep_builds.c.sweep_id, sweep_builds.c.build_id)
    .join(sweeps, sweeps.c.id == sweep_builds.c.sweep_id)
    .where(
        sweeps.c.state == SweepState.ACTIVE.value,
        or_(sweep_builds.c.paused.is_(False), bindparam("stage") != Stage.REVIEW.value),
        select(steps.c.id)
        .where(
            steps.c.stage == bindparam("stage"),
            steps.c.state == StepState.READY.value,
            steps.c.sweep_id == sweep_builds.c.sweep_id,
            steps.c.build_id == sweep_builds.c.build_id,
        )
        .exists(),
    )
)

#: The first ``room`` ready steps of a sweep's build in ``stage`` that do not wait: until ``now``, or for longer than
#: ``longest`` (seconds since the epoch, both).
HEADS = (
    select(steps.c.id)
    .where(
        steps.c.stage == bindparam("stage"),
        steps.c.state == StepState.READY.value,
        steps.c.sweep_id == bindparam("sweep_id"),
        steps.c.build_id == bindparam("build_id"),
        or_(steps.c.not_before.is_(None), ~steps.c.not_before.between(bindparam("now"), bindparam("longest"))),
    )
    .order_by(steps.c.position, steps.c.id)
    .limit(bindparam("room"))
)

#: Priority, weight and caps of ``sweep_ids`` and their builds.
LIMITS = (
    select(
        sweeps.c.id,
        sweeps.c.priority,
        sweeps.c.weight,
        sweeps.c.concurrency.label("cap"),
        sweep_builds.c.build_id,
        sweep_builds.c.concurrency,
    )
    .join(sweep_builds, sweep_builds.c.sweep_id == sweeps.c.id)
    .where(sweeps.c.id.in_(bindparam("sweep_ids", expanding=True)))
)

#: Queued steps that were not published between ``since`` and ``until``: also what a clock that was stepped back since
#: says was published in the future.
QUEUED_LONG_AGO = select(steps.c.id, steps.c.stage, steps.c.published_at).where(
    steps.c.state == StepState.QUEUED.value,
    ~steps.c.published_at.between(bindparam("since"), bindparam("until")),
)

_LAST_ATTEMPTS = (
    select(attempts.c.trial_id, func.max(attempts.c.number).label("last"))
    .where(
        attempts.c.trial_id.in_(select(steps.c.trial_id).where(steps.c.id.in_(bindparam("step_ids", expanding=True))))
    )
    .group_by(attempts.c.trial_id)
    .subquery()
)

#: What the messages of ``step_ids`` say, to Flower above all.
MESSAGES = (
    select(
        steps.c.id,
        steps.c.stage,
        steps.c.fence,
        builds.c.agent,
        pull_requests.c.key,
        trials.c.round,
        _LAST_ATTEMPTS.c.last,
        judges.c.name.label("judge"),
    )
    .join(trials, trials.c.id == steps.c.trial_id)
    .join(builds, builds.c.id == trials.c.build_id)
    .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
    .outerjoin(_LAST_ATTEMPTS, _LAST_ATTEMPTS.c.trial_id == trials.c.id)
    .outerjoin(judges, judges.c.id == steps.c.judge_id)
    .where(steps.c.id.in_(bindparam("step_ids", expanding=True)))
)
