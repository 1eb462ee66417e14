"""``/api/v1``: a sweep's progress and what people did to it; and, where a server operates, doing it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from crb_core.errors import InputError
from crb_core.store.operations import KEEP, list_operations
from crb_core.store.trials import TrialFilter
from crb_web.api.v1 import ERRORS, JsonAnswer, SweepName, TrialId, sources_of
from crb_web.models import ErrorAnswer
from crb_web.operating import Operator
from crb_web.operation_models import (
    MAX_TRIALS,
    AgentRequest,
    LimitsRequest,
    OperationAnswer,
    OperationsAnswer,
    ProgressAnswer,
    ReasonRequest,
    RetriedAnswer,
    RetryRequest,
    TrialReasonRequest,
)
from crb_web.sweep_pages import caller_of, views_of

__all__ = ["MAX_TRIALS", "operator_of", "reading_router", "router", "who"]

_OPERATOR_ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "There is no valid token"},
    403: {"model": ErrorAnswer, "description": "The token may only read"},
    413: {"model": ErrorAnswer, "description": "The body is too long"},
    429: {"model": ErrorAnswer, "description": "Too many requests, or wrong tokens"},
}
reading_router = APIRouter(prefix="/api/v1", responses=ERRORS)
router = APIRouter(prefix="/api/v1", responses=ERRORS | _OPERATOR_ERRORS)


def operator_of(request: Request) -> Operator:
    found: Operator = request.app.state.operator
    return found


def who(request: Request) -> str:
    """Name of the operator's token; the gate lets nobody else through."""
    caller = caller_of(request)
    assert caller is not None
    assert caller.may_operate
    return caller.name


@reading_router.get("/sweeps/{sweep}/progress", response_model=ProgressAnswer)
def progress(request: Request, sweep: SweepName) -> Response:
    """A sweep as it runs: states of all trials, rate, estimate, failures, workers."""
    row = sources_of(request).sweep(sweep)
    return JsonAnswer(views_of(request).read(row.id).progress.to_json())


@reading_router.get("/sweeps/{sweep}/operations", response_model=OperationsAnswer)
def operations(request: Request, sweep: SweepName, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
    """What people did to a sweep, the newest first."""
    sources = sources_of(request)
    row = sources.sweep(sweep)
    with sources.store().read() as connection:
        found = list_operations(connection, sweep_id=row.id, limit=limit)
    return JsonAnswer({"operations": [each.to_json() for each in found]})


@router.post("/sweeps/{sweep}/pause", response_model=OperationAnswer)
def pause(request: Request, sweep: SweepName, body: ReasonRequest) -> Response:
    """Take no more steps of a sweep, or of one agent in it; what runs may end."""
    done = operator_of(request).pause(sweep, actor=who(request), agent=body.agent, reason=body.reason)
    return JsonAnswer(done.to_json())


@router.post("/sweeps/{sweep}/resume", response_model=OperationAnswer)
def resume(request: Request, sweep: SweepName, body: AgentRequest) -> Response:
    """Go on with a paused or cancelled sweep, or with one agent in it."""
    return JsonAnswer(operator_of(request).resume(sweep, actor=who(request), agent=body.agent).to_json())


@router.post("/sweeps/{sweep}/cancel", response_model=OperationAnswer)
def cancel(request: Request, sweep: SweepName, body: ReasonRequest) -> Response:
    """End a sweep, or one agent's trials in it: what waits is cancelled, what runs is asked to stop."""
    done = operator_of(request).cancel(sweep, actor=who(request), agent=body.agent, reason=body.reason)
    return JsonAnswer(done.to_json())


@router.post("/sweeps/{sweep}/limits", response_model=OperationAnswer)
def limits(request: Request, sweep: SweepName, body: LimitsRequest) -> Response:
    """Change a sweep's priority, weight or concurrency, or one agent's concurrency."""
    given = body.model_fields_set
    done = operator_of(request).set_limits(
        sweep,
        actor=who(request),
        agent=body.agent,
        priority=body.priority if "priority" in given else KEEP,
        weight=body.weight if "weight" in given else KEEP,
        concurrency=body.concurrency if "concurrency" in given else KEEP,
    )
    return JsonAnswer(done.to_json())


@router.post("/sweeps/{sweep}/retry", response_model=RetriedAnswer)
def retry(request: Request, sweep: SweepName, body: RetryRequest) -> Response:
    """Try again what failed or was cancelled; what succeeded is kept."""
    if not any(value for _, value in body):
        raise InputError("No trial is named", remedy="Give trials, or failed, cancelled, outcome or another filter")
    wanted = TrialFilter(
        sweep=sources_of(request).sweep(sweep).id,
        agent=body.agent,
        pull_request=body.pull_request,
        round=body.round,
        outcome=None if body.outcome is None else body.outcome.value,
        failed=body.failed,
        cancelled=body.cancelled,
        trial_ids=tuple(dict.fromkeys(body.trials)),
    )
    return _retried(request, wanted, body)


@router.post("/trials/{trial}/retry", response_model=RetriedAnswer)
def retry_trial(request: Request, trial: TrialId) -> Response:
    """Try a trial again that failed or was cancelled."""
    return _retried(request, TrialFilter(trial_ids=(trial,)), RetryRequest())


@router.post("/trials/{trial}/cancel", response_model=OperationAnswer)
def cancel_trial(request: Request, trial: TrialId, body: TrialReasonRequest) -> Response:
    """End a trial that waits or runs."""
    done = operator_of(request).cancel_trials([trial], actor=who(request), sweep=None, reason=body.reason)
    return JsonAnswer(done.to_json())


def _retried(request: Request, wanted: TrialFilter, body: RetryRequest) -> Response:
    done = operator_of(request).retry(wanted, body.stages, actor=who(request))
    return JsonAnswer(
        {
            "operations": [each.to_json() for each in done.operations],
            "refused": [each.to_json() for each in done.refused],
            "notes": list(done.notes),
        }
    )
