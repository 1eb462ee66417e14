"""The dimensions of a sweep's pull requests, as they are stored."""

from __future__ import annotations

from sqlalchemy import Connection, select

from crb_core.dimensions import Dimensions, dimensions_of
from crb_core.pull_request import PullRequest
from crb_core.store.tables import CorpusRow, PullRequestRow, SweepRow, TrialRow, core

__all__ = ["stored_dimensions"]

corpora = core(CorpusRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def stored_dimensions(connection: Connection, sweep_id: str) -> dict[str, Dimensions]:
    """By key of each pull request that a sweep runs, in the order of its corpus."""
    document = connection.execute(
        select(corpora.c.document).join(sweeps, sweeps.c.corpus_id == corpora.c.id).where(sweeps.c.id == sweep_id)
    ).scalar_one()
    subsets: dict[str, list[str]] = {}
    for name, keys in (document.get("subsets") or {}).items():
        for key in keys:
            subsets.setdefault(key, []).append(name)
    reviewed = select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id)
    rows = connection.execute(
        select(pull_requests.c.key, pull_requests.c.document)
        .where(pull_requests.c.id.in_(reviewed))
        .order_by(pull_requests.c.position)
    )
    return {row.key: dimensions_of(PullRequest.model_validate(row.document), subsets.get(row.key, ())) for row in rows}
