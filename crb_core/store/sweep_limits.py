"""What holds a sweep back: priority, weight, caps and pauses, and whether anything of it can go on at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, case, func, select

from crb_core.store.judge_calls import spending
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import AgentBuildRow, Stage, StepRow, StepState, SweepBuildRow, SweepState, WorkerRow, core
from crb_core.store.texts import by_characters

__all__ = ["BuildLimits", "SweepLimits", "read_limits", "why_it_rests", "why_no_reviews"]

builds = core(AgentBuildRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
workers = core(WorkerRow)


@dataclass(frozen=True, kw_only=True)
class BuildLimits:
    """A build in a sweep. ``concurrency`` counts its reviews at once over all sweeps; None is no limit."""

    agent: str
    build: str
    paused: bool
    paused_reason: str | None
    concurrency: int | None
    agent_source: str | None


@dataclass(frozen=True, kw_only=True)
class SweepLimits:
    """A sweep. ``state`` is active, paused or cancelled; ``concurrency`` counts its reviews at once.

    ``max_cost_usd`` is what its judges' calls may reach by list price, ``spent_usd`` what they have, with what calls
    without a known price could have cost.
    """

    state: str
    paused_reason: str | None
    priority: int
    weight: float
    concurrency: int | None
    max_cost_usd: float | None
    spent_usd: float
    builds: tuple[BuildLimits, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"builds": [asdict(build) for build in self.builds]}


def read_limits(connection: Connection, sweep_id: str) -> SweepLimits:
    """The limits of a sweep and of its builds, by agent."""
    row = find_sweep(connection, sweep_id)
    rows = connection.execute(
        select(builds.c.agent, *sweep_builds.c)
        .join(builds, builds.c.id == sweep_builds.c.build_id)
        .where(sweep_builds.c.sweep_id == row.id)
        .order_by(by_characters(builds.c.agent), builds.c.id)
    )
    spent = spending(connection, row.id)
    return SweepLimits(
        state=row.state,
        paused_reason=row.paused_reason,
        priority=row.priority,
        weight=row.weight,
        concurrency=row.concurrency,
        max_cost_usd=row.max_cost_usd,
        spent_usd=spent.known_usd + spent.lost_usd,
        builds=tuple(
            BuildLimits(
                agent=build.agent,
                build=build.build_id,
                paused=build.paused,
                paused_reason=build.paused_reason,
                concurrency=build.concurrency,
                agent_source=build.agent_source,
            )
            for build in rows
        ),
    )


def why_it_rests(connection: Connection, sweep_id: str) -> str | None:
    """A clause that says why steps of a sweep wait and none of them may go on; None while something moves or is over.

    Steps in flight move, and so do those that wait for a back-off and what is left to judge of a paused agent.
    """
    limits = read_limits(connection, sweep_id)
    paused = [build for build in limits.builds if build.paused]
    if limits.state == SweepState.ACTIVE.value and not paused:
        return None
    held = steps.c.state == StepState.READY.value
    if limits.state == SweepState.ACTIVE.value:
        held &= steps.c.build_id.in_([build.build for build in paused]) & (steps.c.stage == Stage.REVIEW.value)
    row = connection.execute(
        select(func.sum(case((held, 1), else_=0)).label("held"), func.count().label("open")).where(
            steps.c.sweep_id == sweep_id,
            steps.c.state.in_((StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)),
        )
    ).one()
    if not row.open or row.held != row.open:
        return None
    if limits.state != SweepState.ACTIVE.value:
        return f"it is {limits.state}" + (f" ({limits.paused_reason})" if limits.paused_reason else "")
    agents = dict.fromkeys(
        f"{build.agent} is paused" + (f" ({build.paused_reason})" if build.paused_reason else "") for build in paused
    )
    return ", ".join(f"agent {agent}" for agent in agents)


def why_no_reviews(connection: Connection) -> str | None:
    """Why the worker that was started last takes no reviews, as it said itself; None while it does."""
    status = connection.execute(select(workers.c.status).order_by(workers.c.started_at.desc()).limit(1)).scalar()
    reason = (status or {}).get("takes_no_reviews")
    return None if reason is None else str(reason)
