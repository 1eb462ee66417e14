"""Sweeps, builds, judges and trials in the store: what is to run, written in one transaction."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, insert, literal, select, update

from crb_core.agent import AgentBuild
from crb_core.clock import utc_now
from crb_core.errors import InputError, UsageError, Where
from crb_core.store.tables import (
    AgentBuildRow,
    JudgeRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepJudgeRow,
    SweepRow,
    SweepState,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters, is_storable

__all__ = [
    "JudgePlan",
    "SweepPlan",
    "add_judges",
    "builds_of_agent",
    "find_sweep",
    "plan_sweep",
    "save_build",
    "set_max_cost",
    "sweep_builds",
]

builds = core(AgentBuildRow)
judges = core(JudgeRow)
sweep_builds_table = core(SweepBuildRow)
sweep_judges = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)
steps = core(StepRow)

#: Rows in one INSERT while planning; keeps the write lock short and memory flat.
PLAN_BATCH = 2000


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """A judge of a sweep. ``builds`` are the builds that it judges; None is all of them."""

    judge_id: str
    name: str
    classifies: bool
    document: dict[str, Any]
    builds: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Agent builds x pull requests x rounds, with the judges.

    ``pull_requests`` are row ids in corpus order.
    """

    name: str
    corpus_id: int
    rounds: int
    builds: Sequence[AgentBuild]
    pull_requests: Sequence[int]
    judges: Sequence[JudgePlan]
    snapshot_source: dict[str, Any]
    priority: int = 0
    #: List price in USD that the judges' calls may reach; None is no limit.
    max_cost_usd: float | None = None
    #: What each agent was loaded from, by agent name: a bundled one's name, or a path.
    agent_sources: dict[str, str] = field(default_factory=dict)


#: Characters of a sweep's name, at most.
_NAME_LENGTH = 100


def save_build(connection: Connection, build: AgentBuild) -> str:
    """Store a build; the same build again is the same row."""
    known = connection.execute(select(builds.c.id).where(builds.c.id == build.build_id)).scalar_one_or_none()
    if known is None:
        connection.execute(
            insert(builds).values(
                id=build.build_id,
                agent=build.agent,
                kind=build.kind,
                runner=build.runner,
                document=build.model_dump(mode="json"),
                created_at=utc_now(),
            )
        )
    return build.build_id


def _check_name(name: str) -> None:
    """Of a new sweep: it is an argument of commands, a part of addresses and a cell of tables."""
    fits = 0 < len(name) <= _NAME_LENGTH and name == name.strip() and not name.startswith("-")
    if not fits or not name.isprintable() or not is_storable(name) or re.search(r"[/\\]", name):
        raise UsageError(
            f"{name[:80]!r} is no usable name for a sweep",
            where=Where(field="--name"),
            remedy=f"Use up to {_NAME_LENGTH} printable characters without slashes, and no - first",
        )


def plan_sweep(connection: Connection, plan: SweepPlan) -> tuple[str, int]:
    """Write the rows of a sweep and return (sweep id, trials that are new).

    A sweep of that name is extended by what it lacks, and nothing that it has is touched; InputError when it belongs
    to another corpus.
    """
    row = connection.execute(select(sweeps).where(sweeps.c.name == plan.name)).one_or_none()
    if row is None:
        _check_name(plan.name)
        sweep_id = "s-" + secrets.token_hex(4)
        connection.execute(
            insert(sweeps).values(
                id=sweep_id,
                name=plan.name,
                corpus_id=plan.corpus_id,
                rounds=plan.rounds,
                priority=plan.priority,
                max_cost_usd=plan.max_cost_usd,
                state=SweepState.ACTIVE.value,
                snapshot_source=plan.snapshot_source,
                created_at=utc_now(),
            )
        )
    else:
        sweep_id = row.id
        if row.corpus_id != plan.corpus_id:
            raise InputError(
                f"The sweep {plan.name} runs on another corpus or another version of this one",
                remedy="Start it under another --name, or with --force for a new sweep",
            )
        connection.execute(
            update(sweeps)
            .where(sweeps.c.id == sweep_id)
            # The corpus may lie elsewhere than when the sweep began, for example in a second checkout.
            .values(rounds=max(row.rounds, plan.rounds), snapshot_source=plan.snapshot_source)
        )
        set_max_cost(connection, sweep_id, plan.max_cost_usd)
    new = 0
    for build in plan.builds:
        build_id = save_build(connection, build)
        _add_build(connection, sweep_id, build_id, plan.agent_sources.get(build.agent))
        new += _add_trials(connection, sweep_id, build_id, plan)
    add_judges(connection, sweep_id, plan.judges, [build.build_id for build in plan.builds])
    return sweep_id, new


