"""Imported corpora, reviews and judgments in the store.

All of one import is one transaction, and the same import again changes nothing. An imported review is a trial of a
build with runner and adapter ``imported``, with one attempt and a review step that is done; an imported judgment is a
judgment of a judge that carries the recorded model's name. When a review really ran is seldom recorded, so its
attempt's times are those of the import. What has no column of its own is kept in the JSON columns ``source`` and
``document``, and every file that was read is kept as evidence (``import_record``).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from crb_core.agent import AgentBuild, Outcome
from crb_core.clock import utc_now
from crb_core.corpus import Corpus, fingerprint
from crb_core.errors import InputError
from crb_core.formats.imported import ImportedJudgment, ImportedReview
from crb_core.store.corpora import corpora, pull_request_ids, save_corpus
from crb_core.store.sweeps import save_build
from crb_core.store.tables import (
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorrespondenceRow,
    ImportRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepJudgeRow,
    SweepRow,
    SweepState,
    TrialRow,
    core,
)

__all__ = [
    "ImportedCorpus",
    "ImportedSweep",
    "build_of",
    "import_corpus",
    "import_records",
    "import_reviews",
    "judge_id",
]

#: Stands for the worker of an attempt that no worker made.
IMPORTER = "imported"

attempts = core(AttemptRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
correspondences = core(CorrespondenceRow)
imports = core(ImportRow)
judges = core(JudgeRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
sweep_judges = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


@dataclass(frozen=True, kw_only=True)
class ImportedCorpus:
    """What importing a corpus did. ``updated`` pull requests got other traits or source records."""

    corpus_id: int
    is_new: bool
    updated: int


@dataclass(kw_only=True)
class ImportedSweep:
    """What importing reviews did: rows in all, and how many of them are new."""

    sweep_id: str
    is_new: bool = False
    reviews: int = 0
    new_reviews: int = 0
    candidates: int = 0
    judgments: int = 0
    new_judgments: int = 0
    unscored: int = 0
    agents: set[str] = field(default_factory=set)
    judges: dict[str, str] = field(default_factory=dict)


def build_of(review: ImportedReview, format_name: str) -> AgentBuild:
    """The build that an imported review belongs to: agent, format and model roles."""
    return AgentBuild(
        agent=review.agent,
        display_name=review.agent[:64].strip(),
        provider=review.agent[:64].strip(),
        image=f"imported:{format_name}",
        image_id=f"imported:{format_name}",
        model_roles=review.model_roles,
        runner="imported",
        adapter="imported",
    )


def judge_id(description: Mapping[str, Any]) -> str:
    """``j-`` and 12 hex digits over what is known of a recorded judge, as for judges that crb runs."""
    return "j-" + fingerprint(description)[:12]


def import_corpus(
    connection: Connection, corpus: Corpus, record: Mapping[str, Any], format_name: str
) -> ImportedCorpus:
    """Store a corpus with the record of its import; the same again writes nothing.

    What decides no number (traits, source records) is brought up to date where the corpus is already stored.
    """
    known = connection.execute(
        select(corpora.c.id).where(corpora.c.name == corpus.name, corpora.c.fingerprint == corpus.fingerprint)
    ).scalar_one_or_none()
    corpus_id = save_corpus(connection, corpus)
    updated = 0
    if known is not None and corpus.source != "none":
        # Where the repositories are may change; an import that does not say it takes nothing away.
        document = corpus.model_dump(mode="json", exclude={"entries"})
        connection.execute(update(corpora).where(corpora.c.id == corpus_id).values(document=document))
    if known is not None:
        stored = dict(
            connection.execute(
                select(pull_requests.c.key, pull_requests.c.document).where(pull_requests.c.corpus_id == corpus_id)
            ).all()
        )
        for entry in corpus.entries:
            document = entry.pull_request.model_dump(mode="json")
            if stored[entry.pull_request.key] != document:
                mine = (pull_requests.c.corpus_id == corpus_id) & (pull_requests.c.key == entry.pull_request.key)
                connection.execute(update(pull_requests).where(mine).values(document=document))
                updated += 1
    save_record(connection, "corpus", str(corpus_id), format_name, record)
    return ImportedCorpus(corpus_id=corpus_id, is_new=known is None, updated=updated)


def save_record(connection: Connection, kind: str, target: str, format_name: str, document: Mapping[str, Any]) -> bool:
    """Keep what was imported; False when the same import is already recorded."""
    digest = fingerprint({"format": format_name, **document})
    known = connection.execute(
        select(imports.c.id).where(imports.c.kind == kind, imports.c.target == target, imports.c.fingerprint == digest)
    ).scalar_one_or_none()
    if known is not None:
        return False
    connection.execute(
        insert(imports).values(
            kind=kind,
            target=target,
            format=format_name,
            fingerprint=digest,
            document=dict(document),
            imported_at=utc_now(),
        )
    )
    return True


def import_records(connection: Connection, kind: str, target: str) -> list[dict[str, Any]]:
    """What was imported into a corpus or a sweep, in order: format, time, files with digests, irregularities."""
    rows = connection.execute(
        select(imports).where(imports.c.kind == kind, imports.c.target == target).order_by(imports.c.id)
    )
    return [{"format": row.format, "imported_at": row.imported_at, **row.document} for row in rows]


def import_reviews(
    connection: Connection,
    reviews: Sequence[ImportedReview],
    *,
    name: str,
    corpus_id: int,
    format_name: str,
    record: Mapping[str, Any],
) -> ImportedSweep:
    """Store reviews as trials of the sweep ``name``, which is made or extended.

    A review or judgment that is already there stays untouched; InputError when it is there with other content, or when
    the sweep runs on another corpus.
    """
    importer = _Importer(connection, name, corpus_id, max((review.round for review in reviews), default=1), format_name)
    for review in reviews:
        importer.add(review)
    importer.flush()
    save_record(connection, "sweep", importer.result.sweep_id, format_name, record)
    return importer.result


class _Importer:
    def __init__(self, connection: Connection, name: str, corpus_id: int, rounds: int, format_name: str) -> None:
        self._connection = connection
        self._format = format_name
        self._now = utc_now()
        self._pull_requests = pull_request_ids(connection, corpus_id)
        self._builds: dict[str, str] = {}
        self._judge_places: dict[tuple[str, str], int] = {}
        self._waiting: dict[Table, list[dict[str, Any]]] = {
            table: [] for table in (steps, attempts, candidates, correspondences, classifications)
        }
        self.result = ImportedSweep(sweep_id=self._sweep(name, corpus_id, rounds))
        self.result.is_new = self._is_new
        self._known = {
            (row.build_id, row.pull_request_id, row.round): (row.id, row.source)
            for row in connection.execute(
                select(trials.c.id, trials.c.build_id, trials.c.pull_request_id, trials.c.round, attempts.c.source)
                .outerjoin(attempts, (attempts.c.trial_id == trials.c.id) & (attempts.c.number == 1))
                .where(trials.c.sweep_id == self.result.sweep_id)
            )
        }
        self._judged = {
            (row.trial_id, row.judge_id): row.document
            for row in connection.execute(
                select(judgments.c.trial_id, judgments.c.judge_id, judgments.c.document)
                .join(trials, trials.c.id == judgments.c.trial_id)
                .where(trials.c.sweep_id == self.result.sweep_id)
            )
        }

    def _sweep(self, name: str, corpus_id: int, rounds: int) -> str:
        row = self._connection.execute(select(sweeps).where(sweeps.c.name == name)).one_or_none()
        self._is_new = row is None
        if row is None:
            sweep_id = "s-" + secrets.token_hex(4)
            self._connection.execute(
                insert(sweeps).values(
                    id=sweep_id,
                    name=name,
                    corpus_id=corpus_id,
                    rounds=rounds,
                    priority=0,
                    state=SweepState.ACTIVE.value,
                    snapshot_source={"kind": "none", "template": None},
                    created_at=self._now,
                )
            )
            return sweep_id
        if row.corpus_id != corpus_id:
            raise InputError(
                f"The sweep {name} runs on another corpus or another version of this one",
                remedy="Import under another --name",
            )
        if rounds > row.rounds:
            self._connection.execute(update(sweeps).where(sweeps.c.id == row.id).values(rounds=rounds))
        return str(row.id)

    def add(self, review: ImportedReview) -> None:
        result = self.result
        build_id = self._build(review)
        pull_request = self._pull_requests[review.pull_request]
        digest = _digest(review)
        found = self._known.get((build_id, pull_request, review.round))
        if found is None:
            trial_id = self._insert_trial(review, build_id, pull_request, digest)
            self._known[build_id, pull_request, review.round] = (trial_id, {"digest": digest})
            result.new_reviews += 1
        else:
            trial_id, source = found
            if (source or {}).get("digest") != digest:
                raise InputError(
                    f"The sweep has another review of {review.pull_request} by {review.agent} in round {review.round}",
                    remedy="Import under another --name, or as another --round",
                )
        result.reviews += 1
        result.candidates += len(review.candidates)
        result.agents.add(review.agent)
        for place, judgment in enumerate(review.judgments):
            self._add_judgment(review, judgment, trial_id, build_id, place)

    def flush(self) -> None:
        """Write the rows that nothing else refers to, in bulk: a fourth of the time of single inserts."""
        for table, rows in self._waiting.items():
            if rows:
                self._connection.execute(insert(table), rows)
                rows.clear()

    def _build(self, review: ImportedReview) -> str:
        build = build_of(review, self._format)
        build_id = build.build_id
        if build_id not in self._builds:
            self._builds[build_id] = save_build(self._connection, build)
            mine = (sweep_builds.c.sweep_id == self.result.sweep_id) & (sweep_builds.c.build_id == build_id)
            if self._connection.execute(select(sweep_builds.c.paused).where(mine)).one_or_none() is None:
                self._connection.execute(
                    insert(sweep_builds).values(sweep_id=self.result.sweep_id, build_id=build_id, paused=False)
                )
        return build_id

    def _insert_trial(self, review: ImportedReview, build_id: str, pull_request: int, digest: str) -> int:
        succeeded = review.outcome is Outcome.SUCCEEDED
        trial_id = int(
            self._connection.execute(
                insert(trials)
                .values(
                    sweep_id=self.result.sweep_id, build_id=build_id, pull_request_id=pull_request, round=review.round
                )
                .returning(trials.c.id)
            ).scalar_one()
        )
        detail = review.detail or "Imported; the times of this attempt are those of the import"
        self._insert_step(
            trial_id,
            build_id,
            Stage.REVIEW,
            "",
            StepState.DONE if succeeded else StepState.FAILED,
            None if succeeded else f"{review.outcome.value}: {detail}",
        )
        self._waiting[attempts].append(
            {
                "trial_id": trial_id,
                "number": 1,
                "tag": f"{IMPORTER}-{self.result.sweep_id}-{trial_id}",
                "worker": IMPORTER,
                "outcome": review.outcome.value,
                "detail": detail,
                "started_at": self._now,
                "finished_at": self._now,
                "review_ms": review.review_ms,
                "duration_seconds": review.duration_seconds,
                "usage": review.usage,
                "source": {"digest": digest, **review.source},
            }
        )
        self._waiting[candidates] += [
            {
                "trial_id": trial_id,
                "position": position,
                "file": candidate.finding.file,
                "start_line": candidate.finding.start_line,
                "end_line": candidate.finding.end_line,
                "message": candidate.finding.message,
                "producer": candidate.finding.producer,
                "in_diff": candidate.finding.in_diff,
                "source": candidate.source,
            }
            for position, candidate in enumerate(review.candidates)
        ]
        return trial_id

    def _insert_step(
        self, trial_id: int, build_id: str, stage: Stage, judge: str, state: StepState, reason: str | None
    ) -> None:
        self._waiting[steps].append(
            {
                "trial_id": trial_id,
                "judge_id": judge,
                "stage": stage.value,
                "sweep_id": self.result.sweep_id,
                "build_id": build_id,
                "priority": 0,
                "position": 0,
                "state": state.value,
                "fence": 0,
                "beat": 0,
                "cancel_requested": False,
                "attempts_before": 0,
                "reason": reason,
            }
        )

    def _judge(self, judgment: ImportedJudgment, build_id: str, place: int) -> str:
        identifier = judge_id(judgment.description)
        if identifier not in self.result.judges:
            if self._connection.execute(select(judges.c.id).where(judges.c.id == identifier)).one_or_none() is None:
                self._connection.execute(
                    insert(judges).values(
                        id=identifier,
                        name=judgment.judge,
                        classifies=judgment.classifies,
                        document={"spec": IMPORTER, "description": judgment.description},
                    )
                )
            self.result.judges[identifier] = judgment.judge
        if (build_id, identifier) not in self._judge_places:
            self._judge_places[build_id, identifier] = place
            known = self._connection.execute(
                select(sweep_judges.c.position).where(
                    sweep_judges.c.sweep_id == self.result.sweep_id,
                    sweep_judges.c.build_id == build_id,
                    sweep_judges.c.judge_id == identifier,
                )
            ).one_or_none()
            if known is None:
                self._connection.execute(
                    insert(sweep_judges).values(
                        sweep_id=self.result.sweep_id, build_id=build_id, judge_id=identifier, position=place
                    )
                )
        return identifier

    def _add_judgment(
        self, review: ImportedReview, judgment: ImportedJudgment, trial_id: int, build_id: str, place: int
    ) -> None:
        identifier = self._judge(judgment, build_id, place)
        digest = _judgment_digest(judgment)
        self.result.judgments += 1
        self.result.unscored += judgment.problem is not None
        if (trial_id, identifier) in self._judged:
            if (self._judged[trial_id, identifier] or {}).get("digest") != digest:
                raise InputError(
                    f"The sweep has another judgment by {judgment.judge} of {review.pull_request} by {review.agent}",
                    remedy="Import under another --name",
                )
            return
        scored = None if judgment.problem is not None else self._now
        judgment_id = self._connection.execute(
            insert(judgments)
            .values(
                trial_id=trial_id,
                judge_id=identifier,
                matched_at=scored,
                classified_at=scored if judgment.classifies else None,
                scored_at=scored,
                document={"digest": digest, **judgment.document},
            )
            .returning(judgments.c.id)
        ).scalar_one()
        self._judged[trial_id, identifier] = {"digest": digest}
        self.result.new_judgments += 1
        if judgment.problem is not None:
            self._insert_step(trial_id, build_id, Stage.MATCH, identifier, StepState.FAILED, judgment.problem)
            return
        self._insert_step(trial_id, build_id, Stage.SCORE, identifier, StepState.DONE, None)
        self._waiting[correspondences] += [
            {
                "judgment_id": judgment_id,
                "candidate": pair.candidate,
                "golden": pair.golden,
                "probability": pair.probability,
                "reasoning": pair.reasoning,
            }
            for pair in judgment.pairs
        ]
        self._waiting[classifications] += [
            {
                "judgment_id": judgment_id,
                "candidate": each.candidate,
                "document": each.label.model_dump(mode="json", exclude_none=True),
            }
            for each in judgment.classifications
        ]


def _digest(review: ImportedReview) -> str:
    """SHA-256 over a review without its judgments."""
    return fingerprint(
        {
            "outcome": review.outcome.value,
            "detail": review.detail,
            "review_ms": review.review_ms,
            "duration_seconds": review.duration_seconds,
            "usage": review.usage,
            "source": review.source,
            "candidates": [
                [candidate.finding.model_dump(mode="json"), candidate.source] for candidate in review.candidates
            ],
        }
    )


def _judgment_digest(judgment: ImportedJudgment) -> str:
    return fingerprint(
        {
            "problem": judgment.problem,
            "document": judgment.document,
            "pairs": [[pair.candidate, pair.golden, pair.probability, pair.reasoning] for pair in judgment.pairs],
            "classifications": [each.model_dump(mode="json") for each in judgment.classifications],
        }
    )
