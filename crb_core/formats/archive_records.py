"""What the files of ``crb.archive/1`` hold: one record a file or a line.

    README.md                              what this is and how to check it
    sweep.json                             the sweep, how its numbers were aggregated          SweepRecord
    corpus.json                            the corpus: producers, subsets, imports             CorpusRecord
    pull_requests.jsonl                    base, head, golden findings with label provenance   PullRequestRecord
    builds.jsonl                           agent builds with configuration                     BuildRecord
    judges.jsonl, prompts/*.md             matchers and classifiers: version, prompts          JudgeRecord
    reviews/BUILD/round-N.jsonl            attempts and findings of every trial                ReviewRecord
    judgments/JUDGE/BUILD/round-N.jsonl    matches, labels, claims and metrics                 JudgmentRecord
    calls/JUDGE/BUILD/round-N.jsonl        calls of the judge's model                          CallRecord
    results/JUDGE.json                     rounds and rows                                     crb_core.archive_results
    evidence.jsonl, evidence/AA/SHA256     what attempts, judges and imports left              EvidenceRecord
    manifest.json                          size and SHA-256 of every file

Trials are named by build, round and pull request; ids of the exporting store occur nowhere. When something was imported
says nothing of it, so such times are null: a sweep of imported reviews gives the same archive from every store. What
the farm ran itself has its times and durations, which no two runs share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from crb_core.agent import AgentBuild
from crb_core.corpus import CorpusName, Producer
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, NonBlank, Record
from crb_core.formats.archive_tar import MAX_JSON_BYTES, MAX_LINE_BYTES, ArchiveReader
from crb_core.formats.strict_json import field_path, load_json
from crb_core.matching import Classification, Correspondence
from crb_core.pull_request import PullRequest

__all__ = [
    "README",
    "Aggregation",
    "ArchivedAttempt",
    "ArchivedCandidate",
    "ArchivedGolden",
    "ArchivedMatch",
    "BuildRecord",
    "CallRecord",
    "CorpusRecord",
    "EvidenceRecord",
    "JudgeRecord",
    "JudgmentRecord",
    "ManifestRecord",
    "PromptRecord",
    "PullRequestRecord",
    "ReviewRecord",
    "SweepRecord",
    "read_document",
    "read_lines",
]

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
BuildId = Annotated[str, StringConstraints(pattern=r"^b-[0-9a-f]{12}$")]
JudgeId = Annotated[str, StringConstraints(pattern=r"^j-[0-9a-f]{12}$")]
Count = Annotated[int, Field(ge=0)]


class ManifestFile(Record):
    path: str
    bytes: Count
    sha256: Sha256


class ManifestRecord(Record):
    """``manifest.json``."""

    format: Literal["crb.archive/1"]
    content_sha256: Sha256
    files: tuple[ManifestFile, ...]


class Aggregation(Record):
    """How the numbers were made (seed A 9, item 7). ``profile`` belongs to golden-comments."""

    levels: tuple[str, ...] = ("macro", "micro")
    beta: float = 1.0
    headline: str
    rounds: str = "mean of the complete rounds' values, each weighted equally, and sample standard deviation"
    duration: str = "mean of the rounds' mean review_ms and sample standard deviation; fallback duration_seconds x 1000"
    profile: str | None = None


class JudgedBuilds(Record):
    """A judge and the builds that it judges, in the sweep's order."""

    judge: JudgeId
    builds: tuple[BuildId, ...]


class SweepRecord(Record):
    """``sweep.json``. ``rounds`` are those planned; ``builds`` and ``judges`` are in the order of the tables."""

    format: Literal["crb.archive/1"] = "crb.archive/1"
    name: NonBlank
    created_at: str | None
    state: str
    crb_version: str
    harness: str
    corpus: CorpusName
    corpus_fingerprint: Sha256
    protocol: str
    rounds: Count
    builds: tuple[BuildId, ...]
    judges: tuple[JudgedBuilds, ...]
    aggregation: Aggregation


