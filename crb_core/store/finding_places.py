"""Where a golden finding of a cited id is: its corpora, pull request, and the sweeps that were measured against it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from crb_core.finding import GoldenFinding
from crb_core.store.tables import CorpusRow, GoldenRow, PullRequestRow, SweepRow, TrialRow, core

__all__ = ["finding_places"]

corpora = core(CorpusRow)
goldens = core(GoldenRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def finding_places(connection: Connection, finding_id: str) -> list[dict[str, Any]]:
    """Each place where a golden finding has this id, with its label; ``sweeps`` ran its pull request, newest first."""
    found = []
    for row in connection.execute(
        select(
            goldens.c.position,
            goldens.c.document,
            pull_requests.c.id,
            pull_requests.c.key,
            corpora.c.name,
            corpora.c.version,
            corpora.c.fingerprint,
        )
        .join(pull_requests, pull_requests.c.id == goldens.c.pull_request_id)
        .join(corpora, corpora.c.id == pull_requests.c.corpus_id)
        .where(goldens.c.finding_id == finding_id)
        .order_by(corpora.c.id.desc(), pull_requests.c.position, goldens.c.position)
    ):
        ran = select(trials.c.sweep_id).where(trials.c.pull_request_id == row.id).distinct()
        found.append(
            {
                "corpus": row.name,
                "corpus_version": row.version,
                "corpus_fingerprint": row.fingerprint,
                "pull_request": row.key,
                "golden": row.position,
                **GoldenFinding.model_validate(row.document).model_dump(mode="json", exclude={"source"}),
                "sweeps": [
                    {"sweep": sweep.name, "sweep_id": sweep.id}
                    for sweep in connection.execute(
                        select(sweeps.c.id, sweeps.c.name)
                        .where(sweeps.c.id.in_(ran))
                        .order_by(sweeps.c.created_at.desc(), sweeps.c.id)
                    )
                ],
            }
        )
    return found
