"""``/api/v1``: read-only, documented by ``/api/v1/openapi.json``. Numbers are those of ``crb leaderboard --json``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from crb_core.errors import StoreError
from crb_core.store.audit import sweep_record, sweep_records, trial_record
from crb_core.store.audit_findings import pull_request_record
from crb_core.store.boards import judge_json
from crb_web.boards import Boards, Intervals
from crb_web.errors import NotFoundError
from crb_web.models import (
    BoardsAnswer,
    ErrorAnswer,
    JudgesAnswer,
    PullRequestAnswer,
    SweepDetail,
    SweepsAnswer,
    TrialAnswer,
)
from crb_web.query import BoardQuery
from crb_web.sources import Sources

__all__ = ["BoardApiQuery", "JsonAnswer", "boards_answer", "pull_request_answer", "router", "trial_answer"]

#: Errors of every endpoint.
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "A parameter is wrong"},
    404: {"model": ErrorAnswer, "description": "There is no such thing"},
    503: {"model": ErrorAnswer, "description": "The store or the evidence cannot be read"},
}
#: 422 is FastAPI's own default for what is 400 here.
router = APIRouter(prefix="/api/v1", responses=ERRORS)

SweepName = Annotated[str, Path(min_length=1, max_length=200, description="Name or id of a sweep.")]
Key = Annotated[str, Path(min_length=1, max_length=200, description="Key of a pull request.")]
TrialId = Annotated[int, Path(ge=1, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hex.")]
JudgeName = Annotated[
    str | None, Query(max_length=200, description="Judge by name or fingerprint; the sweep's first by default.")
]


class JsonAnswer(Response):
    """JSON in UTF-8. NaN never occurs; half a surrogate pair is escaped, because UTF-8 has none."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


class BoardApiQuery(BoardQuery):
    """``BoardQuery`` with what only programs ask for."""

    intervals: bool = Field(default=True, description="With 95% intervals; without them a big sweep answers at once.")
    pull_requests: bool = Field(default=False, description="With every pull request's metrics.")


def sources_of(request: Request) -> Sources:
    found: Sources = request.app.state.sources
    return found


def boards_of(request: Request) -> Boards:
    found: Boards = request.app.state.boards
    return found


@router.get("/sweeps", response_model=SweepsAnswer)
def sweeps(request: Request) -> Response:
    """All sweeps, the newest first."""
    with sources_of(request).store().read() as connection:
        return JsonAnswer({"sweeps": sweep_records(connection)})


@router.get("/sweeps/{sweep}", response_model=SweepDetail)
def sweep_detail(request: Request, sweep: SweepName) -> Response:
    """A sweep with its builds and pull requests."""
    sources = sources_of(request)
    row = sources.sweep(sweep)
    with sources.store().read() as connection:
        return JsonAnswer(sweep_record(connection, row.id))


@router.get("/sweeps/{sweep}/judges", response_model=JudgesAnswer)
def judges(request: Request, sweep: SweepName) -> Response:
    """The judges of a sweep with what is known of their calibration."""
    sources = sources_of(request)
    row = sources.sweep(sweep)
    return JsonAnswer({"judges": [judge_json(each) for each in sources.judges(row.id)]})


@router.get("/leaderboard", response_model=BoardsAnswer)
def leaderboard(request: Request, query: Annotated[BoardApiQuery, Query()]) -> Response:
    """The leaderboard of a sweep under each judge, recomputed from findings, matches and judgments."""
    return JsonAnswer(boards_answer(boards_of(request), query))


def boards_answer(boards: Boards, query: BoardApiQuery) -> dict[str, Any]:
    """The documents of a query, one a judge."""
    sweep_id, protocol, chosen = boards.chosen(query)
    found: list[Any] = []
    for judge in chosen:
        if query.pull_requests:
            found.append(boards.in_full(query, judge, sweep_id, protocol))
        else:
            intervals: Intervals = "made" if query.intervals else "none"
            found.append(boards.shown(query, judge, sweep_id, protocol, intervals=intervals).document)
    return {"leaderboards": found}


@router.get("/pull-requests/{sweep}/{key}", response_model=PullRequestAnswer)
def pull_request(request: Request, sweep: SweepName, key: Key, judge: JudgeName = None) -> Response:
    """A pull request with its golden findings, and every trial's findings with what a judge says of each."""
    return JsonAnswer(pull_request_answer(sources_of(request), sweep, key, judge))


def pull_request_answer(sources: Sources, sweep: str, key: str, judge: str | None) -> dict[str, Any]:
    """``PullRequestAnswer`` as a dict."""
    row = sources.sweep(sweep)
    chosen = sources.judge(row.id, judge or None)
    with sources.store().read() as connection:
        found = pull_request_record(connection, row.id, key, chosen.judge_id)
    if found is None:
        raise NotFoundError(f"The sweep {row.name} has no pull request {key}")
    return {"sweep": row.name, "sweep_id": row.id, "judge": judge_json(chosen), **found}


@router.get("/trials/{trial}", response_model=TrialAnswer)
def trial(request: Request, trial: TrialId) -> Response:
    """A trial with its identity, attempts, evidence, findings and judge calls."""
    return JsonAnswer(trial_answer(sources_of(request), trial))


def trial_answer(sources: Sources, number: int) -> dict[str, Any]:
    """``TrialAnswer`` as a dict."""
    with sources.store().read() as connection:
        found = trial_record(connection, number)
    if found is None:
        raise NotFoundError(f"There is no trial {number}", remedy="`crb trial list` shows the numbers")
    return found


@router.get(
    "/evidence/{sha256}",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/octet-stream": {}}}},
)
def evidence(request: Request, sha256: Digest) -> Response:
    """An immutable blob: as plain text where it is UTF-8 without control characters, else to be downloaded."""
    try:
        data = sources_of(request).evidence.get(sha256)
    except StoreError as error:
        if "missing" in error.problem:
            raise NotFoundError(error.problem, remedy=error.remedy) from None
        raise
    shown = _is_text(data)
    disposition = "inline" if shown else f'attachment; filename="{sha256}"'
    return Response(
        data,
        media_type="text/plain; charset=utf-8" if shown else "application/octet-stream",
        headers={
            "content-disposition": disposition,
            "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            # A blob never changes under its name.
            "cache-control": "private, max-age=31536000, immutable",
        },
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(byte < 32 and byte not in b"\t\n\r" for byte in data)
