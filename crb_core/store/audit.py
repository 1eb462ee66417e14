"""Sweeps with what they run. A single trial is ``crb_core.store.trial_audit``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.store.tables import (
    AgentBuildRow,
    CorpusRow,
    PullRequestRow,
    SweepBuildRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters

__all__ = ["sweep_record", "sweep_records"]

builds = core(AgentBuildRow)
corpora = core(CorpusRow)
pull_requests = core(PullRequestRow)
sweep_builds = core(SweepBuildRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def sweep_records(connection: Connection, sweep_id: str | None = None) -> list[dict[str, Any]]:
    """One record a sweep, the newest first: names, corpus, protocol, rounds, state, number of trials."""
    counted = select(trials.c.sweep_id, func.count().label("trials")).group_by(trials.c.sweep_id).subquery()
    query = (
        select(
            sweeps.c.id,
            sweeps.c.name,
            corpora.c.name.label("corpus"),
            corpora.c.version.label("corpus_version"),
            corpora.c.fingerprint.label("corpus_fingerprint"),
            corpora.c.protocol,
            sweeps.c.rounds,
            sweeps.c.state,
            sweeps.c.created_at,
            func.coalesce(counted.c.trials, 0).label("trials"),
        )
        .join(corpora, corpora.c.id == sweeps.c.corpus_id)
        .outerjoin(counted, counted.c.sweep_id == sweeps.c.id)
        .order_by(sweeps.c.created_at.desc(), sweeps.c.id)
    )
    if sweep_id is not None:
        query = query.where(sweeps.c.id == sweep_id)
    return _rows(connection, query)


def sweep_record(connection: Connection, sweep_id: str) -> dict[str, Any] | None:
    """A sweep with its builds and the pull requests that it runs, in corpus order; None where there is none."""
    found = sweep_records(connection, sweep_id)
    if not found:
        return None
    return found[0] | {
        "builds": _rows(
            connection,
            select(builds.c.id.label("build"), builds.c.agent, builds.c.kind, builds.c.runner)
            .join(sweep_builds, sweep_builds.c.build_id == builds.c.id)
            .where(sweep_builds.c.sweep_id == sweep_id)
            .order_by(by_characters(builds.c.agent), builds.c.id),
        ),
        "pull_requests": list(
            connection.execute(
                select(pull_requests.c.key)
                .where(
                    pull_requests.c.id.in_(
                        select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id).distinct()
                    )
                )
                .order_by(pull_requests.c.position)
            ).scalars()
        ),
    }


def _rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(query)]
