"""What the API answers. Fields may be added in this version, none is removed or changes its meaning."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Board",
    "BoardRow",
    "BoardsAnswer",
    "DimensionsAnswer",
    "ErrorAnswer",
    "Judge",
    "JudgesAnswer",
    "Metric",
    "PicturesAnswer",
    "PullRequestAnswer",
    "Sweep",
    "SweepDetail",
    "SweepsAnswer",
    "TrialAnswer",
]


class Answer(BaseModel):
    """Anything that is answered. Null is undefined or not known, never 0."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Problem(Answer):
    status: int
    problem: str = Field(description="One sentence.")
    field: str | None = Field(description="The parameter that is wrong.")
    remedy: str | None


class ErrorAnswer(Answer):
    error: Problem


class Sweep(Answer):
    id: str
    name: str
    corpus: str
    corpus_version: str
    corpus_fingerprint: str
    protocol: str
    rounds: int
    state: str
    created_at: str = Field(description="UTC, ISO 8601.")
    trials: int = Field(description="Planned: agent builds x pull requests x rounds.")


class SweepsAnswer(Answer):
    sweeps: list[Sweep]


class Build(Answer):
    build: str
    agent: str
    kind: str
    runner: str


class SweepDetail(Sweep):
    builds: list[Build]
    pull_requests: list[str] = Field(description="Keys, in the order of the corpus.")


class Judge(Answer):
    name: str
    fingerprint: str
    classifies: bool = Field(description="Whether it labels what matches no golden finding.")
    council: list[str] | None = Field(
        default=None, description="Fingerprints of the judges whose votes a council counts; null for other judges."
    )
    calibration: dict[str, Any] | None = Field(default=None, description="Null where it is uncalibrated.")


class JudgesAnswer(Answer):
    judges: list[Judge]


class Metric(Answer):
    mean: float | None = Field(description="Mean of the rounds' values.")
    std: float | None = Field(description="Their sample standard deviation; null under two rounds.")
    rounds: list[float | None]
    reason: str | None = Field(description="Why the mean is null.")


class FailedCharges(Answer):
    """What attempts that did not succeed used, in every round of the row; no other figure counts it."""

    attempts: int
    silent: int = Field(description="Attempts that reported nothing: what they used is not known.")
    total_tokens: float | None = Field(description="Of those that named a total.")
    tokens_reported: int = Field(description="How many did.")
    total_usd: float | None = Field(description="Observed charges, in US dollars, of ``charged`` of them.")
    charged: int
    without_evidence: int = Field(description="Attempts that state an amount without evidence; it counts nowhere.")


class Charge(Answer):
    """Observed charges, in US dollars, of the scored reviews that a row averages; a list price is none."""

    mean_usd: float | None = Field(description="Of a review; null unless every review's charge was observed.")
    total_usd: float | None = Field(description="Of the observed ones.")
    observed: int
    reviews: int
    without_evidence: int = Field(description="Reviews that state an amount without evidence; it counts nowhere.")
    reason: str | None = Field(description="Why there is no mean.")
    failed_attempts: FailedCharges


class BoardRow(Answer):
    """A row of a protocol with claims has ``macro`` and ``micro``; one of golden-comments ``tp``, ``fp``, ``fn``."""

    agent: str
    build: str
    rank: int | None
    ranked: bool
    letters: str | None = Field(description="Rows that share a letter cannot be told apart.")
    marks: list[str]
    charge: Charge
    macro: dict[str, Metric] | None = None
    micro: dict[str, Metric] | None = None


class Board(Answer):
    """``crb.leaderboard/1`` as ``crb leaderboard --json`` prints it."""

    format: str
    sweep: str
    sweep_id: str
    corpus: str
    corpus_fingerprint: str
    protocol: str
    beta: float
    subset: dict[str, list[str]]
    dimensions: dict[str, list[str]] = Field(description="Which pull requests count; empty where all do.")
    dimensions_computed: dict[str, int] = Field(
        default_factory=dict,
        description="Of how many pull requests a dimension that restricts was computed from the diff.",
    )
    sort: str
    rows: list[BoardRow]


class BoardsAnswer(Answer):
    leaderboards: list[Board]


class Picture(Answer):
    name: str
    title: str
    caption: str
    records: list[dict[str, Any]] = Field(description="What is drawn; ratios are fractions of 1.")
    absent: list[dict[str, Any]] = Field(description="Rows that are not drawn, each with the reason.")


class PicturesOfJudge(Answer):
    judge: Judge
    pictures: list[Picture]


class PicturesAnswer(Answer):
    leaderboards: list[PicturesOfJudge]


class DimensionsAnswer(Answer):
    pull_requests: int
    dimensions: dict[str, dict[str, int]] = Field(description="How many pull requests have each value.")
    computed: dict[str, int] = Field(
        description="Of how many pull requests a dimension was computed from the diff, since the corpus lacks it."
    )


class Golden(Answer):
    position: int
    finding_id: str
    file: str | None
    start_line: int | None
    end_line: int | None
    message: str
    producer: str
    label: dict[str, Any]


class Match(Answer):
    golden: int
    probability: float | None
    reasoning: str | None


class JudgedFinding(Answer):
    position: int
    file: str | None
    start_line: int | None
    end_line: int | None
    message: str
    in_diff: bool | None
    state: str = Field(
        description="matched, intended, novel, false positive, unclassified, unmatched (golden-comments) or not judged."
    )
    claims: int | None = Field(description="The golden finding that it consumes.")
    matches: list[Match]
    label: dict[str, Any] | None


class Coverage(Answer):
    position: int
    covered: bool | None = Field(description="Null where the trial is not judged.")
    by: list[int]


class JudgedTrial(Answer):
    trial: int
    agent: str
    build: str
    round: int
    outcome: str | None
    review_ms: float | None
    evidence: dict[str, Any] = Field(description="SHA-256 by name.")
    scored: bool
    problem: str | None
    candidates: list[JudgedFinding]
    golden: list[Coverage]


class PullRequestAnswer(Answer):
    sweep: str
    sweep_id: str
    judge: Judge
    protocol: str
    pull_request: dict[str, Any]
    golden: list[Golden]
    trials: list[JudgedTrial]


class TrialAnswer(Answer):
    trial: int
    sweep: str
    sweep_id: str
    pull_request: str
    agent: str
    build: str
    round: int
    identity: dict[str, Any] = Field(description="The ten fields that trials must share to be combined.")
    identity_sha256: str
    steps: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    judgments: list[dict[str, Any]]
    calls: list[dict[str, Any]]
