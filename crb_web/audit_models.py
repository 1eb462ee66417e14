"""What the API answers about single trials, findings, comparisons and judges. The rules of ``crb_web.models`` hold."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from crb_web.models import Answer, Judge, PullRequestAnswer, TrialAnswer

__all__ = [
    "ComparisonAnswer",
    "FindingPlacesAnswer",
    "JudgeAnswer",
    "JudgeComparisonAnswer",
    "PullRequestAnswer",
    "StoredJudgesAnswer",
    "TrialAnswer",
    "TrialsAnswer",
]


class Difference(Answer):
    metric: str
    level: str
    difference: float | None = Field(description="The first build's value minus the second one's.")
    low: float | None
    high: float | None
    p: float | None
    pull_requests: int
    rounds: list[int]
    reason: str | None


class Pair(Answer):
    one: str
    other: str
    comparisons: list[Difference]
    strata: dict[str, dict[str, list[Difference]]] = Field(description="By axis and value.")
    tokens: dict[str, Any]


class OnlyFinding(Answer):
    pull_request: str
    golden: int
    finding_id: str
    rounds: list[int]


class OnlyBuild(Answer):
    build: str
    findings: list[OnlyFinding]


class FoundBy(Answer):
    golden_tp: int
    all: int
    none: int
    only: list[OnlyBuild]


class ComparisonAnswer(Answer):
    """``crb.comparison/2`` as ``crb leaderboard compare --json`` prints it."""

    format: str
    sweep: str
    sweep_id: str
    protocol: str
    judge: Judge
    beta: float
    subset: dict[str, list[str]]
    metrics: list[str]
    builds: list[dict[str, Any]]
    pairs: list[Pair]
    pull_requests: list[dict[str, Any]]
    found_by: FoundBy


class TrialRecord(Answer):
    trial: int
    agent: str
    build: str
    pull_request: str
    round: int
    result: str = Field(description="Outcome of the last attempt; no attempt; under way.")
    attempts: int
    judges: int
    scored_by: int
    problems: list[str]


class TrialsAnswer(Answer):
    sweep: str
    sweep_id: str
    total: int
    offset: int
    outcomes: dict[str, int]
    trials: list[TrialRecord]


class StoredJudge(Answer):
    name: str
    fingerprint: str
    classifies: bool
    key: str
    models: dict[str, str]
    prompts: list[dict[str, Any]]
    judgments: int
    matches: int
    labels: int
    stale: dict[str, bool]
    calibrations: list[dict[str, Any]]


class StoredJudgesAnswer(Answer):
    judges: list[StoredJudge]


class JudgeAnswer(StoredJudge):
    """``crb.judge/1``."""

    format: str
    description: dict[str, Any]
    measured: list[dict[str, Any]] = Field(description="Whole calibrations, crb.calibration/1, the newest first.")
    sweeps: list[dict[str, Any]]


class JudgeComparisonAnswer(Answer):
    """``crb.judge-comparison/1`` as ``crb judge compare --json`` prints it."""

    format: str
    sweep_id: str
    protocol: str
    judges: list[dict[str, Any]]
    agreement: list[dict[str, Any]]


class FindingPlacesAnswer(Answer):
    finding_id: str
    places: list[dict[str, Any]]
