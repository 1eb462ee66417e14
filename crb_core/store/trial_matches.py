"""The raw matches of a trial's judgments as an auditor reads them: by golden id, with reasons (seed A 6.2.3)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from crb_core.claims import resolve
from crb_core.matching import Correspondence
from crb_core.store.tables import CorrespondenceRow, GoldenRow, JudgmentRow, TrialRow, core

__all__ = ["matches_of_trial"]

correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
trials = core(TrialRow)


def matches_of_trial(connection: Connection, trial_id: int, protocol: str) -> dict[int, list[dict[str, Any]]]:
    """By judgment id every pair of candidate and golden finding that its judge matched, by position of both.

    ``claims`` says whether it is the one golden finding that counts for the candidate's precision; None where the
    protocol claims by other rules than reviewbench's.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    for row in connection.execute(
        select(
            correspondences.c.judgment_id,
            correspondences.c.candidate,
            correspondences.c.golden,
            goldens.c.finding_id,
            correspondences.c.probability,
            correspondences.c.reasoning,
        )
        .join(judgments, judgments.c.id == correspondences.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .join(
            goldens,
            (goldens.c.pull_request_id == trials.c.pull_request_id) & (goldens.c.position == correspondences.c.golden),
        )
        .where(trials.c.id == trial_id)
        .order_by(correspondences.c.judgment_id, correspondences.c.candidate, correspondences.c.golden)
    ):
        found.setdefault(row.judgment_id, []).append(
            {
                "candidate": row.candidate,
                "golden": row.golden,
                "finding_id": row.finding_id,
                "claims": None,
                "probability": row.probability,
                "reasoning": row.reasoning,
            }
        )
    if protocol == "reviewbench":
        for pairs in found.values():
            _mark_claims(pairs)
    return found


def _mark_claims(pairs: list[dict[str, Any]]) -> None:
    golden: dict[int, list[int]] = {}
    for pair in pairs:
        golden.setdefault(pair["candidate"], []).append(pair["golden"])
    links = [Correspondence(candidate=candidate, golden=tuple(each)) for candidate, each in golden.items()]
    claimed = resolve(links, 1 + max(pair["golden"] for pair in pairs)).claimed
    for pair in pairs:
        pair["claims"] = claimed.get(pair["candidate"]) == pair["golden"]
