"""What an archive of a sweep is made from, read in parts that fit into memory: one build and round at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from crb_core.store.tables import (
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    CorrespondenceRow,
    JudgeCallRow,
    JudgmentRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = [
    "RoundKey",
    "StoredJudgment",
    "StoredReview",
    "StoredSweep",
    "build_rounds",
    "call_rows",
    "freeze",
    "judged_builds",
    "judgment_rows",
    "review_rows",
    "stored_sweep",
]

attempts = core(AttemptRow)
calls = core(JudgeCallRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
corpora = core(CorpusRow)
correspondences = core(CorrespondenceRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
sweep_judges = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

#: A part of a sweep: build id and round.
RoundKey = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class StoredSweep:
    """The row of a sweep with that of its corpus."""

    id: str
    name: str
    rounds: int
    state: str
    created_at: str
    corpus_id: int
    corpus_imported_at: str


@dataclass(frozen=True, kw_only=True)
class StoredReview:
    """A trial with its attempts in order and the findings of the one that succeeded."""

    trial_id: int
    pull_request: str
    state: str
    attempts: list[dict[str, Any]]
    candidates: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class StoredJudgment:
    """What a judge said of a trial; ``row`` is None where it has said nothing yet, ``problem`` then says why."""

    trial_id: int
    pull_request: str
    row: dict[str, Any] | None
    problem: str | None
    correspondences: list[dict[str, Any]]
    classifications: list[dict[str, Any]]


def freeze(connection: Connection) -> None:
    """Make the connection see one state of the store until it ends, whatever is written meanwhile."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def stored_sweep(connection: Connection, sweep_id: str) -> StoredSweep:
    """A sweep by its id."""
    row = connection.execute(
        select(sweeps, corpora.c.imported_at)
        .join(corpora, corpora.c.id == sweeps.c.corpus_id)
        .where(sweeps.c.id == sweep_id)
    ).one()
    return StoredSweep(
        id=row.id,
        name=row.name,
        rounds=row.rounds,
        state=row.state,
        created_at=row.created_at,
        corpus_id=row.corpus_id,
        corpus_imported_at=row.imported_at,
    )


def build_rounds(connection: Connection, sweep_id: str) -> list[RoundKey]:
    """Which rounds of which builds have trials, by build and round."""
    rows = connection.execute(
        select(trials.c.build_id, trials.c.round)
        .where(trials.c.sweep_id == sweep_id)
        .distinct()
        .order_by(trials.c.build_id, trials.c.round)
    )
    return [(row.build_id, row.round) for row in rows]


def judged_builds(connection: Connection, sweep_id: str) -> dict[str, set[str]]:
    """The builds that each judge of a sweep judges."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in connection.execute(
        select(sweep_judges.c.judge_id, sweep_judges.c.build_id).where(sweep_judges.c.sweep_id == sweep_id)
    ):
        found[row.judge_id].add(row.build_id)
    return dict(found)


def review_rows(connection: Connection, sweep_id: str, part: RoundKey) -> Iterator[StoredReview]:
    """The trials of one build and round, in corpus order."""
    inside = _inside(sweep_id, part)
    by_trial = _grouped(
        connection,
        select(attempts).join(trials, trials.c.id == attempts.c.trial_id).where(inside).order_by(attempts.c.number),
    )
    found = _grouped(
        connection,
        select(candidates)
        .join(trials, trials.c.id == candidates.c.trial_id)
        .where(inside)
        .order_by(candidates.c.trial_id, candidates.c.position),
    )
    states = {
        row.trial_id: row.state
        for row in connection.execute(
            select(steps.c.trial_id, steps.c.state)
            .join(trials, trials.c.id == steps.c.trial_id)
            .where(inside, steps.c.stage == Stage.REVIEW.value)
        )
    }
    for row in _trials(connection, inside):
        yield StoredReview(
            trial_id=row.id,
            pull_request=row.key,
            state=states.get(row.id, "unknown"),
            attempts=by_trial.get(row.id, []),
            candidates=found.get(row.id, []),
        )


def judgment_rows(connection: Connection, sweep_id: str, judge_id: str, part: RoundKey) -> Iterator[StoredJudgment]:
    """What a judge said of the trials of one build and round, in corpus order."""
    inside = _inside(sweep_id, part)
    of_judge = judgments.c.judge_id == judge_id
    rows = {
        row.trial_id: dict(row._mapping)
        for row in connection.execute(
            select(judgments).join(trials, trials.c.id == judgments.c.trial_id).where(inside, of_judge)
        )
    }

    def of_judgments(table: Any, *order: Any) -> dict[int, list[dict[str, Any]]]:
        query = (
            select(table)
            .join(judgments, judgments.c.id == table.c.judgment_id)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(inside, of_judge)
            .order_by(table.c.judgment_id, table.c.candidate, *order)
        )
        return _grouped(connection, query, "judgment_id")

    links = of_judgments(correspondences, correspondences.c.golden)
    labels = of_judgments(classifications)
    problems = {
        row.trial_id: row.reason or f"the {row.stage} step was {row.state}"
        for row in connection.execute(
            select(steps.c.trial_id, steps.c.stage, steps.c.state, steps.c.reason)
            .join(trials, trials.c.id == steps.c.trial_id)
            .where(
                inside,
                (steps.c.stage == Stage.REVIEW.value) | (steps.c.judge_id == judge_id),
                steps.c.state.in_((StepState.FAILED.value, StepState.CANCELLED.value)),
            )
            .order_by(steps.c.id)
        )
    }
    for trial in _trials(connection, inside):
        row = rows.get(trial.id)
        is_scored = row is not None and row["scored_at"] is not None
        yield StoredJudgment(
            trial_id=trial.id,
            pull_request=trial.key,
            row=row,
            problem=None if is_scored else problems.get(trial.id, "not finished yet"),
            correspondences=links.get(row["id"], []) if row is not None else [],
            classifications=labels.get(row["id"], []) if row is not None else [],
        )


def call_rows(connection: Connection, sweep_id: str, judge_id: str, part: RoundKey) -> Iterator[dict[str, Any]]:
    """The calls that a judge's model was asked for one build and round, by pull request and time."""
    query = (
        select(calls, pull_requests.c.key.label("pull_request"))
        .join(trials, trials.c.id == calls.c.trial_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(_inside(sweep_id, part), calls.c.judge_id == judge_id)
        .order_by(pull_requests.c.position, calls.c.id)
    )
    for row in connection.execute(query):
        yield dict(row._mapping)


def _inside(sweep_id: str, part: RoundKey) -> Any:
    build_id, number = part
    return (trials.c.sweep_id == sweep_id) & (trials.c.build_id == build_id) & (trials.c.round == number)


def _trials(connection: Connection, inside: Any) -> list[Any]:
    return list(
        connection.execute(
            select(trials.c.id, pull_requests.c.key)
            .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
            .where(inside)
            .order_by(pull_requests.c.position)
        )
    )


def _grouped(connection: Connection, query: Any, key: str = "trial_id") -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(query):
        grouped[row._mapping[key]].append(dict(row._mapping))
    return grouped
