"""Making an archive's numbers again: reviews are checked, then claims, metrics, rounds, rows and durations compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from crb_core.agent import AgentBuild, Outcome
from crb_core.corpus import CorpusEntry
from crb_core.errors import CrbError, InputError, Where, first_problem
from crb_core.finding import Record
from crb_core.formats.archive_records import (
    CallRecord,
    CorpusRecord,
    JudgeRecord,
    JudgmentRecord,
    ReviewRecord,
    SweepRecord,
    read_lines,
)
from crb_core.formats.archive_report import Difference, Verification
from crb_core.formats.archive_results import (
    ArchivedTrial,
    claims_json,
    complete_round,
    differences,
    evidence_digests,
    ranked,
    row_json,
    subject_of,
    trial_metrics,
    trial_of,
)
from crb_core.formats.archive_tar import ArchiveReader
from crb_core.formats.judge_request import parts_of
from crb_core.formats.strict_json import field_path, load_json
from crb_core.identity import RowIdentity, TrialIdentity
from crb_core.protocols import Protocol

__all__ = ["Numbers"]

_MAX_FINDINGS_BYTES = 256 * 1024 * 1024
_MAX_RESULT_BYTES = 256 * 1024 * 1024
_MAX_REQUEST_BYTES = 64 * 1024 * 1024
_OUTCOMES = frozenset(each.value for each in Outcome)


class _RecordedLists(Record):
    """The lists of a recorded evaluation, of which only the lengths are counted."""

    true_positives: list[Any]
    false_positives: list[Any]
    false_negatives: list[Any]


class _Open(Record):
    """What of an imported judgment's document decides numbers."""

    dedup_groups: list[list[int]] = Field(default_factory=list)
    match_unrecorded: list[int] = Field(default_factory=list)
    golden_unjudged: list[int] = Field(default_factory=list)
    golden_categories: dict[str, str] = Field(default_factory=dict)


