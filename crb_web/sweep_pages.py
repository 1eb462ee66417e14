"""The list of sweeps, the page of one with its live events, and its heat map in words."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from crb_core.store.audit import sweep_records
from crb_core.store.operations import list_operations
from crb_core.store.sweep_states import sweep_states
from crb_scheduler.progress import TrialState
from crb_scheduler.progress_parts import CELL_CODES, STATE_GLYPHS, HeatMap
from crb_web.access import Caller
from crb_web.api.v1 import SweepName, sources_of
from crb_web.gate import CALLER
from crb_web.guard import HEADERS
from crb_web.limits import client_key
from crb_web.live import LiveResponse, LiveSweeps
from crb_web.pages import render
from crb_web.sweep_view import SweepViews, change_words

__all__ = ["caller_of", "router", "views_of"]

router = APIRouter(include_in_schema=False)

#: Pull requests on one page of the heat map in words.
PER_PAGE = 100
#: The page of a sweep alone may open a connection, and to this server only. Its forms need the Origin header, which
#: browsers leave out under `no-referrer`.
_LIVE_HEADERS = {
    "content-security-policy": HEADERS["content-security-policy"] + "; connect-src 'self'",
    "referrer-policy": "same-origin",
}


class HeatMapQuery(BaseModel):
    """Which pull requests of a heat map."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    offset: int = Field(default=0, ge=0, le=10**9)


class SweepPageQuery(BaseModel):
    """What the page says of an operation that has just been done: its number, or ``none`` where nothing changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operation: str | None = Field(default=None, pattern="^(none|[0-9]{1,10})$")


def caller_of(request: Request) -> Caller | None:
    found: Caller | None = request.scope.get(CALLER)
    return found


def views_of(request: Request) -> SweepViews:
    found: SweepViews = request.app.state.sweep_views
    return found


@router.get("/sweeps")
def sweeps_page(request: Request) -> Response:
    """All sweeps, the newest first."""
    with sources_of(request).store().read() as connection:
        records = sweep_records(connection)
        states = sweep_states(connection)
    return render("sweeps.html", sweeps=records, states=states, visitor=caller_of(request))


@router.get("/sweeps/{sweep}")
def sweep_page(request: Request, sweep: SweepName, query: Annotated[SweepPageQuery, Query()]) -> Response:
    """A sweep as it runs: complete without scripts, live with them."""
    sources = sources_of(request)
    row = sources.sweep(sweep)
    views = views_of(request)
    reading = views.read(row.id)
    rules = request.app.state.access.rules
    caller = caller_of(request)
    with sources.store().read() as connection:
        record = sweep_records(connection, row.id)[0]
        done = _done(connection, row.id, query.operation)
    answer = render(
        "sweep.html",
        sweep=record,
        progress=reading.progress,
        limits=reading.limits,
        rows=reading.progress.heat_map.rows,
        twice=_names_used_twice(reading.progress.heat_map),
        parts=reading.parts(),
        notice=views.notice(reading),
        takes_operations=rules.operate,
        has_tokens=rules.has_tokens,
        visitor=caller,
        operation=query.operation,
        done=done,
        changes=change_words,
    )
    answer.headers.update(_LIVE_HEADERS)
    return answer


@router.get("/sweeps/{sweep}/events")
async def sweep_events(
    request: Request, sweep: SweepName, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> Response:
    """What changes on the page of a sweep, as server-sent events: ``{part: fragment}`` in JSON."""
    row = await run_in_threadpool(sources_of(request).sweep, sweep)
    live: LiveSweeps = request.app.state.live
    return LiveResponse(live, row.id, client_key(request.scope), last_event_id)


@router.get("/sweeps/{sweep}/heat-map")
def heat_map_page(request: Request, sweep: SweepName, query: Annotated[HeatMapQuery, Query()]) -> Response:
    """The heat map in words: pull requests by agents, every round."""
    row = sources_of(request).sweep(sweep)
    progress = views_of(request).read(row.id).progress
    heat_map = progress.heat_map
    columns = [
        (agent, build_id, list(rows))
        for (agent, build_id), rows in itertools.groupby(heat_map.rows, key=lambda each: (each.agent, each.build_id))
    ]
    words = {code: state.value for state, code in CELL_CODES.items()}
    shown = list(enumerate(heat_map.pull_requests))[query.offset : query.offset + PER_PAGE]
    return render(
        "heat_map.html",
        sweep=row,
        columns=columns,
        twice=_names_used_twice(heat_map),
        table=[
            (key, [[(each.round, words.get(each.cells[place], "no trial")) for each in rows] for _, _, rows in columns])
            for place, key in shown
        ],
        glyphs={state.value: STATE_GLYPHS[state] for state in TrialState} | {"no trial": " "},
        offset=query.offset,
        per_page=PER_PAGE,
        total=len(heat_map.pull_requests),
    )


def _names_used_twice(heat_map: HeatMap) -> set[str]:
    builds: dict[str, set[str]] = {}
    for row in heat_map.rows:
        builds.setdefault(row.agent, set()).add(row.build_id)
    return {agent for agent, ids in builds.items() if len(ids) > 1}


def _done(connection: Any, sweep_id: str, number: str | None) -> Any:
    """The operation of that number on this sweep; None where there is none of it among the last."""
    if number is None or number == "none":
        return None
    return next((each for each in list_operations(connection, sweep_id=sweep_id) if each.id == int(number)), None)
