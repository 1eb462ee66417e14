"""Exporting a sweep as one self-contained archive (seed A 9): what its numbers are made from, and the numbers.

Members are written one after the other from one read transaction; at most one round of one build is in memory. What is
of the exporting machine alone stays out: its paths, its host names, the ids of its store, secrets.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection

from crb_core.agent import HARNESS, AgentBuild
from crb_core.errors import CrbError, InputError, StoreError
from crb_core.evidence import ChangedEvidenceError, EvidenceStore, MissingEvidenceError
from crb_core.finding import CandidateFinding, Label
from crb_core.formats.archive_private import Private
from crb_core.formats.archive_prompts import prompts_of
from crb_core.formats.archive_records import (
    README,
    Aggregation,
    ArchivedAttempt,
    ArchivedCandidate,
    ArchivedGolden,
    ArchivedMatch,
    BuildRecord,
    CallRecord,
    CorpusRecord,
    EvidenceRecord,
    JudgedBuilds,
    JudgeRecord,
    JudgmentRecord,
    PullRequestRecord,
    ReviewRecord,
    SweepRecord,
)
from crb_core.formats.archive_results import (
    ArchivedTrial,
    claims_json,
    complete_round,
    evidence_digests,
    headline,
    ranked,
    row_json,
    subject_of,
    trial_metrics,
    trial_of,
)
from crb_core.formats.archive_tar import ArchiveWriter
from crb_core.formats.judge_request import parts_of
from crb_core.identity import RowIdentity, TrialIdentity
from crb_core.matching import Classification
from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import DEFAULT_PROFILE
from crb_core.store import Store
from crb_core.store.archive_rows import (
    RoundKey,
    StoredJudgment,
    StoredReview,
    build_rounds,
    call_rows,
    freeze,
    judged_builds,
    judgment_rows,
    review_rows,
    stored_sweep,
)
from crb_core.store.corpora import load_corpus
from crb_core.store.imports import import_records
from crb_core.store.results import StoredJudge, sweep_judges
from crb_core.store.sweeps import sweep_builds

__all__ = ["Exported", "export_sweep"]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export wrote. ``missing`` blobs are named but gone, ``withheld`` ones would tell of this machine."""

    content_sha256: str
    files: int
    bytes: int
    trials: int
    findings: int
    missing: tuple[str, ...]
    withheld: tuple[str, ...]


