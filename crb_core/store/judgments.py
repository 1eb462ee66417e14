"""Reviews and judgments in the store: what one step reads and what it writes when it finishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from crb_core.agent import AgentBuild, Outcome
from crb_core.clock import utc_now
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.pull_request import PullRequest
from crb_core.store.steps import TakenStep, add_step, close
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    CorrespondenceRow,
    GoldenRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    ScoreRow,
    Stage,
    StepState,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = [
    "TrialContext",
    "add_judge_steps",
    "finish_classify",
    "finish_match",
    "finish_score",
    "load_dedup_groups",
    "load_judged",
    "load_trial",
    "save_candidates",
]

attempts = core(AttemptRow)
candidates_table = core(CandidateRow)
classifications_table = core(ClassificationRow)
correspondences_table = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
judges = core(JudgeRow)
scores = core(ScoreRow)
sweep_judges = core(SweepJudgeRow)
builds = core(AgentBuildRow)
corpora = core(CorpusRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

# Every step passes here several times, and building a statement costs more than executing it.
_TRIAL = (
    select(
        trials.c.sweep_id,
        trials.c.round,
        pull_requests.c.document.label("pull_request"),
        builds.c.document.label("build"),
        sweeps.c.name,
        sweeps.c.snapshot_source,
        corpora.c.protocol,
        corpora.c.name.label("corpus_name"),
        corpora.c.document["source"].as_string().label("corpus_source"),
        corpora.c.document["source_template"].as_string().label("corpus_template"),
    )
    .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
    .join(builds, builds.c.id == trials.c.build_id)
    .join(sweeps, sweeps.c.id == trials.c.sweep_id)
    .join(corpora, corpora.c.id == sweeps.c.corpus_id)
    .where(trials.c.id == bindparam("trial"))
)
_PULL_REQUEST = (
    select(pull_requests.c.id, pull_requests.c.key)
    .join(trials, trials.c.pull_request_id == pull_requests.c.id)
    .where(trials.c.id == bindparam("trial"))
)
_GOLDEN = (
    select(goldens.c.document)
    .where(goldens.c.pull_request_id == bindparam("pull_request"))
    .order_by(goldens.c.position)
)
_CANDIDATES = (
    select(candidates_table)
    .where(candidates_table.c.trial_id == bindparam("trial"))
    .order_by(candidates_table.c.position)
)
_ADD_CANDIDATE = insert(candidates_table)
_JUDGES = (
    select(sweep_judges.c.judge_id)
    .where(sweep_judges.c.sweep_id == bindparam("sweep"), sweep_judges.c.build_id == bindparam("build"))
    .order_by(sweep_judges.c.position)
)
_REVIEW_SOURCE = select(attempts.c.source).where(
    attempts.c.trial_id == bindparam("trial"), attempts.c.outcome == Outcome.SUCCEEDED.value
)
_JUDGMENT = select(judgments.c.id).where(
    judgments.c.trial_id == bindparam("trial"), judgments.c.judge_id == bindparam("judge")
)
_ADD_JUDGMENT = insert(judgments).returning(judgments.c.id)
#: What is executed with it says what to set.
_NOTE = update(judgments).where(judgments.c.id == bindparam("of"))
_MATCHES = (
    select(correspondences_table)
    .where(correspondences_table.c.judgment_id == bindparam("of"))
    .order_by(correspondences_table.c.candidate, correspondences_table.c.golden)
)
_FORGET_MATCHES = delete(correspondences_table).where(correspondences_table.c.judgment_id == bindparam("of"))
_LABELS = (
    select(classifications_table)
    .where(classifications_table.c.judgment_id == bindparam("of"))
    .order_by(classifications_table.c.candidate)
)
_FORGET_LABELS = delete(classifications_table).where(classifications_table.c.judgment_id == bindparam("of"))
_FORGET_SCORE = delete(scores).where(scores.c.judgment_id == bindparam("of"))
_ADD_SCORE = insert(scores)


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """What a worker has to know of a trial. ``snapshot_source`` is its sweep's, or its corpus's where that has none."""

    trial_id: int
    sweep_id: str
    sweep_name: str
    round: int
    pull_request: PullRequest
    build: AgentBuild
    protocol: str
    snapshot_source: dict[str, Any]
    corpus_name: str


def load_trial(connection: Connection, trial_id: int) -> TrialContext:
    """The context of a trial."""
    row = connection.execute(_TRIAL, {"trial": trial_id}).one()
    source = row.snapshot_source
    if source["kind"] == "none" and row.corpus_source is not None:
        # Imported reviews need no repository until a judge reads it, and the corpus may have learned later where it is.
        source = {"kind": row.corpus_source, "template": row.corpus_template}
    return TrialContext(
        trial_id=trial_id,
        sweep_id=row.sweep_id,
        sweep_name=row.name,
        round=row.round,
        pull_request=PullRequest.model_validate(row.pull_request),
        build=AgentBuild.model_validate(row.build),
        protocol=row.protocol,
        snapshot_source=source,
        corpus_name=row.corpus_name,
    )


def save_candidates(connection: Connection, trial_id: int, findings: Sequence[CandidateFinding]) -> None:
    """Store the findings of the attempt that succeeded, in the order in which the agent reported them."""
    if findings:
        connection.execute(
            _ADD_CANDIDATE,
            [
                {
                    "trial_id": trial_id,
                    "position": position,
                    "file": finding.file,
                    "start_line": finding.start_line,
                    "end_line": finding.end_line,
                    "message": finding.message,
                    "producer": finding.producer,
                    "in_diff": finding.in_diff,
                }
                for position, finding in enumerate(findings)
            ],
        )


def add_judge_steps(connection: Connection, review: TakenStep) -> None:
    """Insert one match step for every judge of the review's build, in the transaction that finishes the review."""
    wanted = connection.execute(_JUDGES, {"sweep": review.sweep_id, "build": review.build_id}).scalars()
    for judge_id in wanted:
        add_step(connection, after=review, stage=Stage.MATCH, judge_id=judge_id)