class Numbers:
    """Checks the reviews, judgments and results of an archive whose other parts are what they say they are.

    ``named`` and ``digests`` are extended by the files and blobs that these parts name.
    """

    def __init__(
        self,
        archive: ArchiveReader,
        verification: Verification,
        *,
        sweep: SweepRecord,
        corpus: CorpusRecord,
        rules: Protocol,
        entries: Mapping[str, CorpusEntry],
        builds: Mapping[str, AgentBuild],
        judges: Mapping[str, JudgeRecord],
        rounds: Mapping[str, Sequence[int]],
        named: set[str],
        digests: set[str],
    ) -> None:
        self._archive = archive
        self._verification = verification
        self._sweep = sweep
        self._corpus = corpus
        self._rules = rules
        self._entries = entries
        self._order = {key: place for place, key in enumerate(entries)}
        self._builds = builds
        self._judges = judges
        self._rounds = rounds
        self._named = named
        self._digests = digests

    def check(self) -> None:
        """The reviews of every build, then the judgments and rows of every judge."""
        reviewed: set[str] = set()
        for build_id, numbers in self._rounds.items():
            for number in numbers:
                name = f"reviews/{build_id}/round-{number}.jsonl"
                with self._verification.noted(name):
                    for line, review in self._reviews(build_id, number):
                        reviewed.add(review.pull_request)
                        self._verification.trials += 1
                        self._verification.findings += len(review.candidates)
                        with self._verification.noted(name, line):
                            self._check_review(name, line, review, self._builds[build_id])
        if not self._verification.ok:
            self._verification.notes.append("numbers were not made again: the reviews that they rest on are wrong")
            return
        scorable = complete_round(self._rules.name, self._entries, reviewed)
        for judged in self._sweep.judges:
            name = f"results/{judged.judge}.json"
            self._named.add(name)
            with self._verification.noted(name):
                rows = [self._row(self._judges[judged.judge], build_id, scorable) for build_id in judged.builds]
                self._compare_results(name, self._judges[judged.judge], rows)

    # -- reviews -------------------------------------------------------------------------------------------------------

    def _reviews(self, build_id: str, number: int) -> Iterator[tuple[int, ReviewRecord]]:
        """The trials of a round; refuses an unknown pull request, one that is there twice and another order."""
        name = f"reviews/{build_id}/round-{number}.jsonl"
        last = -1
        for line, review in read_lines(self._archive, name, ReviewRecord):
            place = self._order.get(review.pull_request)
            if place is None or place <= last:
                reason = "is not in the corpus" if place is None else "is there twice or out of order"
                raise InputError(
                    f"the pull request {review.pull_request[:80]!r} {reason}",
                    where=self._archive.at(name, line, "pull_request"),
                )
            last = place
            yield line, review

    def _check_review(self, name: str, line: int, review: ReviewRecord, build: AgentBuild) -> None:
        entry = self._entries[review.pull_request]
        identity = TrialIdentity.of_build(
            build,
            subject=subject_of(self._corpus),
            pull_request=review.pull_request,
            reviewed_sha=entry.pull_request.recorded_head,
            answer_key_fingerprint=entry.answer_key_fingerprint,
        )
        self._compare(name, line, "trial_sha256", review.trial_sha256, identity.sha256)
        self._compare(
            name,
            line,
            "attempts",
            [attempt.number for attempt in review.attempts],
            list(range(1, len(review.attempts) + 1)),
        )
        for place, attempt in enumerate(review.attempts):
            self._digests |= evidence_digests(attempt.evidence)
            if attempt.outcome is not None and attempt.outcome not in _OUTCOMES:
                self._add(name, line, f"attempts[{place}].outcome", f"{attempt.outcome[:80]!r} is no outcome")
        succeeded = [attempt for attempt in review.attempts if attempt.outcome == Outcome.SUCCEEDED.value]
        if len(succeeded) > 1:
            self._add(name, line, "attempts", "more than one attempt succeeded")
        if review.candidates and not succeeded:
            self._add(name, line, "candidates", "there are findings, but no attempt succeeded")
        if succeeded and succeeded[0].evidence:
            self._compare_evidence(name, line, review, succeeded[0].evidence.get("findings"))

    def _compare_evidence(self, name: str, line: int, review: ReviewRecord, digest: Any) -> None:
        """The findings against the file that the agent left: how many, their texts and lines."""
        path = f"evidence/{digest[:2]}/{digest}" if isinstance(digest, str) else ""
        if path not in self._archive.members:
            return
        document = load_json(self._archive.read(path, _MAX_FINDINGS_BYTES), path)
        listed = document.get("findings") if isinstance(document, dict) else None
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise InputError("this is no findings file, although its attempt succeeded", where=Where(file=path))
        self._compare(name, line, "candidates", len(review.candidates), len(listed), "the evidence has another number")
        for place, (candidate, found) in enumerate(zip(review.candidates, listed, strict=False)):
            for axis in ("message", "start_line", "end_line"):
                self._compare(
                    name,
                    line,
                    f"candidates[{place}].finding.{axis}",
                    getattr(candidate.finding, axis),
                    found.get(axis),
                    "the finding is not what the agent's own file says",
                )

    # -- judgments and rows --------------------------------------------------------------------------------------------

    def _row(self, judge: JudgeRecord, build_id: str, scorable: Sequence[str]) -> dict[str, Any]:
        build = self._builds[build_id]
        identity = RowIdentity.of_build(
            build,
            corpus_fingerprint=self._corpus.fingerprint,
            protocol=self._rules.name,
            judge=judge.judge_id,
        )
        trials: list[ArchivedTrial] = []
        for number in self._rounds[build_id]:
            trials += self._trials(judge, build, identity, number)
            self._check_calls(f"calls/{judge.judge_id}/{build_id}/round-{number}.jsonl")
        return row_json(self._rules, build, identity, judge.name, trials, scorable)

    def _trials(
        self, judge: JudgeRecord, build: AgentBuild, identity: RowIdentity, number: int
    ) -> Iterator[ArchivedTrial]:
        name = f"judgments/{judge.judge_id}/{build.build_id}/round-{number}.jsonl"
        self._named.add(name)
        reviews = self._reviews(build.build_id, number)
        line = 0
        # Not zipped: both are read lazily from one file, and the shorter one has to be named.
        for line, judgment in list(read_lines(self._archive, name, JudgmentRecord)):
            review = next(reviews, (0, None))[1]
            if review is None or review.pull_request != judgment.pull_request:
                expected = "no more" if review is None else review.pull_request
                raise InputError(
                    f"the judgment is of {judgment.pull_request[:80]!r}, the reviews have {expected} here",
                    where=self._archive.at(name, line, "pull_request"),
                )
            trial = self._trial(name, line, review, judgment, number)
            self._verification.judgments += trial.judged is not None
            try:
                claims = None if trial.judged is None else claims_json(self._rules.name, trial.judged)
                metrics = trial_metrics(self._rules, build, identity, judge.name, trial)
            except CrbError as error:
                where = error.where.field if error.where else None
                raise InputError(error.problem, where=self._archive.at(name, line, where)) from None
            self._compare(name, line, "claims", judgment.claims, claims)
            self._compare(name, line, "metrics", judgment.metrics, metrics)
            yield trial
        if next(reviews, None) is not None:
            raise InputError(
                "there are fewer judgments than reviews of this round", where=self._archive.at(name, line or None)
            )

    def _trial(
        self, name: str, line: int, review: ReviewRecord, judgment: JudgmentRecord, number: int
    ) -> ArchivedTrial:
        if judgment.problem is None and not any(each.outcome == Outcome.SUCCEEDED.value for each in review.attempts):
            self._add(name, line, "problem", "the trial is scored, but no attempt succeeded")
        document = judgment.document or {}
        try:
            if document.get("recorded") is not None and judgment.problem is None:
                lists = {field: document["recorded"].get(field) for field in _RecordedLists.model_fields}
                if self._rules.name == "golden-comments" and None not in lists.values():
                    _RecordedLists.model_validate(lists, strict=True)
            _Open.model_validate(
                {field: document[field] for field in _Open.model_fields if field in document}, strict=True
            )
        except ValidationError as error:
            field, problem = first_problem(error)
            raise InputError(problem, where=self._archive.at(name, line, f"document.{field}")) from None
        except AttributeError:
            raise InputError(
                "the recorded evaluation is no object", where=self._archive.at(name, line, "document.recorded")
            ) from None
        for key in document.get("golden_categories", {}):
            if not key.isdecimal():
                raise InputError(
                    f"{key[:40]!r} is no position", where=self._archive.at(name, line, "document.golden_categories")
                )
        return trial_of(review, judgment, self._entries[review.pull_request], number, self._corpus)

    def _check_calls(self, name: str) -> None:
        if name not in self._archive.members:
            return
        self._named.add(name)
        for line, call in read_lines(self._archive, name, CallRecord):
            if call.pull_request not in self._entries:
                self._add(name, line, "pull_request", "the corpus has no such pull request")
            self._digests |= evidence_digests([call.request_digest, call.answer_digest])
            request = f"evidence/{call.request_digest[:2]}/{call.request_digest}"
            if request in self._archive.members:
                self._digests |= parts_of(self._archive.read(request, _MAX_REQUEST_BYTES))

    def _compare_results(self, name: str, judge: JudgeRecord, rows: Sequence[dict[str, Any]]) -> None:
        stored = load_json(self._archive.read(name, _MAX_RESULT_BYTES), name)
        expected = {"judge": judge.judge_id, "name": judge.name, "rows": ranked(self._rules.name, rows)}
        self._compare(name, None, "", stored, expected)

    def _compare(
        self,
        file: str,
        line: int | None,
        at: str,
        stored: Any,
        recomputed: Any,
        problem: str = "the stored value is not what the definitions give",
    ) -> None:
        self._verification.numbers += _leaves(recomputed)
        root = (at,) if at else ()
        for parts, mine, other in differences(stored, recomputed):
            # ``at`` is a path of its own already, so it is not quoted as one name.
            inner = field_path(parts)
            place = ".".join(part for part in (*root, inner) if part).replace(".[", "[")
            self._verification.differs(file, problem, mine, other, line=line, at=place or None)

    def _add(self, file: str, line: int, at: str, problem: str) -> None:
        self._verification.add(Difference(file=file, line=line, field=at, problem=problem))


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    if isinstance(value, list):
        return sum(map(_leaves, value))
    return 1
