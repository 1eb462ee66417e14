"""What stands behind a number: sweeps with what they run, and one trial with its evidence."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.agent import AgentBuild
from crb_core.identity import TrialIdentity
from crb_core.pull_request import PullRequest
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    CorpusRow,
    JudgeCallRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    StepRow,
    SweepBuildRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = ["sweep_record", "sweep_records", "trial_record"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
calls = core(JudgeCallRow)
candidates = core(CandidateRow)
corpora = core(CorpusRow)
judges = core(JudgeRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
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
            .order_by(builds.c.agent, builds.c.id),
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


def trial_record(connection: Connection, trial_id: int) -> dict[str, Any] | None:
    """A trial with identity, steps, attempts, findings, judgments and calls of judges; None where there is none."""
    row = connection.execute(
        select(
            trials.c.id,
            trials.c.round,
            trials.c.build_id,
            trials.c.pull_request_id,
            sweeps.c.id.label("sweep_id"),
            sweeps.c.name.label("sweep"),
            corpora.c.name.label("corpus"),
            corpora.c.version,
            builds.c.document.label("build"),
            pull_requests.c.document.label("pull_request"),
            pull_requests.c.answer_key_fingerprint,
        )
        .join(sweeps, sweeps.c.id == trials.c.sweep_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .join(corpora, corpora.c.id == pull_requests.c.corpus_id)
        .where(trials.c.id == trial_id)
    ).one_or_none()
    if row is None:
        return None
    build = AgentBuild.model_validate(row.build)
    pull_request = PullRequest.model_validate(row.pull_request)
    identity = TrialIdentity.of_build(
        build,
        subject=f"{row.corpus} {row.version}",
        pull_request=pull_request.key,
        reviewed_sha=pull_request.recorded_head,
        answer_key_fingerprint=row.answer_key_fingerprint,
    )
    hidden = {"id", "trial_id"}
    return {
        "trial": row.id,
        "sweep": row.sweep,
        "sweep_id": row.sweep_id,
        "pull_request": pull_request.key,
        "agent": build.agent,
        "build": row.build_id,
        "round": row.round,
        "identity": identity.model_dump(mode="json"),
        "identity_sha256": identity.sha256,
        "steps": _rows(
            connection,
            select(steps.c.stage, steps.c.judge_id, steps.c.state, steps.c.reason)
            .where(steps.c.trial_id == trial_id)
            .order_by(steps.c.id),
        ),
        "attempts": _rows(
            connection,
            select(*(column for column in attempts.c if column.name not in hidden))
            .where(attempts.c.trial_id == trial_id)
            .order_by(attempts.c.number),
        ),
        "findings": _rows(
            connection,
            select(*(column for column in candidates.c if column.name not in hidden))
            .where(candidates.c.trial_id == trial_id)
            .order_by(candidates.c.position),
        ),
        "judgments": _rows(
            connection,
            select(
                judges.c.name.label("judge"),
                judges.c.id.label("judge_id"),
                judgments.c.matched_at,
                judgments.c.classified_at,
                judgments.c.scored_at,
            )
            .join(judges, judges.c.id == judgments.c.judge_id)
            .where(judgments.c.trial_id == trial_id)
            .order_by(judges.c.name, judges.c.id),
        ),
        "calls": _rows(
            connection,
            select(
                calls.c.judge_id,
                calls.c.stage,
                calls.c.label,
                calls.c.attempt,
                calls.c.model,
                calls.c.outcome,
                calls.c.detail,
                calls.c.request_digest,
                calls.c.answer_digest,
                calls.c.charge_usd,
                calls.c.list_price_usd,
                calls.c.duration_ms,
            )
            .where(calls.c.trial_id == trial_id)
            .order_by(calls.c.id),
        ),
    }


def _rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(query)]