def export_sweep(store: Store, evidence: EvidenceStore, sweep_id: str, out: Path, private: Private) -> Exported:
    """Write the archive of a sweep to ``out``, which appears only once it is whole.

    InputError where ``out`` cannot be written or where stored judgments contradict each other; StoreError where the
    store or the evidence cannot be read.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=out.parent, prefix=".crb-export-")
    except OSError as error:
        raise InputError(
            f"the archive cannot be written to {out.parent}: {error.strerror}", remedy="Name a file in another folder"
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as stream, store.read() as connection:
            freeze(connection)
            exported = _Exporter(connection, evidence, sweep_id, private, stream).write()
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(out)
    except OSError as error:
        raise InputError(
            f"the archive cannot be written to {out}: {error.strerror}", remedy="Free space or name another file"
        ) from None
    finally:
        Path(name).unlink(missing_ok=True)
    return exported


@dataclass
class _Totals:
    trials: int = 0
    findings: int = 0
    hosts: dict[str, str] = field(default_factory=dict)
    digests: set[str] = field(default_factory=set)


class _Exporter:
    def __init__(
        self, connection: Connection, evidence: EvidenceStore, sweep_id: str, private: Private, stream: IO[bytes]
    ) -> None:
        self._connection = connection
        self._evidence = evidence
        self._private = private
        self._stream = stream
        self._archive = ArchiveWriter(stream)
        self._sweep = stored_sweep(connection, sweep_id)
        self._corpus = load_corpus(connection, self._sweep.corpus_id)
        self._entries = {entry.pull_request.key: entry for entry in self._corpus.entries}
        self._rules = protocol_named(self._corpus.protocol)
        self._builds = {build.build_id: build for build in sweep_builds(connection, sweep_id)}
        self._record = self._corpus_record()
        self._fingerprint = self._record.fingerprint
        self._judges = sweep_judges(connection, sweep_id)
        self._judged = judged_builds(connection, sweep_id)
        self._parts = [part for part in build_rounds(connection, sweep_id) if part[0] in self._builds]
        self._totals = _Totals()
        self._reviewed: set[str] = set()

    def write(self) -> Exported:
        self._archive.add("README.md", README.encode())
        self._write_sweep()
        self._write_corpus()
        self._write_builds()
        self._write_judges()
        for part in self._parts:
            self._write_reviews(part)
        for judge in self._judges:
            self._write_judge(judge)
        missing, withheld = self._write_evidence()
        digest = self._archive.finish()
        return Exported(
            content_sha256=digest,
            files=len(self._archive.files) + 1,
            bytes=self._stream.tell(),
            trials=self._totals.trials,
            findings=self._totals.findings,
            missing=tuple(missing),
            withheld=tuple(withheld),
        )

    # -- what was to be measured ---------------------------------------------------------------------------------------

    def _write_sweep(self) -> None:
        comments = self._rules.name == "golden-comments"
        record = SweepRecord(
            name=self._sweep.name,
            created_at=self._time(self._sweep.created_at),
            state=self._sweep.state,
            crb_version=version("crb"),
            harness=HARNESS,
            corpus=self._corpus.name,
            corpus_fingerprint=self._fingerprint,
            protocol=self._rules.name,
            rounds=self._sweep.rounds,
            builds=tuple(self._builds),
            judges=tuple(
                JudgedBuilds(judge=judge.judge_id, builds=tuple(self._builds_of(judge))) for judge in self._judges
            ),
            aggregation=Aggregation(headline=headline(self._rules.name), profile=DEFAULT_PROFILE if comments else None),
        )
        self._archive.add_json("sweep.json", record.model_dump(mode="json"))

    def _corpus_record(self) -> CorpusRecord:
        imports = [
            [self._import(record) for record in import_records(self._connection, kind, target)]
            for kind, target in (("corpus", str(self._sweep.corpus_id)), ("sweep", self._sweep.id))
        ]
        corpus = self._corpus
        return CorpusRecord(
            name=corpus.name,
            version=corpus.version,
            title=corpus.title,
            description=corpus.description,
            protocol=corpus.protocol,
            source=corpus.source,
            producers=corpus.producers,
            subsets=corpus.subsets,
            fingerprint=corpus.fingerprint,
            imported_at=self._time(self._sweep.corpus_imported_at),
            imports=tuple(imports[0]),
            sweep_imports=tuple(imports[1]),
        )

    def _time(self, time: str) -> str | None:
        """A time of the sweep; null where all of it was imported, since it is only that of the import."""
        return None if all(build.runner == "imported" for build in self._builds.values()) else time

    def _import(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record of an import. Where its files were on the importing machine is left out; their names stay."""
        options = record.get("options")
        shown = options.items() if isinstance(options, dict) else ()
        scrubbed: dict[str, Any] = self._private.value(
            {
                **{name: value for name, value in record.items() if name != "imported_at"},
                "options": {name: self._private.base_name(value) for name, value in shown},
                "irregularities": [
                    each | {"file": self._private.base_name(each.get("file"))}
                    for each in record.get("irregularities", ())
                ],
            }
        )
        return scrubbed

    def _write_corpus(self) -> None:
        for record in (*self._record.imports, *self._record.sweep_imports):
            self._totals.digests |= evidence_digests(record.get("files"))
        self._archive.add_json("corpus.json", self._record.model_dump(mode="json"))
        with self._archive.lines("pull_requests.jsonl") as lines:
            for entry in self._corpus.entries:
                key = entry.pull_request.key
                lines.add(
                    PullRequestRecord(
                        pull_request=entry.pull_request,
                        answer_key_fingerprint=entry.answer_key_fingerprint,
                        golden=tuple(
                            ArchivedGolden(finding_id=golden.finding_id(key), finding=golden) for golden in entry.golden
                        ),
                    ).model_dump(mode="json")
                )

    def _write_builds(self) -> None:
        with self._archive.lines("builds.jsonl") as lines:
            for build in self._builds.values():
                lines.add(
                    BuildRecord(
                        build_id=build.build_id,
                        configuration_fingerprint=build.configuration_fingerprint,
                        build=build.published,
                    ).model_dump(mode="json")
                )

    def _write_judges(self) -> None:
        texts: dict[str, bytes] = {}
        records = []
        for judge in self._judges:
            description = judge.document.get("description", {})
            prompts, mine = prompts_of(description)
            texts |= mine
            records.append(
                JudgeRecord(
                    judge_id=judge.judge_id,
                    name=judge.name,
                    classifies=judge.classifies,
                    description=description,
                    prompts=prompts,
                )
            )
        with self._archive.lines("judges.jsonl") as lines:
            for record in records:
                lines.add(record.model_dump(mode="json"))
        for path in sorted(texts):
            self._archive.add(path, texts[path])

    # -- what came of it -----------------------------------------------------------------------------------------------

    def _write_reviews(self, part: RoundKey) -> None:
        build = self._builds[part[0]]
        with self._archive.lines(f"reviews/{part[0]}/round-{part[1]}.jsonl") as lines:
            for review in review_rows(self._connection, self._sweep.id, part):
                lines.add(self._review(review, build).model_dump(mode="json"))
                self._reviewed.add(review.pull_request)
                self._totals.trials += 1
                self._totals.findings += len(review.candidates)

    def _review(self, review: StoredReview, build: AgentBuild) -> ReviewRecord:
        entry = self._entries[review.pull_request]
        identity = TrialIdentity.of_build(
            build,
            subject=subject_of(self._record),
            pull_request=review.pull_request,
            reviewed_sha=entry.pull_request.recorded_head,
            answer_key_fingerprint=entry.answer_key_fingerprint,
        )
        return ReviewRecord(
            pull_request=review.pull_request,
            trial_sha256=identity.sha256,
            state=review.state,
            attempts=tuple(self._attempt(row, build) for row in review.attempts),
            candidates=tuple(
                ArchivedCandidate(finding=_candidate(row), source=self._private.value(row["source"]))
                for row in review.candidates
            ),
        )

    def _attempt(self, row: Mapping[str, Any], build: AgentBuild) -> ArchivedAttempt:
        self._totals.digests |= evidence_digests(row["evidence"])
        host = row["host"]
        values = {name: row[name] for name in ArchivedAttempt.model_fields}
        values["detail"] = None if row["detail"] is None else self._private.text(row["detail"])
        values["host"] = (
            None if host is None else self._totals.hosts.setdefault(host, f"host-{len(self._totals.hosts) + 1}")
        )
        values["source"] = self._private.value(row["source"])
        if build.runner == "imported":
            values |= {"started_at": None, "finished_at": None}
        return ArchivedAttempt(**values)

    def _write_judge(self, judge: StoredJudge) -> None:
        rows = []
        for build_id in self._builds_of(judge):
            build = self._builds[build_id]
            identity = RowIdentity.of_build(
                build, corpus_fingerprint=self._fingerprint, protocol=self._rules.name, judge=judge.judge_id
            )
            trials: list[ArchivedTrial] = []
            for part in self._parts:
                if part[0] == build_id:
                    trials += self._write_judgments(judge, build, identity, part)
                    self._write_calls(judge, part)
            rows.append(row_json(self._rules, build, identity, judge.name, trials, self._scorable()))
        self._archive.add_json(
            f"results/{judge.judge_id}.json",
            {"judge": judge.judge_id, "name": judge.name, "rows": ranked(self._rules.name, rows)},
        )

    def _write_judgments(
        self, judge: StoredJudge, build: AgentBuild, identity: RowIdentity, part: RoundKey
    ) -> list[ArchivedTrial]:
        reviews = {
            review.pull_request: self._review(review, build)
            for review in review_rows(self._connection, self._sweep.id, part)
        }
        trials = []
        with self._archive.lines(f"judgments/{judge.judge_id}/{part[0]}/round-{part[1]}.jsonl") as lines:
            for judgment in judgment_rows(self._connection, self._sweep.id, judge.judge_id, part):
                key = judgment.pull_request
                record = self._judgment(judgment, judge)
                trial = trial_of(reviews[key], record, self._entries[key], part[1], self._record)
                try:
                    claims = None if trial.judged is None else claims_json(self._rules.name, trial.judged)
                    metrics = trial_metrics(self._rules, build, identity, judge.name, trial)
                except CrbError as error:
                    raise InputError(
                        f"the judgment of {key} in round {part[1]} by {build.agent} cannot be scored: {error.problem}",
                        where=error.where,
                        remedy=f"Judge it again with `crb judge run {self._sweep.name}`",
                    ) from None
                lines.add(record.model_copy(update={"claims": claims, "metrics": metrics}).model_dump(mode="json"))
                trials.append(trial)
        return trials

    def _judgment(self, judgment: StoredJudgment, judge: StoredJudge) -> JudgmentRecord:
        row = judgment.row or {}
        times = {} if judge.document.get("spec") == "imported" else row
        return JudgmentRecord(
            pull_request=judgment.pull_request,
            problem=None if judgment.problem is None else self._private.text(judgment.problem),
            matched_at=times.get("matched_at"),
            classified_at=times.get("classified_at"),
            scored_at=times.get("scored_at"),
            matches=tuple(
                ArchivedMatch(
                    candidate=each["candidate"],
                    golden=each["golden"],
                    probability=each["probability"],
                    reasoning=each["reasoning"],
                )
                for each in judgment.correspondences
            ),
            classifications=tuple(
                Classification(candidate=each["candidate"], label=Label.model_validate(each["document"]))
                for each in judgment.classifications
            ),
            document=self._private.value(row.get("document")),
        )

    def _write_calls(self, judge: StoredJudge, part: RoundKey) -> None:
        rows = list(call_rows(self._connection, self._sweep.id, judge.judge_id, part))
        if not rows:
            return
        with self._archive.lines(f"calls/{judge.judge_id}/{part[0]}/round-{part[1]}.jsonl") as lines:
            for row in rows:
                values = {name: row[name] for name in CallRecord.model_fields}
                values["detail"] = None if row["detail"] is None else self._private.text(row["detail"])
                self._totals.digests |= evidence_digests([row["request_digest"], row["answer_digest"]])
                self._totals.digests |= self._parts_of(row["request_digest"])
                lines.add(CallRecord(**values).model_dump(mode="json"))

    def _parts_of(self, request: str) -> frozenset[str]:
        """The blobs with a request's long texts; none where the request itself will not be in the archive."""
        try:
            data = self._evidence.get(request)
        except StoreError:
            return frozenset()
        return frozenset() if self._private.is_in(data) else parts_of(data)

    def _write_evidence(self) -> tuple[list[str], list[str]]:
        missing, withheld, records = [], [], []
        for digest in sorted(self._totals.digests):
            try:
                data = self._evidence.get(digest)
            except (MissingEvidenceError, ChangedEvidenceError):
                # A damaged blob is not the one that rows name. One that cannot be read now may be fine: no export then.
                missing.append(digest)
                records.append(EvidenceRecord(sha256=digest, state="missing", bytes=None))
                continue
            if self._private.is_in(data):
                withheld.append(digest)
                records.append(EvidenceRecord(sha256=digest, state="withheld", bytes=len(data)))
                continue
            self._archive.add(f"evidence/{digest[:2]}/{digest}", data)
            records.append(EvidenceRecord(sha256=digest, state="present", bytes=len(data)))
        with self._archive.lines("evidence.jsonl") as lines:
            for record in records:
                lines.add(record.model_dump(mode="json"))
        return missing, withheld

    def _builds_of(self, judge: StoredJudge) -> list[str]:
        return [build_id for build_id in self._builds if build_id in self._judged.get(judge.judge_id, ())]

    def _scorable(self) -> list[str]:
        return complete_round(self._rules.name, self._entries, self._reviewed)


def _candidate(row: Mapping[str, Any]) -> CandidateFinding:
    return CandidateFinding(**{name: row[name] for name in CandidateFinding.model_fields})