def load_judged(connection: Connection, trial_id: int, judge_id: str) -> JudgedPullRequest:
    """A trial's candidates and golden findings with what the judge has said of them so far."""
    pull_request = connection.execute(_PULL_REQUEST, {"trial": trial_id}).one()
    golden = tuple(
        GoldenFinding.model_validate(document)
        for document in connection.execute(_GOLDEN, {"pull_request": pull_request.id}).scalars()
    )
    candidates = tuple(
        CandidateFinding(
            file=row.file,
            start_line=row.start_line,
            end_line=row.end_line,
            message=row.message,
            producer=row.producer,
            in_diff=row.in_diff,
        )
        for row in connection.execute(_CANDIDATES, {"trial": trial_id})
    )
    judgment_id = _judgment_id(connection, trial_id, judge_id)
    return JudgedPullRequest(
        key=pull_request.key,
        golden=golden,
        candidates=candidates,
        correspondences=_correspondences(connection, judgment_id),
        classifications=_classifications(connection, judgment_id),
    )


def load_dedup_groups(connection: Connection, trial_id: int) -> list[list[int]] | None:
    """The groups of candidates that say the same, as they were imported with the review; None without any."""
    source: Any = connection.execute(_REVIEW_SOURCE, {"trial": trial_id}).scalar_one_or_none()
    groups = source.get("dedup_groups") if isinstance(source, dict) else None
    return groups or None