class CorpusRecord(Record):
    """``corpus.json``: a corpus without its entries. ``imports`` say which files it was read from."""

    name: CorpusName
    version: NonBlank
    title: NonBlank
    description: str
    protocol: str
    source: Literal["showcase", "mirror", "git", "none"]
    producers: tuple[Producer, ...]
    subsets: dict[str, tuple[str, ...]]
    fingerprint: Sha256
    imported_at: str | None
    imports: tuple[dict[str, Any], ...] = ()
    #: What was imported into the sweep itself.
    sweep_imports: tuple[dict[str, Any], ...] = ()


class ArchivedGolden(Record):
    """A golden finding under the id that a dispute cites."""

    finding_id: str
    finding: GoldenFinding


class PullRequestRecord(Record):
    """One line of ``pull_requests.jsonl``, in corpus order."""

    model_config = ConfigDict(serialize_by_alias=True)

    pull_request: PullRequest
    answer_key_fingerprint: Sha256
    golden: tuple[ArchivedGolden, ...]


class BuildRecord(Record):
    """One line of ``builds.jsonl``: what was measured."""

    build_id: BuildId
    configuration_fingerprint: Sha256
    build: AgentBuild


class PromptRecord(Record):
    """A prompt of a judge. ``path`` is null where its text of that digest was not at hand at export."""

    name: str
    version: int | None
    sha256: Sha256
    path: str | None


class JudgeRecord(Record):
    """One line of ``judges.jsonl``. ``description`` is everything that decides an answer; ``judge_id`` is over it."""

    judge_id: JudgeId
    name: str
    classifies: bool
    description: dict[str, Any]
    prompts: tuple[PromptRecord, ...] = ()


class ArchivedAttempt(Record):
    """One attempt of a trial, also one that failed. Hosts are numbered in the order in which they occur."""

    number: Annotated[int, Field(ge=1)]
    outcome: str | None
    detail: str | None
    started_at: str | None
    finished_at: str | None
    review_ms: float | None
    duration_seconds: float | None
    engine_ms: float | None
    exit_code: int | None
    image_id: str | None
    host: str | None
    concurrent: int | None
    cpus: float | None
    phases_ms: dict[str, Any] | None
    usage: dict[str, Any] | None
    evidence: dict[str, Any] | None
    source: dict[str, Any] | None


class ArchivedCandidate(Record):
    """A candidate finding with what an import says beyond it."""

    finding: CandidateFinding
    source: dict[str, Any] | None = None


class ReviewRecord(Record):
    """One line of ``reviews/BUILD/round-N.jsonl``: a trial. ``state`` is that of its review step."""

    pull_request: NonBlank
    trial_sha256: Sha256
    state: str
    attempts: tuple[ArchivedAttempt, ...]
    candidates: tuple[ArchivedCandidate, ...]


class ArchivedMatch(Record):
    """One raw match, kept for audit; probability and reasoning where the judge gave them."""

    candidate: Count
    golden: Count
    probability: float | None = None
    reasoning: str | None = None


class JudgmentRecord(Record):
    """One line of ``judgments/JUDGE/BUILD/round-N.jsonl``: what a judge said of a trial, and what follows from it.

    ``problem`` says why there is no score; ``claims`` and ``metrics`` are null then.
    """

    pull_request: NonBlank
    problem: str | None
    matched_at: str | None = None
    classified_at: str | None = None
    scored_at: str | None = None
    matches: tuple[ArchivedMatch, ...] = ()
    classifications: tuple[Classification, ...] = ()
    document: dict[str, Any] | None = None
    claims: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None

    def correspondences(self) -> tuple[Correspondence, ...]:
        """The matches by candidate."""
        grouped: dict[int, list[int]] = {}
        for match in self.matches:
            grouped.setdefault(match.candidate, []).append(match.golden)
        return tuple(Correspondence(candidate=one, golden=tuple(golden)) for one, golden in sorted(grouped.items()))

    def probabilities(self) -> dict[tuple[int, int], float]:
        """By (candidate, golden), where the judge gave one."""
        return {
            (each.candidate, each.golden): each.probability for each in self.matches if each.probability is not None
        }


