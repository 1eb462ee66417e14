"""The forms of a sweep's page. The gate has let only an operator's session with its own secret through to here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from crb_core.errors import InputError, Where
from crb_core.store.operations import KEEP, Keep, Operation
from crb_core.store.trials import TrialFilter
from crb_web.api.operations import MAX_TRIALS, operator_of, who
from crb_web.api.v1 import SweepName, TrialId, sources_of
from crb_web.gate import FORM, form_value

__all__ = ["router"]

router = APIRouter(include_in_schema=False)


@router.post("/sweeps/{sweep}/pause")
def pause(request: Request, sweep: SweepName) -> Response:
    """Take no more steps."""
    done = operator_of(request).pause(
        sweep, actor=who(request), agent=_field(request, "agent"), reason=_field(request, "reason")
    )
    return _back(request, sweep, [done])


@router.post("/sweeps/{sweep}/resume")
def resume(request: Request, sweep: SweepName) -> Response:
    """Go on."""
    done = operator_of(request).resume(sweep, actor=who(request), agent=_field(request, "agent"))
    return _back(request, sweep, [done])


@router.post("/sweeps/{sweep}/cancel")
def cancel(request: Request, sweep: SweepName) -> Response:
    """End a sweep, an agent in it, or single trials."""
    if _field(request, "sure") != "yes":
        raise InputError("The box that says you are sure is not ticked", where=Where(field="sure"))
    numbers, agent, reason = _trials(request), _field(request, "agent"), _field(request, "reason")
    operator, actor = operator_of(request), who(request)
    if numbers and agent is not None:
        raise InputError("Trials and an agent are given", remedy="Give one of them", where=Where(field="trials"))
    if numbers:
        return _back(request, sweep, [operator.cancel_trials(numbers, actor=actor, sweep=sweep, reason=reason)])
    return _back(request, sweep, [operator.cancel(sweep, actor=actor, agent=agent, reason=reason)])


@router.post("/sweeps/{sweep}/retry")
def retry(request: Request, sweep: SweepName) -> Response:
    """Try again what failed or was cancelled."""
    numbers = _trials(request)
    failed, cancelled = _field(request, "failed") == "true", _field(request, "cancelled") == "true"
    if not numbers and not (failed or cancelled):
        raise InputError("No trial is named", remedy="Give numbers, or tick failed or cancelled")
    wanted = TrialFilter(
        sweep=sources_of(request).sweep(sweep).id,
        agent=_field(request, "agent"),
        failed=failed and not numbers,
        cancelled=cancelled and not numbers,
        trial_ids=numbers,
    )
    done = operator_of(request).retry(wanted, (), actor=who(request))
    return _back(request, sweep, done.operations)


@router.post("/sweeps/{sweep}/limits")
def limits(request: Request, sweep: SweepName) -> Response:
    """Set priority, weight or concurrency; what is empty stays."""
    priority, weight, concurrency = (_field(request, name) for name in ("priority", "weight", "concurrency"))
    most: int | Keep | None = KEEP
    if concurrency is not None:
        most = None if concurrency.lower() == "none" else _whole("concurrency", concurrency)
    done = operator_of(request).set_limits(
        sweep,
        actor=who(request),
        agent=_field(request, "agent"),
        priority=KEEP if priority is None else _whole("priority", priority),
        weight=KEEP if weight is None else _number("weight", weight),
        concurrency=most,
    )
    return _back(request, sweep, [done])


@router.post("/trials/{trial}/retry")
def retry_trial(request: Request, trial: TrialId) -> Response:
    """Try one trial again."""
    done = operator_of(request).retry(TrialFilter(trial_ids=(trial,)), (), actor=who(request)).operations
    return _back(request, str(done[0].sweep_id), done)


@router.post("/trials/{trial}/cancel")
def cancel_trial(request: Request, trial: TrialId) -> Response:
    """End one trial."""
    done = operator_of(request).cancel_trials([trial], actor=who(request), sweep=None, reason=_field(request, "reason"))
    return _back(request, str(done.sweep_id), [done])


def _field(request: Request, name: str) -> str | None:
    return form_value(request.scope[FORM], name).strip() or None


def _trials(request: Request) -> tuple[int, ...]:
    text = _field(request, "trials") or ""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    if len(words) > MAX_TRIALS:
        raise InputError(f"At most {MAX_TRIALS} trials can be named at once", where=Where(field="trials"))
    return tuple(dict.fromkeys(_whole("trials", word) for word in words))


def _whole(field: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", text, re.ASCII):
        raise InputError(f"{text!r} is not a whole number", where=Where(field=field))
    return int(text)


def _number(field: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,10})?", text, re.ASCII):
        raise InputError(f"{text!r} is not a number", where=Where(field=field))
    return float(text)


def _back(request: Request, sweep: str, done: Sequence[Operation]) -> Response:
    """To the sweep's page, which says what was done."""
    row = sources_of(request).sweep(sweep)
    number = next((each.id for each in done if each.id is not None), None)
    return RedirectResponse(f"/sweeps/{row.id}?operation={number or 'none'}", 303)
