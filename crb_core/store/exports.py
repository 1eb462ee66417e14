"""Rows for the exports of a sweep: every judged trial in order, findings with what became of them, golden findings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.claims import claims_of
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.finding import LABEL_AXES, CandidateFinding, Label
from crb_core.formats.csv_table import Cell, Table
from crb_core.formats.golden_comments import pull_request_url
from crb_core.formats.summary import Summary, repository_names, summarise_reviews
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import answer_key
from crb_core.store.archive_rows import (
    RoundKey,
    StoredJudgment,
    StoredReview,
    build_rounds,
    judged_builds,
    judgment_rows,
    review_rows,
)
from crb_core.store.results import StoredJudge
from crb_core.store.sweeps import sweep_builds
from crb_core.store.tables import AttemptRow, PullRequestRow, TrialRow, core

__all__ = ["JudgedTrial", "findings_table", "golden_table", "judged_parts", "judged_trials", "review_summary"]

attempts = core(AttemptRow)
pull_requests = core(PullRequestRow)
trials = core(TrialRow)

_FINDING_COLUMNS = (
    *("judge", "judge_fingerprint", "agent", "build", "round", "pull_request", "url", "position"),
    *("file", "start_line", "end_line", "message", "producer", "in_diff"),
    *("status", "claimed_finding_id", "matched_finding_ids", "label_from", *LABEL_AXES),
    *("tp_fp_justification", "severity_justification", "category_justification", "provenance"),
)
_GOLDEN_COLUMNS = (
    *("finding_id", "pull_request", "url", "base", "head", "position"),
    *("file", "start_line", "end_line", "message", "producer", *LABEL_AXES),
    *("tp_fp_justification", "severity_justification", "category_justification", "provenance"),
)


@dataclass(frozen=True, kw_only=True)
class JudgedTrial:
    """One trial under one judge with all that was stored of it; ``judged`` is None without a score."""

    judge: StoredJudge
    build: AgentBuild
    round: int
    entry: CorpusEntry
    review: StoredReview
    judgment: StoredJudgment
    judged: JudgedPullRequest | None

    @property
    def key(self) -> str:
        return self.review.pull_request

    @property
    def document(self) -> Mapping[str, Any]:
        """What an imported judgment recorded beyond matches and labels."""
        return (self.judgment.row or {}).get("document") or {}

    @property
    def candidates(self) -> tuple[CandidateFinding, ...]:
        return tuple(
            CandidateFinding(**{name: row[name] for name in CandidateFinding.model_fields})
            for row in self.review.candidates
        )

    @property
    def succeeded(self) -> dict[str, Any] | None:
        """The attempt that succeeded."""
        return next((row for row in self.review.attempts if row["outcome"] == "succeeded"), None)


def judged_parts(connection: Connection, sweep_id: str, judge: StoredJudge) -> list[tuple[AgentBuild, RoundKey]]:
    """The builds and rounds that a judge judges, by agent, build and round."""
    mine = judged_builds(connection, sweep_id).get(judge.judge_id, set())
    parts = build_rounds(connection, sweep_id)
    return [
        (build, part)
        for build in sweep_builds(connection, sweep_id)
        if build.build_id in mine
        for part in parts
        if part[0] == build.build_id
    ]


def judged_trials(
    connection: Connection, sweep_id: str, corpus: Corpus, judge: StoredJudge, build: AgentBuild, part: RoundKey
) -> Iterator[JudgedTrial]:
    """The trials of one build and round under one judge, in corpus order."""
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    reviews = {review.pull_request: review for review in review_rows(connection, sweep_id, part)}
    for judgment in judgment_rows(connection, sweep_id, judge.judge_id, part):
        entry = entries[judgment.pull_request]
        trial = JudgedTrial(
            judge=judge,
            build=build,
            round=part[1],
            entry=entry,
            review=reviews[judgment.pull_request],
            judgment=judgment,
            judged=None,
        )
        if judgment.problem is not None:
            yield trial
            continue
        links: dict[int, list[int]] = {}
        for row in judgment.correspondences:
            links.setdefault(row["candidate"], []).append(row["golden"])
        judged = JudgedPullRequest(
            key=judgment.pull_request,
            golden=entry.golden,
            candidates=trial.candidates,
            correspondences=tuple(
                Correspondence(candidate=candidate, golden=tuple(golden)) for candidate, golden in links.items()
            ),
            classifications=tuple(
                Classification(candidate=row["candidate"], label=Label.model_validate(row["document"]))
                for row in judgment.classifications
            ),
        )
        yield JudgedTrial(
            judge=judge,
            build=build,
            round=part[1],
            entry=entry,
            review=trial.review,
            judgment=judgment,
            judged=judged,
        )


def findings_table(connection: Connection, sweep_id: str, corpus: Corpus, judges: Sequence[StoredJudge]) -> Table:
    """Every candidate finding under every judge, with what it matches and how it is labelled.

    ``status``: ``claims`` a golden finding for precision, ``covers`` only golden findings that others claimed,
    ``intended`` (answer-key), ``matches`` (golden-comments, which has no claims), ``unmatched``, or ``not judged``.
    """

    def rows() -> Iterator[list[Cell]]:
        for judge in judges:
            for build, part in judged_parts(connection, sweep_id, judge):
                for trial in judged_trials(connection, sweep_id, corpus, judge, build, part):
                    yield from _finding_rows(trial, corpus.protocol)

    return Table(name="findings", columns=_FINDING_COLUMNS, rows=rows())


def golden_table(corpus: Corpus) -> Table:
    """Every golden finding with its id, its labels and where they come from."""

    def rows() -> Iterator[list[Cell]]:
        for entry in corpus.entries:
            pull_request = entry.pull_request
            for position, golden in enumerate(entry.golden):
                record: dict[str, Cell] = {
                    "finding_id": golden.finding_id(pull_request.key),
                    "pull_request": pull_request.key,
                    "url": pull_request_url(pull_request),
                    "base": pull_request.recorded_base,
                    "head": pull_request.recorded_head,
                    "position": position,
                    **_place(golden),
                    **_label(golden.label),
                }
                yield [record.get(column) for column in _GOLDEN_COLUMNS]

    return Table(name="golden", columns=_GOLDEN_COLUMNS, rows=rows())


def review_summary(connection: Connection, sweep_id: str, corpus: Corpus) -> Summary:
    """How many reviews succeeded, by agent and repository."""
    agents = {build.build_id: build.agent for build in sweep_builds(connection, sweep_id)}
    repositories = repository_names([entry.pull_request for entry in corpus.entries])
    rows = connection.execute(
        select(trials.c.build_id, trials.c.round, pull_requests.c.key)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .join(attempts, attempts.c.trial_id == trials.c.id)
        .where(trials.c.sweep_id == sweep_id, attempts.c.outcome == "succeeded")
    )
    return summarise_reviews(
        ((agents[row.build_id], repositories[row.key], row.key, row.round) for row in rows), agents.values()
    )


def _finding_rows(trial: JudgedTrial, protocol: str) -> Iterator[list[Cell]]:
    key = trial.key
    golden = trial.entry.golden
    statuses = _statuses(trial.judged, protocol) if trial.judged is not None else {}
    labels = {record.candidate: record.label for record in trial.judged.classifications} if trial.judged else {}
    matched = {record.candidate: record.golden for record in trial.judged.correspondences} if trial.judged else {}
    for position, candidate in enumerate(trial.candidates):
        status, claimed = statuses.get(position, ("unmatched" if trial.judged else "not judged", None))
        label = golden[claimed].label if claimed is not None else labels.get(position)
        record: dict[str, Cell] = {
            "judge": trial.judge.name,
            "judge_fingerprint": trial.judge.judge_id,
            "agent": trial.build.agent,
            "build": trial.build.build_id,
            "round": trial.round,
            "pull_request": key,
            "url": pull_request_url(trial.entry.pull_request),
            "position": position,
            **_place(candidate),
            "in_diff": candidate.in_diff,
            "status": status,
            "claimed_finding_id": None if claimed is None else golden[claimed].finding_id(key),
            "matched_finding_ids": "; ".join(golden[each].finding_id(key) for each in matched.get(position, ()))
            or None,
            "label_from": None if label is None else "golden" if claimed is not None else "classifier",
            **(_label(label) if label is not None else {}),
        }
        yield [record.get(column) for column in _FINDING_COLUMNS]


def _statuses(judged: JudgedPullRequest, protocol: str) -> dict[int, tuple[str, int | None]]:
    """By candidate that matches anything: what that makes of it, and the golden finding that it takes."""
    matching = [record.candidate for record in judged.correspondences if record.golden]
    if protocol == "golden-comments":
        return dict.fromkeys(matching, ("matches", None))
    claimed: Mapping[int, int]
    intended: Mapping[int, int] = {}
    if protocol == "answer-key":
        keyed = answer_key.resolve(judged)
        claimed, intended = keyed.claimed, keyed.intended
    else:
        claimed = claims_of(judged).claimed
    found: dict[int, tuple[str, int | None]] = dict.fromkeys(matching, ("covers", None))
    found |= {candidate: ("claims", golden) for candidate, golden in claimed.items()}
    return found | {candidate: ("intended", golden) for candidate, golden in intended.items()}


def _place(finding: Any) -> dict[str, Cell]:
    return {name: getattr(finding, name) for name in ("file", "start_line", "end_line", "message", "producer")}


def _label(label: Label) -> dict[str, Cell]:
    values: dict[str, Cell] = {}
    for name in (*LABEL_AXES, "tp_fp_justification", "severity_justification", "category_justification"):
        value = getattr(label, name)
        values[name] = None if value is None else str(value)
    values["provenance"] = (
        json.dumps(label.provenance, ensure_ascii=False, sort_keys=True) if label.provenance else None
    )
    return values
