"""What a dispute is about, as the store has it: answers of a judge's matcher, and what other labels would change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from crb_core.dispute import Correction, Dispute, corrected, corrections_of
from crb_core.finding import CandidateFinding
from crb_core.formats.recordings import candidate_id
from crb_core.golden_sets import derived_corpus
from crb_core.store.corpora import load_corpus
from crb_core.store.label_effect import effect_about, rows_under_labels
from crb_core.store.measured import load_sweep
from crb_core.store.results import StoredJudge
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import (
    CandidateRow,
    CorrespondenceRow,
    GoldenRow,
    JudgmentRow,
    PullRequestRow,
    TrialRow,
    core,
)

__all__ = ["effect_json", "match_answers"]

candidates = core(CandidateRow)
correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
trials = core(TrialRow)


def match_answers(
    connection: Connection, sweep_id: str, judge_id: str, pull_request: str, candidate: str
) -> list[frozenset[str]]:
    """The golden finding ids that a judge matched a candidate to, once for each matched trial that has it.

    ``candidate`` is the content id (``c-...``) of label files; empty where no trial has it or none was matched yet.
    """
    places: list[tuple[int, int]] = []
    for row in connection.execute(
        select(judgments.c.id, *(candidates.c[name] for name in ("position", "file", "start_line", "end_line")))
        .add_columns(candidates.c.message, candidates.c.producer)
        .join(trials, trials.c.id == candidates.c.trial_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .join(judgments, judgments.c.trial_id == trials.c.id)
        .where(
            trials.c.sweep_id == sweep_id,
            pull_requests.c.key == pull_request,
            judgments.c.judge_id == judge_id,
            judgments.c.matched_at.is_not(None),
        )
        .order_by(judgments.c.id, candidates.c.position)
    ):
        finding = CandidateFinding(
            file=row.file,
            start_line=row.start_line,
            end_line=row.end_line,
            message=row.message,
            producer=row.producer,
        )
        if candidate_id(pull_request, finding) == candidate:
            places.append((row.id, row.position))
    matched: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row in connection.execute(
        select(correspondences.c.judgment_id, correspondences.c.candidate, goldens.c.finding_id)
        .join(judgments, judgments.c.id == correspondences.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .join(
            goldens,
            (goldens.c.pull_request_id == trials.c.pull_request_id) & (goldens.c.position == correspondences.c.golden),
        )
        .where(correspondences.c.judgment_id.in_([judgment for judgment, _ in places]))
    ):
        matched[row.judgment_id, row.candidate].add(row.finding_id)
    return [frozenset(matched[place]) for place in places]


def effect_json(
    connection: Connection, sweep: str, judge: StoredJudge, disputes: Sequence[Dispute]
) -> tuple[dict[str, Any], tuple[Correction, ...]]:
    """``crb.dispute-effect/1``: a sweep's rows as they are and as the corrected labels would have them.

    No judge is asked and no container runs: matches and labels of candidates stay. InputError for a protocol without
    claims, and where corrected labels need candidates to be judged anew.
    """
    row = find_sweep(connection, sweep)
    about = load_sweep(connection, row.id, judge)
    corpus = load_corpus(connection, row.corpus_id)
    inside = set(about.golden)
    made = tuple(each for each in corrections_of(disputes, corpus) if each.pull_request in inside)
    changes = corrected(corpus, made)
    changed = derived_corpus(corpus, f"forecast-{row.id}"[:64].lower(), changes)
    golden = {key: changes.get(key, findings) for key, findings in about.golden.items()}
    return {
        "format": "crb.dispute-effect/1",
        **effect_about(about, judge, corpus.name),
        "corrected_fingerprint": changed.fingerprint,
        "corrections": [each.model_dump(mode="json") for each in made],
        **rows_under_labels(about, golden, changed.fingerprint),
    }, made
