"""The dimensions of a sweep's pull requests: as they are stored, and as their diffs say where the corpus does not."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection, select

from crb_core.dimensions import COMPUTED, Dimensions, KnownDimensions, computed_dimensions, dimensions_of
from crb_core.pull_request import PullRequest
from crb_core.store.pull_request_diffs import PullRequestDiffs
from crb_core.store.tables import AttemptRow, CorpusRow, PullRequestRow, SweepRow, TrialRow, core

__all__ = ["stored_dimensions"]

attempts = core(AttemptRow)
corpora = core(CorpusRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def stored_dimensions(connection: Connection, sweep_id: str, diffs: PullRequestDiffs | None = None) -> KnownDimensions:
    """By key of each pull request that a sweep runs, in the order of its corpus.

    What the corpus does not record of ``COMPUTED`` is computed from ``diffs`` where these are given and have one.
    """
    document = connection.execute(
        select(corpora.c.document).join(sweeps, sweeps.c.corpus_id == corpora.c.id).where(sweeps.c.id == sweep_id)
    ).scalar_one()
    subsets: dict[str, list[str]] = {}
    for name, keys in (document.get("subsets") or {}).items():
        for key in keys:
            subsets.setdefault(key, []).append(name)
    reviewed = select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id)
    rows = connection.execute(
        select(pull_requests.c.id, pull_requests.c.key, pull_requests.c.document)
        .where(pull_requests.c.id.in_(reviewed))
        .order_by(pull_requests.c.position)
    ).all()
    known: dict[str, Dimensions] = {}
    lacking: dict[int, PullRequest] = {}
    for row in rows:
        pull_request = PullRequest.model_validate(row.document)
        known[row.key] = dimensions_of(pull_request, subsets.get(row.key, ()))
        if any(name not in known[row.key] for name in COMPUTED):
            lacking[row.id] = pull_request
    computed: dict[str, set[str]] = defaultdict(set)
    if diffs is not None and lacking:
        recorded = _recorded_diffs(connection, sweep_id)
        keys_by_id = {row.id: row.key for row in rows}
        for number, pull_request in lacking.items():
            traits = diffs.traits(pull_request, recorded.get(number, []))
            if traits is None:
                continue
            key = keys_by_id[number]
            added = computed_dimensions(known[key], traits)
            known[key] = {**known[key], **added}
            for name in added:
                computed[name].add(key)
    return KnownDimensions(known, {name: frozenset(found) for name, found in computed.items()})


def _recorded_diffs(connection: Connection, sweep_id: str) -> dict[int, list[str]]:
    """By id of a pull request the digests of the diffs that its reviewers were shown; nearly always one."""
    digest = attempts.c.evidence["diff"].as_string()
    found: dict[int, list[str]] = defaultdict(list)
    for number, recorded in connection.execute(
        select(trials.c.pull_request_id, digest)
        .join(attempts, attempts.c.trial_id == trials.c.id)
        .where(trials.c.sweep_id == sweep_id, digest.is_not(None))
        .distinct()
        .order_by(trials.c.pull_request_id, digest)
    ):
        found[number].append(recorded)
    return found
