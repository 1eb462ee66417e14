"""``/api/v1``, what is behind the numbers: comparisons, pull requests with their diff, trials, judges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from crb_core.pull_request import PullRequest
from crb_core.store.audit_findings import pull_request_record, shown_diffs
from crb_core.store.boards import judge_json
from crb_core.store.finding_places import finding_places
from crb_core.store.judge_records import judge_document, stored_judges
from crb_core.store.pull_request_diffs import FoundDiff
from crb_core.store.trial_audit import trial_document
from crb_core.store.trial_list import trial_list
from crb_core.store.trials import TrialFilter
from crb_web.api.v1 import ERRORS, JsonAnswer, Key, SweepName, TrialId, sources_of
from crb_web.audit_models import (
    ComparisonAnswer,
    FindingPlacesAnswer,
    JudgeAnswer,
    JudgeComparisonAnswer,
    PullRequestAnswer,
    StoredJudgesAnswer,
    TrialAnswer,
    TrialsAnswer,
)
from crb_web.comparisons import Comparisons
from crb_web.errors import NotFoundError
from crb_web.inert import inert
from crb_web.query import BoardQuery
from crb_web.sources import Sources

__all__ = [
    "CompareQuery",
    "FindingId",
    "JudgeFingerprint",
    "JudgeName",
    "TrialsQuery",
    "comparisons_of",
    "finding_places_answer",
    "judge_answer",
    "pull_request_answer",
    "router",
    "trial_answer",
    "trials_answer",
]

router = APIRouter(prefix="/api/v1", responses=ERRORS)

JudgeName = Annotated[
    str | None, Query(max_length=200, description="Judge by name or fingerprint; the sweep's first by default.")
]
JudgeFingerprint = Annotated[str, Path(min_length=1, max_length=200, description="Fingerprint of a judge.")]
FindingId = Annotated[str, Path(pattern="^g-[0-9a-f]{12}$", description="Id of a golden finding.")]
#: Trials of one answer at most.
MOST_TRIALS = 5000


class CompareQuery(BoardQuery):
    """``BoardQuery`` with the builds that are compared, by agent or build id."""

    build: list[str] = Field(default_factory=list, max_length=64, description="Two to four agents or build ids.")


class TrialsQuery(BaseModel):
    """Which trials of a sweep, and which page of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: str | None = Field(
        default=None, max_length=100, description="Of the last attempt; also 'no attempt' and 'under way'."
    )
    agent: str | None = Field(default=None, max_length=200)
    pull_request: str | None = Field(default=None, max_length=200)
    round: int | None = Field(default=None, ge=1, le=1000)
    scored: Literal["yes", "no"] | None = Field(default=None, description="By every judge of its build.")
    offset: int = Field(default=0, ge=0, le=10**9)
    limit: int = Field(default=200, ge=1, le=MOST_TRIALS)

    @field_validator("outcome", "agent", "pull_request", "round", "scored", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value


def comparisons_of(request: Request) -> Comparisons:
    found: Comparisons = request.app.state.comparisons
    return found


@router.get("/compare", response_model=ComparisonAnswer)
def compare(request: Request, query: Annotated[CompareQuery, Query()]) -> Response:
    """Two to four builds on the same pull requests: paired differences, strata, and what only one of them found."""
    return JsonAnswer(comparisons_of(request).builds(query, query.build))


@router.get("/pull-requests/{sweep}/{key}", response_model=PullRequestAnswer)
def pull_request(request: Request, sweep: SweepName, key: Key, judge: JudgeName = None) -> Response:
    """A pull request with its golden findings, and every trial's findings with what a judge says of each."""
    answer, diff = pull_request_answer(sources_of(request), sweep, key, judge)
    return JsonAnswer(answer | {"diff": diff.to_json()})


def pull_request_answer(sources: Sources, sweep: str, key: str, judge: str | None) -> tuple[dict[str, Any], FoundDiff]:
    """``PullRequestAnswer`` as a dict without its diff, and the diff."""
    row = sources.sweep(sweep)
    chosen = sources.judge(row.id, judge or None)
    with sources.store().read() as connection:
        found = pull_request_record(connection, row.id, key, chosen.judge_id)
    if found is None:
        raise NotFoundError(f"The sweep {row.name} has no pull request {key}")
    diff = sources.diffs.found(PullRequest.model_validate(found["pull_request"]), found["diffs"])
    return {"sweep": row.name, "sweep_id": row.id, "judge": judge_json(chosen), **found}, diff


@router.get(
    "/pull-requests/{sweep}/{key}/diff",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/octet-stream": {}}}},
)
def pull_request_diff(request: Request, sweep: SweepName, key: Key) -> Response:
    """The diff under review, as reviewers were shown it."""
    sources = sources_of(request)
    row = sources.sweep(sweep)
    with sources.store().read() as connection:
        found = shown_diffs(connection, row.id, key)
    if found is None:
        raise NotFoundError(f"The sweep {row.name} has no pull request {key}")
    diff = sources.diffs.found(*found)
    if diff.data is None:
        raise NotFoundError(f"There is no diff of {key}: {diff.problem}")
    return inert(diff.data, "diff.patch")


@router.get("/sweeps/{sweep}/trials", response_model=TrialsAnswer)
def trials(request: Request, sweep: SweepName, query: Annotated[TrialsQuery, Query()]) -> Response:
    """The trials of a sweep with what became of them, also those without a score."""
    return JsonAnswer(trials_answer(sources_of(request), sweep, query))


def trials_answer(sources: Sources, sweep: str, query: TrialsQuery) -> dict[str, Any]:
    """``TrialsAnswer`` as a dict."""
    row = sources.sweep(sweep)
    wanted = TrialFilter(agent=query.agent, pull_request=query.pull_request, round=query.round, outcome=query.outcome)
    with sources.store().read() as connection:
        found = trial_list(connection, row.id, wanted, scored=query.scored, offset=query.offset, limit=query.limit)
    return {"sweep": row.name, "sweep_id": row.id, **found}


@router.get("/trials/{trial}", response_model=TrialAnswer)
def trial(request: Request, trial: TrialId) -> Response:
    """A trial with its identity, attempts, artifacts and their state, findings and judge calls."""
    return JsonAnswer(trial_answer(sources_of(request), trial))


def trial_answer(sources: Sources, number: int) -> dict[str, Any]:
    """``TrialAnswer`` as a dict."""
    with sources.store().read() as connection:
        found = trial_document(connection, sources.evidence, number)
    if found is None:
        raise NotFoundError(f"There is no trial {number}", remedy="`crb trial list` shows the numbers")
    return found


@router.get("/judges", response_model=StoredJudgesAnswer)
def judges_of_store(request: Request) -> Response:
    """Every judge of the store: versions, calibrations, and what is stale."""
    with sources_of(request).store().read() as connection:
        return JsonAnswer({"judges": stored_judges(connection)})


@router.get("/judges/{fingerprint}", response_model=JudgeAnswer)
def judge_of_store(request: Request, fingerprint: JudgeFingerprint) -> Response:
    """One judge with its whole calibrations and the sweeps that it judges."""
    return JsonAnswer(judge_answer(sources_of(request), fingerprint))


def judge_answer(sources: Sources, fingerprint: str) -> dict[str, Any]:
    """``JudgeAnswer`` as a dict."""
    with sources.store().read() as connection:
        found = judge_document(connection, fingerprint)
    if found is None:
        raise NotFoundError(f"There is no judge {fingerprint}", remedy="`crb judge list` shows the stored ones")
    return found


@router.get("/sweeps/{sweep}/judges/comparison", response_model=JudgeComparisonAnswer)
def compared_judges(request: Request, sweep: SweepName) -> Response:
    """The judges of a sweep side by side, and how far each pair agrees."""
    return JsonAnswer(comparisons_of(request).judges(sweep))


@router.get("/findings/{finding_id}", response_model=FindingPlacesAnswer)
def finding(request: Request, finding_id: FindingId) -> Response:
    """Where the golden finding of a cited id is."""
    return JsonAnswer(finding_places_answer(sources_of(request), finding_id))


def finding_places_answer(sources: Sources, finding_id: str) -> dict[str, Any]:
    """``FindingPlacesAnswer`` as a dict."""
    with sources.store().read() as connection:
        places = finding_places(connection, finding_id)
    if not places:
        raise NotFoundError(f"No golden finding of this store has the id {finding_id}")
    return {"finding_id": finding_id, "places": places}
