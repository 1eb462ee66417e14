"""Candidates of stored sweeps as people label them: each text at its place once, under its content id."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import Outcome
from crb_core.finding import CandidateFinding
from crb_core.formats.recordings import candidate_id
from crb_core.store.tables import AgentBuildRow, AttemptRow, CandidateRow, CorpusRow, PullRequestRow, TrialRow, core

__all__ = ["missing_reviews", "stored_candidates", "sweep_candidates"]

attempts = core(AttemptRow)
candidates = core(CandidateRow)
trials = core(TrialRow)
pull_requests = core(PullRequestRow)
corpora = core(CorpusRow)
builds = core(AgentBuildRow)

Known = dict[tuple[str, str], CandidateFinding]


def stored_candidates(connection: Connection, corpus: str, keys: Collection[str]) -> Known:
    """By (pull request key, candidate id) the candidates of every sweep over a corpus of that name, on these keys."""
    chosen = pull_requests.c.corpus_id.in_(select(corpora.c.id).where(corpora.c.name == corpus))
    return _known(connection, chosen & pull_requests.c.key.in_(list(keys)))


def sweep_candidates(
    connection: Connection, sweep_id: str, agents: Collection[str] = (), round_number: int | None = None
) -> Known:
    """The candidates of one sweep, of some agents where any are named, in the order of pull requests and positions.

    ``round_number`` takes one round only.
    """
    chosen = trials.c.sweep_id == sweep_id
    if round_number is not None:
        chosen &= trials.c.round == round_number
    if agents:
        chosen &= trials.c.build_id.in_(select(builds.c.id).where(builds.c.agent.in_(list(agents))))
    return _known(connection, chosen)


def missing_reviews(
    connection: Connection, sweep_id: str, agents: Collection[str], round_number: int
) -> list[tuple[str, str]]:
    """(agent, pull request key) of the trials of one round that have no successful review."""
    done = select(attempts.c.trial_id).where(attempts.c.outcome == Outcome.SUCCEEDED.value)
    chosen = (trials.c.sweep_id == sweep_id) & (trials.c.round == round_number) & trials.c.id.not_in(done)
    if agents:
        chosen &= builds.c.agent.in_(list(agents))
    rows = connection.execute(
        select(builds.c.agent, pull_requests.c.key)
        .join(trials, trials.c.build_id == builds.c.id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(chosen)
        .order_by(pull_requests.c.position, trials.c.id)
    )
    return [(row.agent, row.key) for row in rows]


def _known(connection: Connection, chosen: Any) -> Known:
    found: Known = {}
    for key, finding in _rows(connection, chosen):
        found.setdefault((key, candidate_id(key, finding)), finding)
    return found


def _rows(connection: Connection, chosen: Any) -> Iterator[tuple[str, CandidateFinding]]:
    query = (
        select(
            pull_requests.c.key,
            *(candidates.c[name] for name in ("file", "start_line", "end_line", "message", "producer")),
        )
        .join(trials, trials.c.id == candidates.c.trial_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(chosen)
        .order_by(pull_requests.c.position, trials.c.id, candidates.c.position)
    )
    for row in connection.execute(query):
        yield (
            row.key,
            CandidateFinding(
                file=row.file,
                start_line=row.start_line,
                end_line=row.end_line,
                message=row.message,
                producer=row.producer,
            ),
        )
