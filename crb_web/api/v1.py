"""``/api/v1``: read-only, documented by ``/api/v1/openapi.json``. Numbers are those of ``crb leaderboard --json``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from crb_core.dimensions import dimension_values
from crb_core.errors import StoreError
from crb_core.store.audit import sweep_record, sweep_records
from crb_core.store.boards import judge_json
from crb_web.boards import Boards
from crb_web.errors import NotFoundError
from crb_web.inert import inert
from crb_web.json_text import json_bytes
from crb_web.models import (
    BoardsAnswer,
    DimensionsAnswer,
    ErrorAnswer,
    JudgesAnswer,
    PicturesAnswer,
    SweepDetail,
    SweepsAnswer,
)
from crb_web.query import BoardQuery
from crb_web.sources import Sources

__all__ = ["BoardApiQuery", "JsonAnswer", "boards_answer", "router"]

#: Errors of every endpoint.
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "A parameter is wrong"},
    401: {"model": ErrorAnswer, "description": "This server asks for a token"},
    403: {"model": ErrorAnswer, "description": "The token is not one for this"},
    404: {"model": ErrorAnswer, "description": "There is no such thing"},
    414: {"model": ErrorAnswer, "description": "The address is too long"},
    429: {"model": ErrorAnswer, "description": "Too many requests"},
    503: {"model": ErrorAnswer, "description": "The store or the evidence cannot be read, or the server is busy"},
}
#: 422 is FastAPI's own default for what is 400 here.
router = APIRouter(prefix="/api/v1", responses=ERRORS)

SweepName = Annotated[str, Path(min_length=1, max_length=200, description="Name or id of a sweep.")]
Key = Annotated[str, Path(min_length=1, max_length=200, description="Key of a pull request.")]
TrialId = Annotated[int, Path(ge=1, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hex.")]


class JsonAnswer(Response):
    """``json_bytes`` of the content; bytes are JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else json_bytes(content)


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


def boards_answer(boards: Boards, query: BoardApiQuery) -> bytes:
    """``BoardsAnswer`` as JSON: the documents of a query, one a judge."""
    sweep_id, protocol, chosen = boards.chosen(query)
    found = [
        json_bytes(boards.in_full(query, judge, sweep_id, protocol))
        if query.pull_requests
        else boards.text(query, judge, sweep_id, protocol, with_intervals=query.intervals)
        for judge in chosen
    ]
    return b'{"leaderboards":[' + b",".join(found) + b"]}"


@router.get("/leaderboard/pictures", response_model=PicturesAnswer)
def pictures(request: Request, query: Annotated[BoardQuery, Query()]) -> Response:
    """What the pictures of a leaderboard show under each judge, with 95% intervals."""
    boards = boards_of(request)
    sweep_id, protocol, chosen = boards.chosen(query)
    return JsonAnswer(
        {
            "leaderboards": [
                {
                    "judge": judge_json(judge),
                    "pictures": [
                        each.to_json()
                        for each in boards.pictures(query, judge, sweep_id, protocol, intervals="made").values()
                    ],
                }
                for judge in chosen
            ]
        }
    )


@router.get("/sweeps/{sweep}/dimensions", response_model=DimensionsAnswer)
def dimensions(request: Request, sweep: SweepName) -> Response:
    """By what pull requests of a sweep can be chosen: each dimension's values, and how many have each."""
    sources = sources_of(request)
    known = sources.dimensions(sources.sweep(sweep).id)
    return JsonAnswer(
        {
            "pull_requests": len(known),
            "dimensions": dimension_values(known.values()),
            "computed": known.computed_counts(),
        }
    )


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
    # A blob never changes under its name.
    return inert(data, sha256, cache="private, max-age=31536000, immutable")
