"""Planning a sweep: which pull requests, under which name, and what it extends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.build_difference import build_differences
from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.operations import COMMAND_LINE, KEEP, resume_sweep, set_limits
from crb_core.store.results import sweep_judges
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep, sweep_builds
from crb_core.store.tables import SweepRow, core

__all__ = ["PlannedSweep", "SweepRequest", "choose_pull_requests", "plan"]

sweeps = core(SweepRow)


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """What a person asked for."""

    name: str
    corpus: Corpus
    builds: Sequence[AgentBuild]
    judges: Sequence[JudgePlan]
    rounds: int
    snapshot_source: dict[str, Any]
    pull_requests: Sequence[str]
    #: What each agent was loaded from, by agent name: a bundled one's name, or a path.
    agent_sources: dict[str, str] = field(default_factory=dict)
    #: None leaves what the sweep has; a new one has priority 0, weight 1 and no limit of its own.
    priority: int | None = None
    weight: float | None = None
    concurrency: int | None = None
    #: Reviews at once of an agent, by agent name.
    agent_concurrency: dict[str, int] = field(default_factory=dict)
    max_cost_usd: float | None = None
    #: Who asked.
    actor: str = COMMAND_LINE
    #: A new sweep even where one of that name exists.
    force: bool = False
    #: A new sweep where the last of that name has another corpus, a build that is not asked for any more, or another
    #: version of a judge.
    renew: bool = False


@dataclass(frozen=True, kw_only=True)
class PlannedSweep:
    sweep_id: str
    name: str
    new_trials: int


def choose_pull_requests(
    corpus: Corpus, *, keys: Sequence[str] = (), subset: str | None = None, limit: int | None = None
) -> list[str]:
    """Pull-request keys in corpus order: all, those named, those of a subset, the first ``limit`` of them.

    InputError for a key or subset that the corpus does not have, and for a choice of none.
    """
    all_keys = [entry.pull_request.key for entry in corpus.entries]
    wanted = set(all_keys)
    if subset is not None:
        if subset not in corpus.subsets:
            known = ", ".join(sorted(corpus.subsets)) or "it has none"
            raise InputError(f"The corpus {corpus.name} has no subset {subset!r}", remedy=f"Its subsets: {known}")
        wanted = set(corpus.subsets[subset])
    for key in keys:
        if key not in all_keys:
            raise InputError(
                f"The corpus {corpus.name} has no pull request {key!r}",
                remedy=f"`crb corpus show {corpus.name}` lists them",
            )
    if keys:
        wanted &= set(keys)
    chosen = [key for key in all_keys if key in wanted][:limit]
    if not chosen:
        raise InputError("No pull request is left to review", remedy="Widen --pr, --subset or --limit")
    return chosen


def plan(connection: Connection, request: SweepRequest) -> PlannedSweep:
    """Write a sweep's rows. The same request again adds nothing; a wider one adds what is missing."""
    corpus_id = save_corpus(connection, request.corpus)
    ids = pull_request_ids(connection, corpus_id)
    name = request.name
    if request.renew:
        name = _newest_name(connection, name)
    if request.force or (request.renew and _has_changed(connection, name, corpus_id, request)):
        name = _free_name(connection, request.name)
    _refuse_other_builds(connection, name, request.builds)
    sweep_id, new_trials = plan_sweep(
        connection,
        SweepPlan(
            name=name,
            corpus_id=corpus_id,
            rounds=request.rounds,
            builds=request.builds,
            pull_requests=[ids[key] for key in request.pull_requests],
            judges=request.judges,
            snapshot_source=request.snapshot_source,
            priority=request.priority or 0,
            max_cost_usd=request.max_cost_usd,
            agent_sources=request.agent_sources,
        ),
    )
    _set_limits(connection, sweep_id, request)
    resume_sweep(connection, sweep_id, actor=request.actor)
    return PlannedSweep(sweep_id=sweep_id, name=name, new_trials=new_trials)


def _set_limits(connection: Connection, sweep_id: str, request: SweepRequest) -> None:
    if (request.priority, request.weight, request.concurrency) != (None, None, None):
        set_limits(
            connection,
            sweep_id,
            actor=request.actor,
            priority=KEEP if request.priority is None else request.priority,
            weight=KEEP if request.weight is None else request.weight,
            concurrency=KEEP if request.concurrency is None else request.concurrency,
        )
    for agent, concurrency in request.agent_concurrency.items():
        set_limits(connection, sweep_id, actor=request.actor, agent=agent, concurrency=concurrency)


def _refuse_other_builds(connection: Connection, name: str, asked: Sequence[AgentBuild]) -> None:
    """A sweep measures one build of an agent: the same agent with another image or configuration is another build."""
    sweep_id = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if sweep_id is None:
        return
    planned = sweep_builds(connection, sweep_id)
    known = {build.build_id for build in planned}
    for build in asked:
        others = [other for other in planned if other.agent == build.agent]
        if others and build.build_id not in known:
            differences = "; ".join(build_differences(others[-1], build))
            raise InputError(
                f"The sweep {name} measures another build of the agent {build.agent}: {differences}",
                remedy="Put the agent back as it was, or measure the new build under another --name or with --force",
            )


def _newest_name(connection: Connection, name: str) -> str:
    """The last of ``name``, ``name-2``, ``name-3`` that exists; ``name`` where none does."""
    taken = set(connection.execute(select(sweeps.c.name)).scalars())
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return name if number == 2 else f"{name}-{number - 1}"


def _has_changed(connection: Connection, name: str, corpus_id: int, request: SweepRequest) -> bool:
    row = connection.execute(select(sweeps.c.id, sweeps.c.corpus_id).where(sweeps.c.name == name)).one_or_none()
    if row is None:
        return False
    builds = {build.build_id for build in sweep_builds(connection, row.id)}
    asked = {judge.name: judge.judge_id for judge in request.judges}
    # A further judge is no reason to measure again; another version of an asked one is.
    other_version = any(
        asked.get(judge.name, judge.judge_id) != judge.judge_id for judge in sweep_judges(connection, row.id)
    )
    return row.corpus_id != corpus_id or not builds <= {build.build_id for build in request.builds} or other_version


def _free_name(connection: Connection, name: str) -> str:
    taken = set(connection.execute(select(sweeps.c.name)).scalars())
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
