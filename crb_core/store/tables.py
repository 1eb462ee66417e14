"""The tables. SQLModel tables do not validate: write only through functions that take frozen records.

Times are UTC, ISO 8601 text in columns named ``*_at``; durations are milliseconds in columns named ``*_ms``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, Column, Index, Table, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

__all__ = [
    "AccessTokenRow",
    "AgentBuildRow",
    "AttemptRow",
    "CalibrationRow",
    "CandidateRow",
    "ClassificationRow",
    "ContentChangeRow",
    "CorpusRow",
    "CorrespondenceRow",
    "GoldenRow",
    "ImportRow",
    "JudgeCallRow",
    "JudgeRow",
    "JudgmentRow",
    "OperatorActionRow",
    "PullRequestRow",
    "ScoreRow",
    "Stage",
    "StepRow",
    "StepState",
    "SweepBuildRow",
    "SweepJudgeRow",
    "SweepRow",
    "SweepState",
    "TrialRow",
    "WorkerRow",
    "core",
]


class Stage(StrEnum):
    """What a step does; also the name of its queue."""

    REVIEW = "review"
    MATCH = "match"
    CLASSIFY = "classify"
    SCORE = "score"


class StepState(StrEnum):
    """Where a step is. Transitions are database updates that name the state they leave (see steps.py)."""

    #: May be dispatched once ``not_before`` has passed.
    READY = "ready"
    #: Published to the broker, not yet taken.
    QUEUED = "queued"
    #: Held by a worker that raises its beat.
    RUNNING = "running"
    DONE = "done"
    #: Out of attempts, or an error that another attempt cannot mend.
    FAILED = "failed"
    CANCELLED = "cancelled"


class SweepState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    CANCELLED = "cancelled"


def _json() -> Any:
    return Column(JSON, nullable=False)


def _optional_json() -> Any:
    return Column(JSON(none_as_null=True), nullable=True)


class CorpusRow(SQLModel, table=True):
    __tablename__ = "corpus"
    __table_args__ = (UniqueConstraint("name", "fingerprint"),)
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(index=True)
    fingerprint: str
    version: str
    title: str
    protocol: str
    #: Everything of the corpus but its entries.
    document: dict[str, Any] = Field(sa_column=_json())
    imported_at: str


class PullRequestRow(SQLModel, table=True):
    __tablename__ = "pull_request"
    __table_args__ = (UniqueConstraint("corpus_id", "key"), UniqueConstraint("corpus_id", "position"))
    id: int | None = Field(default=None, primary_key=True)
    corpus_id: int = Field(foreign_key="corpus.id")
    position: int
    key: str
    answer_key_fingerprint: str
    document: dict[str, Any] = Field(sa_column=_json())


class GoldenRow(SQLModel, table=True):
    __tablename__ = "golden_finding"
    __table_args__ = (UniqueConstraint("pull_request_id", "position"),)
    id: int | None = Field(default=None, primary_key=True)
    pull_request_id: int = Field(foreign_key="pull_request.id")
    position: int
    finding_id: str = Field(index=True)
    document: dict[str, Any] = Field(sa_column=_json())


class AgentBuildRow(SQLModel, table=True):
    __tablename__ = "agent_build"
    id: str = Field(primary_key=True)
    agent: str
    kind: str
    runner: str
    document: dict[str, Any] = Field(sa_column=_json())
    created_at: str


class SweepRow(SQLModel, table=True):
    __tablename__ = "sweep"
    id: str = Field(primary_key=True)
    name: str = Field(index=True, unique=True)
    corpus_id: int = Field(foreign_key="corpus.id")
    rounds: int
    priority: int
    state: str
    #: Why it is paused, for people; null where nobody gave a reason.
    paused_reason: str | None = Field(default=None, sa_column=Column(Text))
    #: List price in USD that its judges' calls may reach; null is no limit.
    max_cost_usd: float | None = None
    #: Its share of the slots against other sweeps of its priority: twice the weight, twice the steps in flight.
    weight: float = Field(default=1.0, sa_column_kwargs={"server_default": "1.0"})
    #: Reviews of this sweep at once; null is no limit of its own.
    concurrency: int | None = None
    #: How snapshots of this sweep are made: source and its folder or template.
    snapshot_source: dict[str, Any] = Field(sa_column=_json())
    created_at: str


class SweepBuildRow(SQLModel, table=True):
    __tablename__ = "sweep_build"
    sweep_id: str = Field(foreign_key="sweep.id", primary_key=True)
    build_id: str = Field(foreign_key="agent_build.id", primary_key=True)
    paused: bool = False
    #: Why it is paused, for people.
    paused_reason: str | None = Field(default=None, sa_column=Column(Text))
    #: Reviews of this build at once; null is no limit of its own.
    concurrency: int | None = None
    #: What the agent was loaded from: name of a bundled one, or path of its folder or manifest; null if unknown.
    agent_source: str | None = Field(default=None, sa_column=Column(Text))


class JudgeRow(SQLModel, table=True):
    __tablename__ = "judge"
    id: str = Field(primary_key=True)
    name: str
    classifies: bool
    document: dict[str, Any] = Field(sa_column=_json())


class SweepJudgeRow(SQLModel, table=True):
    """Which judges judge the trials of a build in a sweep."""

    __tablename__ = "sweep_judge"
    sweep_id: str = Field(foreign_key="sweep.id", primary_key=True)
    build_id: str = Field(foreign_key="agent_build.id", primary_key=True)
    judge_id: str = Field(foreign_key="judge.id", primary_key=True)
    position: int


class TrialRow(SQLModel, table=True):
    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("sweep_id", "build_id", "pull_request_id", "round"),)
    id: int | None = Field(default=None, primary_key=True)
    sweep_id: str = Field(foreign_key="sweep.id")
    build_id: str = Field(foreign_key="agent_build.id")
    pull_request_id: int = Field(foreign_key="pull_request.id")
    round: int


class StepRow(SQLModel, table=True):
    __tablename__ = "step"
    __table_args__ = (
        UniqueConstraint("trial_id", "stage", "judge_id"),
        Index("step_ready", "stage", "state", "sweep_id", "build_id", "position"),
        Index("step_state", "state", "stage"),
    )
    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id", index=True)
    #: Empty for a review, so that the unique constraint holds for it too.
    judge_id: str = ""
    stage: str
    sweep_id: str
    build_id: str
    priority: int
    position: int
    state: str
    #: Seconds since the epoch before which the step is not dispatched.
    not_before: float | None = None
    published_at: float | None = None
    worker: str | None = None
    fence: int = 0
    beat: int = 0
    cancel_requested: bool = False
    #: Attempts made before the last manual retry; the attempt limits count from there.
    attempts_before: int = 0
    #: How often it was given back because its worker's beat had stopped.
    losses: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    #: Judge steps that are done: milliseconds in the queue before the last take, and from that take to the end. A
    #: review's are in its attempt.
    queue_ms: float | None = None
    work_ms: float | None = None
    reason: str | None = Field(default=None, sa_column=Column(Text))


class AttemptRow(SQLModel, table=True):
    __tablename__ = "attempt"
    __table_args__ = (
        UniqueConstraint("trial_id", "number"),
        Index(
            "attempt_one_open",
            "trial_id",
            unique=True,
            sqlite_where=text("outcome IS NULL"),
            postgresql_where=text("outcome IS NULL"),
        ),
        Index(
            "attempt_one_succeeded",
            "trial_id",
            unique=True,
            sqlite_where=text("outcome = 'succeeded'"),
            postgresql_where=text("outcome = 'succeeded'"),
        ),
    )
    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id")
    number: int
    #: Label of the attempt's container, volumes and folder.
    tag: str
    worker: str
    outcome: str | None = None
    detail: str | None = Field(default=None, sa_column=Column(Text))
    started_at: str
    finished_at: str | None = None
    review_ms: float | None = None
    engine_ms: float | None = None
    exit_code: int | None = None
    image_id: str | None = None
    host: str | None = None
    concurrent: int | None = None
    cpus: float | None = None
    #: Cores of the host; where concurrent x cpus is more, the containers shared them.
    cores: int | None = None
    phases_ms: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    usage: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    #: Evidence digests by name: findings, stdout, stderr.
    evidence: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    #: Hosts that the egress proxy refused this attempt: host, port, why, count. Null where there was no proxy.
    refused_hosts: list[Any] | None = Field(default=None, sa_column=_optional_json())
    #: Legacy duration of an imported review in seconds; it includes retries (rule 16).
    duration_seconds: float | None = None
    #: Imported reviews: what the source records of the review beyond the columns, and the digest of its content.
    source: dict[str, Any] | None = Field(default=None, sa_column=_optional_json())


class CandidateRow(SQLModel, table=True):
    __tablename__ = "candidate_finding"
    trial_id: int = Field(foreign_key="trial.id", primary_key=True)
    position: int = Field(primary_key=True)
    file: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    message: str = Field(sa_column=Column(Text, nullable=False))
    producer: str
    in_diff: bool | None = None
    #: What an imported review records of the finding beyond the columns: rule, severity, further places.
    source: dict[str, Any] | None = Field(default=None, sa_column=_optional_json())


class JudgmentRow(SQLModel, table=True):
    __tablename__ = "judgment"
    __table_args__ = (UniqueConstraint("trial_id", "judge_id"),)
    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id")
    judge_id: str = Field(foreign_key="judge.id")
    matched_at: str | None = None
    classified_at: str | None = None
    scored_at: str | None = None
    #: Imported judgments: the record as it was imported, and what it leaves open (crb_core/store/imports.py).
    document: dict[str, Any] | None = Field(default=None, sa_column=_optional_json())


class JudgeCallRow(SQLModel, table=True):
    """One call of a judge's model, also one that failed. ``outcome`` is null while it is under way or if it was lost.

    Tokens are what the answer reported and null where it reported none. ``list_price_usd`` is an estimate from a dated
    price table; ``charge_usd`` is what the service itself said it charged (rule 21).
    """

    __tablename__ = "judge_call"
    __table_args__ = (Index("judge_call_request", "judge_id", "request_hash"),)
    id: int | None = Field(default=None, primary_key=True)
    #: Null for a call that belongs to no trial (calibration).
    trial_id: int | None = Field(default=None, foreign_key="trial.id", index=True)
    judge_id: str
    stage: str
    #: What is asked, for people: stage, file, positions.
    label: str = Field(sa_column=Column(Text, nullable=False))
    request_hash: str
    #: Secret that the ids of this judgment are derived with (hex).
    secret: str
    attempt: int
    model: str
    answered_by: str | None = None
    outcome: str | None = None
    detail: str | None = Field(default=None, sa_column=Column(Text))
    http_status: int | None = None
    stop_reason: str | None = None
    #: Evidence digests.
    request_digest: str
    answer_digest: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    service_tier: str | None = None
    charge_usd: float | None = None
    list_price_usd: float | None = None
    price_table: str | None = None
    #: Most that the call can cost by list price; counts against a budget until the price is known.
    reserved_usd: float | None = None
    batch_id: str | None = Field(default=None, index=True)
    #: What the session had read when this was asked: tool, path, lines.
    read: list[Any] | None = Field(default=None, sa_column=Column(JSON))
    started_at: str
    finished_at: str | None = None
    duration_ms: float | None = None


class CalibrationRow(SQLModel, table=True):
    """How far a judge agrees with a reference. ``judge_key`` holds for every corpus (crb_core/calibration.py)."""

    __tablename__ = "calibration"
    __table_args__ = (UniqueConstraint("judge_key", "reference_sha256", "held_out"),)
    id: int | None = Field(default=None, primary_key=True)
    judge_key: str = Field(index=True)
    judge_name: str
    reference: str
    reference_sha256: str
    #: False where examples are among the figures that the judge was tuned on.
    held_out: bool
    #: ``crb.calibration/1``.
    document: dict[str, Any] = Field(sa_column=_json())
    measured_at: str


class CorrespondenceRow(SQLModel, table=True):
    __tablename__ = "correspondence"
    judgment_id: int = Field(foreign_key="judgment.id", primary_key=True)
    candidate: int = Field(primary_key=True)
    golden: int = Field(primary_key=True)
    probability: float | None = None
    reasoning: str | None = Field(default=None, sa_column=Column(Text))


class ClassificationRow(SQLModel, table=True):
    __tablename__ = "classification"
    judgment_id: int = Field(foreign_key="judgment.id", primary_key=True)
    candidate: int = Field(primary_key=True)
    document: dict[str, Any] = Field(sa_column=_json())


class ScoreRow(SQLModel, table=True):
    """The score of one judgment, kept for display; tables are always recomputed from the judgment."""

    __tablename__ = "score"
    judgment_id: int = Field(foreign_key="judgment.id", primary_key=True)
    document: dict[str, Any] = Field(sa_column=_json())


class WorkerRow(SQLModel, table=True):
    __tablename__ = "worker"
    name: str = Field(primary_key=True)
    host: str
    pid: int
    beat: int = 0
    #: Slots by queue name.
    slots: dict[str, Any] = Field(sa_column=_json())
    #: Slots by queue name that an operator asked for since; null is what it was started with.
    wanted_slots: dict[str, Any] | None = Field(default=None, sa_column=_optional_json())
    #: What it last said of itself with its beat: load, memory, disk, and why it takes no reviews.
    status: dict[str, Any] | None = Field(default=None, sa_column=_optional_json())
    started_at: str


class AccessTokenRow(SQLModel, table=True):
    """Who may change state over HTTP. The token itself is shown once and never stored."""

    __tablename__ = "access_token"
    name: str = Field(primary_key=True)
    #: ``reader`` or ``operator``.
    role: str
    #: SHA-256 of the token (hex).
    sha256: str = Field(unique=True)
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None


class OperatorActionRow(SQLModel, table=True):
    """What people did to sweeps and trials: retry, cancel, pause, resume, limits. Written with the change itself."""

    __tablename__ = "operator_action"
    id: int | None = Field(default=None, primary_key=True)
    at: str
    #: Name of the access token, or ``command line``.
    actor: str
    action: str
    sweep_id: str | None = Field(default=None, foreign_key="sweep.id", index=True)
    document: dict[str, Any] = Field(sa_column=_json())


class ContentChangeRow(SQLModel, table=True):
    """One row for each change to records that a leaderboard may already have been computed from.

    Triggers of the database write it (migration 0002), so that changes by hand are noticed too; nobody reads more than
    how many rows there are. What running sweeps add is not logged: it is counted (crb_core/store/content.py).
    """

    __tablename__ = "content_change"
    #: Random, so that writers never wait for each other.
    id: str = Field(primary_key=True)


class ImportRow(SQLModel, table=True):
    """What was imported into a corpus or a sweep: format, files with their evidence digests, irregularities."""

    __tablename__ = "import_record"
    __table_args__ = (UniqueConstraint("kind", "target", "fingerprint"),)
    id: int | None = Field(default=None, primary_key=True)
    #: ``corpus`` or ``sweep``.
    kind: str
    #: Row id of the corpus, or id of the sweep.
    target: str
    format: str
    #: SHA-256 over format, options and files: the same import again is the same row.
    fingerprint: str
    document: dict[str, Any] = Field(sa_column=_json())
    imported_at: str


def core(model: type[SQLModel]) -> Table:
    """The Core table of a model: bulk reads through Core columns take an eighth of the ORM's time (design.md)."""
    table: Table = model.__table__  # type: ignore[attr-defined]
    return table