def add_judges(connection: Connection, sweep_id: str, plans: Sequence[JudgePlan], build_ids: Sequence[str]) -> int:
    """Let judges judge builds of a sweep; reviews that are done already get their match steps now.

    No container runs again. Returns how many match steps are new; a judge that is there already adds none.
    """
    _save_judges(connection, plans)
    known = connection.execute(
        select(func.coalesce(func.max(sweep_judges.c.position), -1)).where(sweep_judges.c.sweep_id == sweep_id)
    ).scalar_one()
    for place, judge in enumerate(plans, start=1):
        for build_id in build_ids:
            if judge.builds is None or build_id in judge.builds:
                _add_judge(connection, sweep_id, build_id, judge.judge_id, known + place)
    return _add_missing_match_steps(connection, sweep_id)


def set_max_cost(connection: Connection, sweep_id: str, usd: float | None) -> None:
    """Limit what the judges' calls of a sweep may cost by list price; None leaves the limit as it is."""
    if usd is not None:
        connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(max_cost_usd=usd))


def find_sweep(connection: Connection, reference: str) -> Any:
    """The sweep row of a name or id; InputError when there is none."""
    # Somebody may have named a sweep like another one's id: the id goes first.
    is_id = sweeps.c.id == reference
    row = None
    # What no database can keep is the name of nothing.
    if is_storable(reference):
        row = connection.execute(
            select(sweeps).where(is_id | (sweeps.c.name == reference)).order_by(is_id.desc()).limit(1)
        ).one_or_none()
    if row is None:
        named = reference or "''"
        raise InputError(f"There is no sweep named {named}", remedy="`crb sweep list` shows the stored ones")
    return row


def builds_of_agent(connection: Connection, sweep: Any, agent: str) -> tuple[str, ...]:
    """Ids of an agent's builds in a sweep (its row); InputError when it has none."""
    mine = (
        select(builds.c.id)
        .join(sweep_builds_table, sweep_builds_table.c.build_id == builds.c.id)
        .where(sweep_builds_table.c.sweep_id == sweep.id, builds.c.agent == agent)
        .order_by(builds.c.id)
    )
    if not (ids := tuple(connection.execute(mine).scalars()) if is_storable(agent) else ()):
        raise InputError(
            f"The sweep {sweep.name} has no agent {agent!r}", remedy=f"`crb sweep show {sweep.name}` lists them"
        )
    return ids


def sweep_builds(connection: Connection, sweep_id: str) -> list[AgentBuild]:
    """The builds of a sweep, by agent name."""
    rows = connection.execute(
        select(builds.c.document)
        .join(sweep_builds_table, sweep_builds_table.c.build_id == builds.c.id)
        .where(sweep_builds_table.c.sweep_id == sweep_id)
        .order_by(by_characters(builds.c.agent), builds.c.id)
    )
    return [AgentBuild.model_validate(row.document) for row in rows]


def _save_judges(connection: Connection, plans: Iterable[JudgePlan]) -> None:
    """Keep judges. Of a known one the newest spec counts: it may say how answers are fetched, never what is asked."""
    for judge in plans:
        known = connection.execute(select(judges.c.document).where(judges.c.id == judge.judge_id)).scalar_one_or_none()
        if known is not None and known.get("spec") != judge.document.get("spec"):
            connection.execute(
                update(judges)
                .where(judges.c.id == judge.judge_id)
                .values(document={**known, "spec": judge.document.get("spec")})
            )
        if known is None:
            connection.execute(
                insert(judges).values(
                    id=judge.judge_id, name=judge.name, classifies=judge.classifies, document=judge.document
                )
            )


