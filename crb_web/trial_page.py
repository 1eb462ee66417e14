"""The page of a trial, and the list of a sweep's trials, in which the malformed and the unscored stand too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from crb_core.agent import Outcome
from crb_core.evidence_state import read_blob
from crb_core.store.trial_list import NO_ATTEMPT, UNDER_WAY
from crb_web.api.audit import TrialsQuery, trial_answer, trials_answer
from crb_web.api.v1 import SweepName, TrialId, sources_of
from crb_web.pages import render
from crb_web.sweep_pages import caller_of

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

#: Trials on one page of the list.
PER_PAGE = 200
#: Bytes of a log that the page shows; the blob has all of it.
LOG_BYTES = 4000


@router.get("/trials/{trial}")
def trial_page(request: Request, trial: TrialId) -> Response:
    """A trial's attempts, artifacts, usage, findings, judgments and calls."""
    sources = sources_of(request)
    answer = trial_answer(sources, trial)
    artifacts = answer["artifacts"]
    logs = [
        {**each, "text": _tail(read_blob(sources.evidence, each["sha256"]).data or b"")}
        for each in artifacts
        if each["name"] in {"stdout", "stderr"} and each["state"] == "present"
    ]
    labels: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    for judgment in answer["judgments"]:
        for label in judgment["labels"]:
            labels.setdefault(label["candidate"], []).append((judgment["judge"], label))
    visitor = caller_of(request)
    shown = render(
        "trial.html",
        trial=answer,
        labels=labels,
        visitor=visitor if request.app.state.access.rules.operate and visitor and visitor.csrf else None,
        timelines={each["number"]: _timeline(each) for each in answer["attempts"]},
        sources={each["number"]: json.dumps(each["source"], ensure_ascii=False) for each in answer["attempts"]},
        logs=logs,
        bad=[each for each in artifacts if each["state"] != "present"],
        states={each["sha256"]: each["state"] for each in artifacts},
    )
    # Under `no-referrer` browsers send forms without the Origin that the gate asks for.
    shown.headers["referrer-policy"] = "same-origin"
    return shown


@router.get("/sweeps/{sweep}/trials")
def trials_page(request: Request, sweep: SweepName, query: Annotated[TrialsQuery, Query()]) -> Response:
    """The trials of a sweep, by outcome."""
    sources = sources_of(request)
    answer = trials_answer(sources, sweep, query.model_copy(update={"limit": min(query.limit, PER_PAGE)}))

    def encoded(**changes: Any) -> str:
        values = query.model_dump(exclude={"limit", "offset"}) | changes
        return urlencode([(name, value) for name, value in values.items() if value not in {None, ""}])

    return render(
        "trials.html",
        answer=answer,
        query=query,
        encoded=encoded,
        per_page=PER_PAGE,
        outcomes=[*Outcome, NO_ATTEMPT, UNDER_WAY],
    )


def _timeline(attempt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The phases of an attempt in their order, with where each begins and its share of all of them (0 to 1000)."""
    phases = {
        name: float(value)
        for name, value in (attempt["phases_ms"] or {}).items()
        if isinstance(value, int | float) and value >= 0
    }
    whole = sum(phases.values())
    found = []
    begin = 0.0
    for name, value in phases.items():
        share = 1000 * value / whole if whole else 0.0
        found.append({"name": name, "ms": value, "begin": round(begin, 1), "share": round(share, 1)})
        begin += share
    return found


def _tail(data: bytes) -> dict[str, Any]:
    """The end of a log, where the reason stands, with how much came before it."""
    return {"end": data[-LOG_BYTES:].decode("utf-8", "backslashreplace"), "before": max(0, len(data) - LOG_BYTES)}
