"""What operators send to the API, and what it answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from crb_core.agent import Outcome
from crb_core.store.tables import Stage
from crb_web.models import Answer

__all__ = [
    "MAX_TRIALS",
    "AgentRequest",
    "LimitsRequest",
    "OperationAnswer",
    "OperationsAnswer",
    "ProgressAnswer",
    "ReasonRequest",
    "RefusedAnswer",
    "RetriedAnswer",
    "RetryRequest",
    "TrialReasonRequest",
]

#: Trials that one request may name.
MAX_TRIALS = 1000

Agent = Annotated[str | None, Field(min_length=1, max_length=200, description="Only this agent's builds.")]
Why = Annotated[str | None, Field(max_length=1000, description="Why, for those who see it.")]


class OperationRequest(BaseModel):
    """Strict: a number is no text, and a field that does not exist is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AgentRequest(OperationRequest):
    agent: Agent = None


class ReasonRequest(AgentRequest):
    reason: Why = None


class TrialReasonRequest(OperationRequest):
    reason: Why = None


class LimitsRequest(AgentRequest):
    """What is left out stays as it is. Of an agent only the concurrency can be set."""

    priority: int = Field(default=0, description="Higher goes first.")
    weight: float = Field(default=1.0, description="Share against other sweeps of its priority.")
    concurrency: int | None = Field(default=None, description="Reviews at once; null takes the limit away.")


class RetryRequest(AgentRequest):
    """Which trials: every given field must hold; ``failed`` and ``cancelled`` together mean either."""

    trials: list[int] = Field(default_factory=list, max_length=MAX_TRIALS)
    pull_request: str | None = Field(default=None, max_length=200)
    round: int | None = Field(default=None, ge=1, le=1000)
    outcome: Outcome | None = Field(default=None, strict=False, description="Of the last attempt.")
    failed: bool = False
    cancelled: bool = False
    stages: list[Annotated[Stage, Field(strict=False)]] = Field(default_factory=list, max_length=len(Stage))


class OperationAnswer(Answer):
    id: int | None = Field(description="Null where nothing was to be changed.")
    at: str
    actor: str = Field(description="Name of the access token, or `command line`.")
    action: str
    sweep_id: str | None
    sweep: str | None
    agent: str | None
    trials: list[int]
    worker: str | None
    reason: str | None
    steps: int = Field(description="Steps that ended or wait again by it.")
    running: int = Field(description="Running steps that were asked to stop, or are not asked any more.")
    before: dict[str, Any]
    after: dict[str, Any]


class OperationsAnswer(Answer):
    operations: list[OperationAnswer]


class RefusedAnswer(Answer):
    sweep_id: str
    sweep: str
    build: str
    agent: str
    trials: list[int]
    reason: str


class RetriedAnswer(OperationsAnswer):
    refused: list[RefusedAnswer] = Field(description="Trials that stay as they are: their agent is another build now.")
    notes: list[str] = Field(description="What could not be compared with the sweep's builds.")


class ProgressAnswer(Answer):
    """What ``crb sweep watch --json`` prints."""

    sweep_id: str
    name: str
    state: str
    trials: int
    ended: int
    finished: bool
    by_state: dict[str, int]
    by_agent: dict[str, dict[str, int]]
    at: str
    finish_at: str | None
    rate: dict[str, Any] | None
    estimate: dict[str, Any]
    heat_map: dict[str, Any]
    failure_groups: list[dict[str, Any]]
    workers: list[dict[str, Any]]
