"""Candidates of stored sweeps as people label them: each text at its place once, under its content id."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, select

from crb_core.finding import CandidateFinding
from crb_core.formats.recordings import candidate_id
from crb_core.store.tables import AgentBuildRow, CandidateRow, CorpusRow, PullRequestRow, TrialRow, core

__all__ = ["stored_candidates", "sweep_candidates"]

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


def sweep_candidates(connection: Connection, sweep_id: str, agents: Collection[str] = ()) -> Known:
    """The candidates of one sweep, of some agents where any are named, in the order of pull requests and positions."""
    chosen = trials.c.sweep_id == sweep_id
    if agents:
        chosen &= trials.c.build_id.in_(select(builds.c.id).where(builds.c.agent.in_(list(agents))))
    return _known(connection, chosen)


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