def finish_match(
    connection: Connection,
    step: TakenStep,
    correspondences: Sequence[Correspondence],
    *,
    next_stage: Stage,
    document: dict[str, Any] | None = None,
) -> bool:
    """Store a judge's correspondences and insert the next step. False: the result is late, nothing was written.

    ``document`` is what else decides the judgment's numbers, as an import has it: ``dedup_groups``.
    """
    if not close(connection, step, StepState.DONE):
        return False
    judgment_id = _judgment_id(connection, step.trial_id, step.judge_id)
    if judgment_id is None:
        judgment_id = connection.execute(
            _ADD_JUDGMENT, {"trial_id": step.trial_id, "judge_id": step.judge_id}
        ).scalar_one()
    else:
        connection.execute(_FORGET_MATCHES, {"of": judgment_id})
    rows = [
        {
            "judgment_id": judgment_id,
            "candidate": record.candidate,
            "golden": golden,
            "probability": record.probabilities[place] if record.probabilities else None,
            "reasoning": record.reasoning,
        }
        for record in correspondences
        for place, golden in enumerate(record.golden)
    ]
    if rows:
        connection.execute(insert(correspondences_table), rows)
    more = {} if document is None else {"document": document}
    connection.execute(_NOTE, {"of": judgment_id, "matched_at": utc_now(), **more})
    add_step(connection, after=step, stage=next_stage, judge_id=step.judge_id)
    return True


def finish_classify(connection: Connection, step: TakenStep, classifications: Sequence[Classification]) -> bool:
    """Store a judge's classifications and insert the score step. False: late, nothing was written."""
    if not close(connection, step, StepState.DONE):
        return False
    judgment_id = _judgment_id(connection, step.trial_id, step.judge_id)
    connection.execute(_FORGET_LABELS, {"of": judgment_id})
    if classifications:
        connection.execute(
            insert(classifications_table),
            [
                {
                    "judgment_id": judgment_id,
                    "candidate": record.candidate,
                    "document": record.label.model_dump(mode="json", exclude_none=True),
                }
                for record in classifications
            ],
        )
    connection.execute(_NOTE, {"of": judgment_id, "classified_at": utc_now()})
    add_step(connection, after=step, stage=Stage.SCORE, judge_id=step.judge_id)
    return True


def finish_score(connection: Connection, step: TakenStep, document: dict[str, Any]) -> bool:
    """Store the score of one judgment. False: late, nothing was written."""
    if not close(connection, step, StepState.DONE):
        return False
    judgment_id = _judgment_id(connection, step.trial_id, step.judge_id)
    connection.execute(_FORGET_SCORE, {"of": judgment_id})
    connection.execute(_ADD_SCORE, {"judgment_id": judgment_id, "document": document})
    connection.execute(_NOTE, {"of": judgment_id, "scored_at": utc_now()})
    return True


def judge_document(connection: Connection, judge_id: str) -> Any:
    """The stored row of a judge; InputError where the store has none of that fingerprint."""
    row = connection.execute(select(judges).where(judges.c.id == judge_id)).one_or_none()
    if row is None:
        raise InputError(
            f"the store has no judge {judge_id[:80]!r}",
            remedy="`crb judge list` shows the fingerprints of those it has",
        )
    return row


def _judgment_id(connection: Connection, trial_id: int, judge_id: str) -> int | None:
    return connection.execute(_JUDGMENT, {"trial": trial_id, "judge": judge_id}).scalar_one_or_none()


def _correspondences(connection: Connection, judgment_id: int | None) -> tuple[Correspondence, ...]:
    if judgment_id is None:
        return ()
    grouped: dict[int, list[Any]] = {}
    for row in connection.execute(_MATCHES, {"of": judgment_id}):
        grouped.setdefault(row.candidate, []).append(row)
    return tuple(
        Correspondence(
            candidate=candidate,
            golden=tuple(row.golden for row in rows),
            # An imported judge may give one only to some of a candidate's matches; the record has them all or none.
            probabilities=None
            if any(row.probability is None for row in rows)
            else tuple(row.probability for row in rows),
            reasoning=rows[0].reasoning,
        )
        for candidate, rows in grouped.items()
    )


def _classifications(connection: Connection, judgment_id: int | None) -> tuple[Classification, ...]:
    if judgment_id is None:
        return ()
    return tuple(
        Classification.model_validate({"candidate": row.candidate, "label": row.document})
        for row in connection.execute(_LABELS, {"of": judgment_id})
    )