class CallRecord(Record):
    """One line of ``calls/JUDGE/BUILD/round-N.jsonl``: a call of a judge's model. The ids' secret is not exported."""

    pull_request: NonBlank
    stage: str
    label: str
    request_hash: str
    attempt: int
    model: str
    answered_by: str | None
    outcome: str | None
    detail: str | None
    http_status: int | None
    stop_reason: str | None
    request_digest: str
    answer_digest: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    service_tier: str | None
    charge_usd: float | None
    list_price_usd: float | None
    price_table: str | None
    read: list[Any] | None
    started_at: str
    finished_at: str | None
    duration_ms: float | None


class EvidenceRecord(Record):
    """One line of ``evidence.jsonl``: a blob that something in the archive names.

    ``state`` is ``present``, ``missing`` (not in the evidence store any more) or ``withheld`` (it names a folder of
    the exporting machine, or holds a secret).
    """

    sha256: Sha256
    state: Literal["present", "missing", "withheld"]
    bytes: Count | None


R = TypeVar("R", bound=BaseModel)

#: Deeper than what crb reads from outside, because an archived record wraps such data.
_MAX_DEPTH = 128


def read_document(archive: ArchiveReader, path: str, model: type[R], max_bytes: int = MAX_JSON_BYTES) -> R:
    """A JSON document of an archive as its record; InputError with file and field."""
    return _record(archive, path, None, archive.read(path, max_bytes), model, max_bytes)


def read_lines(archive: ArchiveReader, path: str, model: type[R]) -> Iterator[tuple[int, R]]:
    """Line number and record of every line; InputError with file, line and field."""
    for number, line in archive.lines(path):
        yield number, _record(archive, path, number, line, model, MAX_LINE_BYTES)


def _record(archive: ArchiveReader, path: str, line: int | None, data: bytes, model: type[R], max_bytes: int) -> R:
    try:
        value = load_json(data, path, max_bytes=max_bytes, max_depth=_MAX_DEPTH)
    except InputError as error:
        inner = error.where
        raise InputError(
            error.problem,
            where=archive.at(path, line or (inner.line if inner else None), inner.field if inner else None),
            remedy=error.remedy,
        ) from None
    try:
        return model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        message = problem["msg"].removeprefix("Value error, ")
        raise InputError(
            f"the record is wrong: {message[:1].lower()}{message[1:]}",
            where=archive.at(path, line, field_path(problem["loc"]) or None),
            remedy="The archive was changed after it was written",
        ) from None


#: The archive's own description, for people.
README = """\
# A sweep of crb, archived

Format crb.archive/1. Everything that the sweep's numbers are made from, and the numbers. `crb verify FILE` checks the
SHA-256 of every file and makes every number again, without a store, a judge or a network.

| file | what it holds |
|---|---|
| `sweep.json` | the sweep, and how its numbers were aggregated |
| `corpus.json` | the corpus: producers with version and configuration, subsets, imports |
| `pull_requests.jsonl` | pull requests with base and head; golden findings with label, severity and provenance |
| `builds.jsonl` | agent builds: version, configuration, limits, models |
| `judges.jsonl`, `prompts/` | matchers and classifiers: version, thresholds, prompts |
| `reviews/BUILD/round-N.jsonl` | every attempt, also failed ones, and the findings |
| `judgments/JUDGE/BUILD/round-N.jsonl` | matches, labels, claims and metrics of every trial |
| `calls/JUDGE/BUILD/round-N.jsonl` | calls of a judge's model, with usage |
| `results/JUDGE.json` | metrics of every round; rows with mean, standard deviation and duration |
| `evidence.jsonl`, `evidence/` | what attempts, judges and imports left behind, by SHA-256 |
| `manifest.json` | size and SHA-256 of every file |

A `.jsonl` file has one JSON object a line, one pull request each unless said otherwise. Positions count from 0. null is
"not measured" or "undefined", never 0. Times are UTC, durations in milliseconds.
"""