def _add_build(connection: Connection, sweep_id: str, build_id: str, agent_source: str | None) -> None:
    mine = (sweep_builds_table.c.sweep_id == sweep_id) & (sweep_builds_table.c.build_id == build_id)
    if connection.execute(select(sweep_builds_table.c.paused).where(mine)).one_or_none() is None:
        connection.execute(
            insert(sweep_builds_table).values(
                sweep_id=sweep_id, build_id=build_id, paused=False, agent_source=agent_source
            )
        )
    elif agent_source is not None:
        # The same build may lie elsewhere than when the sweep began.
        connection.execute(update(sweep_builds_table).where(mine).values(agent_source=agent_source))


def _add_judge(connection: Connection, sweep_id: str, build_id: str, judge_id: str, position: int) -> None:
    known = connection.execute(
        select(sweep_judges.c.position).where(
            sweep_judges.c.sweep_id == sweep_id,
            sweep_judges.c.build_id == build_id,
            sweep_judges.c.judge_id == judge_id,
        )
    ).one_or_none()
    if known is None:
        connection.execute(
            insert(sweep_judges).values(sweep_id=sweep_id, build_id=build_id, judge_id=judge_id, position=position)
        )


def _add_missing_match_steps(connection: Connection, sweep_id: str) -> int:
    # Any step of the judge: an imported judgment has a score step and no match step, and is not made again.
    judge_steps = steps.alias("judge_steps")
    wanted = (
        select(
            steps.c.trial_id,
            sweep_judges.c.judge_id,
            literal(Stage.MATCH.value),
            steps.c.sweep_id,
            steps.c.build_id,
            steps.c.priority,
            steps.c.position,
            literal(StepState.READY.value),
            literal(0),
            literal(0),
            literal(False),
            literal(0),
        )
        .join(
            sweep_judges,
            (sweep_judges.c.sweep_id == steps.c.sweep_id) & (sweep_judges.c.build_id == steps.c.build_id),
        )
        .outerjoin(
            judge_steps,
            (judge_steps.c.trial_id == steps.c.trial_id) & (judge_steps.c.judge_id == sweep_judges.c.judge_id),
        )
        .where(
            steps.c.sweep_id == sweep_id,
            steps.c.stage == Stage.REVIEW.value,
            steps.c.state == StepState.DONE.value,
            judge_steps.c.id.is_(None),
        )
    )
    columns = (
        "trial_id, judge_id, stage, sweep_id, build_id, priority, position, "
        "state, fence, beat, cancel_requested, attempts_before"
    )
    made = insert(steps).from_select(columns.split(", "), wanted).returning(steps.c.id)
    return len(connection.execute(made).all())


def _add_trials(connection: Connection, sweep_id: str, build_id: str, plan: SweepPlan) -> int:
    known = {
        (row.pull_request_id, row.round)
        for row in connection.execute(
            select(trials.c.pull_request_id, trials.c.round).where(
                trials.c.sweep_id == sweep_id, trials.c.build_id == build_id
            )
        )
    }
    wanted = [
        {"sweep_id": sweep_id, "build_id": build_id, "pull_request_id": pull_request, "round": round_number}
        for round_number in range(1, plan.rounds + 1)
        for pull_request in plan.pull_requests
        if (pull_request, round_number) not in known
    ]
    # Round-major positions finish round 1 of every build before round 2 begins.
    position = {
        (pull_request, round_number): round_number * 1_000_000 + place
        for round_number in range(1, plan.rounds + 1)
        for place, pull_request in enumerate(plan.pull_requests)
    }
    for start in range(0, len(wanted), PLAN_BATCH):
        batch = wanted[start : start + PLAN_BATCH]
        inserted = connection.execute(
            insert(trials).returning(trials.c.id, trials.c.pull_request_id, trials.c.round), batch
        ).all()
        connection.execute(
            insert(steps),
            [
                {
                    "trial_id": row.id,
                    "judge_id": "",
                    "stage": Stage.REVIEW.value,
                    "sweep_id": sweep_id,
                    "build_id": build_id,
                    "priority": plan.priority,
                    "position": position[row.pull_request_id, row.round],
                    "state": StepState.READY.value,
                    "fence": 0,
                    "beat": 0,
                    "cancel_requested": False,
                    "attempts_before": 0,
                }
                for row in inserted
            ],
        )
    return len(wanted)
