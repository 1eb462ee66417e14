"""The leaderboard page, its pictures, its downloads, and the pull requests behind a row."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from crb_core.comment_rows import BETA_RANGE, NO_PROFILE
from crb_core.formats.csv_table import Table, flat_rows, table_of, write_csv
from crb_core.formats.xlsx import workbook
from crb_core.pictures import BASES, PICTURES, Picture
from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import DEFAULT_PROFILE, PROFILES
from crb_core.rows import RANKINGS
from crb_core.store.boards import LoadedBoard, judge_json
from crb_web import drawings
from crb_web.api.v1 import JsonAnswer, SweepName, boards_of, sources_of
from crb_web.boards import Boards, Intervals, Shown
from crb_web.errors import NotFoundError
from crb_web.filters import BETA_LIMITS, PRESETS, axis_choices, dimension_choices
from crb_web.pages import render
from crb_web.query import BoardQuery

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

PictureName = Annotated[str, Path(max_length=40)]
#: Metrics of a table by basis, in its order, with the titles of their columns.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "grounded": {"grounded_precision": "precision", "grounded_recall": "recall", "grounded_f": "F"},
    "augmented": {
        "augmented_precision": "precision",
        "augmented_recall": "recall",
        "augmented_f": "F",
        "novel_tp_yield": "novel TP yield",
    },
    "answer-key": {"precision": "precision", "recall": "recall", "f": "F"},
}
#: Of golden-comments, the columns of one pull request.
COMMENT_COLUMNS = ("tp", "fp", "fn", "precision", "recall", "f")

#: What a page's ``intervals`` means.
INTERVALS: Mapping[str, Intervals] = {"": "ready", "made": "made", "none": "none"}


class PageQuery(BoardQuery):
    """A page's state: that of the API, and whether to wait for intervals."""

    intervals: str = Field(default="", pattern="^(|made|none)$")


class PictureQuery(PageQuery):
    """A picture's state: that of the page, and how it is drawn."""

    theme: Literal["light", "dark"] = "light"
    narrow: bool = Field(default=False, description="For screens of a hand's width.")
    download: bool = Field(default=False, description="To be saved: with a background, and it waits for intervals.")


@router.get("/")
def leaderboard(request: Request, query: Annotated[PageQuery, Query()]) -> Response:
    """The leaderboard page."""
    boards = boards_of(request)
    sweeps = sources_of(request).sweeps()
    if not sweeps:
        return render("empty.html")
    sweep_id, protocol, judges = boards.chosen(query.model_copy(update={"judge": query.judge[:1]}))
    every = sources_of(request).judges(sweep_id)
    judge = judges[0]
    shown = boards.shown(query, judge, sweep_id, protocol, intervals=INTERVALS[query.intervals])
    loaded = shown.loaded
    producers = tuple(loaded.measured().arrays.producers) if isinstance(loaded, LoadedBoard) else ()
    spent = sources_of(request).judge_costs(sweep_id, judge.judge_id)
    sweep = next(each for each in sweeps if each["id"] == sweep_id)
    ranking = RANKINGS.get(protocol)
    here = {"sweep": sweep["id"], "judge": [judge.judge_id]}
    return render(
        "leaderboard.html" if ranking else "comments.html",
        query=query,
        state=query.encoded(**here),
        encoded=lambda **changes: query.encoded(**here | changes),
        pairs=query.pairs(**here),
        unfiltered=_unfiltered(query, here),
        sweep=sweep,
        sweeps=sweeps,
        judge=judge_json(judge),
        judges=[judge_json(each) for each in every],
        board=shown.document,
        spent=spent,
        has_intervals=shown.has_intervals,
        inside=len(query.inside.inside(loaded.dimensions)),
        of=len(loaded.dimensions),
        axes=axis_choices(protocol_named(protocol), producers, query),
        dimensions=dimension_choices(loaded.dimensions, query),
        bases=BASES if protocol == "reviewbench" else (),
        columns=COLUMNS[query.basis if protocol == "reviewbench" else "answer-key"],
        presets=PRESETS,
        beta_limits=BETA_LIMITS if ranking else BETA_RANGE,
        ranking=ranking,
        profiles=(*PROFILES, NO_PROFILE),
        profile=query.profile or DEFAULT_PROFILE,
        pictures=PICTURES,
        waiting="&intervals=made" if query.intervals == "made" else "",
    )


def _unfiltered(query: BoardQuery, here: Mapping[str, Any]) -> str:
    """The state without any filter, of the same sweep and judge."""
    return BoardQuery.model_validate({"basis": query.basis}).encoded(**here)


def _one(boards: Boards, query: BoardQuery, intervals: Intervals = "made") -> tuple[Shown, dict[str, Picture]]:
    """The leaderboard and the pictures of a query's first judge."""
    sweep_id, protocol, judges = boards.chosen(query.model_copy(update={"judge": query.judge[:1]}))
    shown = boards.shown(query, judges[0], sweep_id, protocol, intervals=intervals)
    return shown, boards.pictures(query, judges[0], sweep_id, protocol, intervals=intervals)


def _picture(boards: Boards, query: BoardQuery, name: str, intervals: Intervals = "made") -> Picture:
    if name not in PICTURES:
        raise NotFoundError("There is no such picture", remedy=f"The pictures are: {', '.join(PICTURES)}")
    return _one(boards, query, intervals)[1][name]


def _download(data: bytes, kind: str, name: str, *, as_file: bool = True) -> Response:
    headers = {"content-disposition": f'{"attachment" if as_file else "inline"}; filename="{name}"'}
    return Response(data, media_type=kind, headers=headers)


@router.get("/leaderboard/{name}.svg")
def picture_svg(request: Request, name: PictureName, query: Annotated[PictureQuery, Query()]) -> Response:
    """A picture of what the page shows."""
    picture = _picture(boards_of(request), query, name, "made" if query.download else INTERVALS[query.intervals])
    text = drawings.svg(
        picture,
        theme=query.theme,
        narrow=query.narrow,
        ground=query.download,
        renderer=request.app.state.renderer,
    )
    return _download(text.encode(), "image/svg+xml", f"{name}.svg", as_file=query.download)


@router.get("/leaderboard/{name}.png")
def picture_png(request: Request, name: PictureName, query: Annotated[PictureQuery, Query()]) -> Response:
    """The same as PNG, two pixels for one."""
    picture = _picture(boards_of(request), query, name, "made" if query.download else INTERVALS[query.intervals])
    data = drawings.png(picture, theme=query.theme, renderer=request.app.state.renderer)
    return _download(data, "image/png", f"{name}.png", as_file=query.download)


@router.get("/leaderboard/{name}.csv")
def picture_csv(request: Request, name: PictureName, query: Annotated[BoardQuery, Query()]) -> Response:
    """What a picture shows as a table."""
    return _csv(_table(_picture(boards_of(request), query, name)), name)


@router.get("/leaderboard/{name}.json")
def picture_json(request: Request, name: PictureName, query: Annotated[BoardQuery, Query()]) -> Response:
    """What a picture shows as JSON."""
    return JsonAnswer(_picture(boards_of(request), query, name).to_json())


@router.get("/pictures")
def pictures_page(request: Request, query: Annotated[BoardQuery, Query()]) -> Response:
    """Every picture with its table."""
    shown, found = _one(boards_of(request), query)
    document = shown.document
    here = {"sweep": document["sweep_id"], "judge": [shown.judge.judge_id]}
    return render(
        "pictures.html",
        query=query,
        board=document,
        judge=judge_json(shown.judge),
        state=query.encoded(**here),
        waiting="&intervals=made",
        pictures=found,
        tables={name: _table(each, single=False) for name, each in found.items()},
        strata=list(dict.fromkeys((each["axis"], each["stratum"]) for each in found["strata"].records)),
        grid=_grid(found["strata"]),
    )


@router.get("/leaderboard.csv")
def leaderboard_csv(request: Request, query: Annotated[BoardQuery, Query()]) -> Response:
    """What the page shows, as CSV: a line a row, with intervals."""
    return _csv(table_of("leaderboard", flat_rows(_records(boards_of(request), query))), "leaderboard")


@router.get("/leaderboard.xlsx")
def leaderboard_xlsx(request: Request, query: Annotated[BoardQuery, Query()]) -> Response:
    """The rows and what every picture shows, one sheet each, and the state that they were made under."""
    boards = boards_of(request)
    tables = [table_of("leaderboard", flat_rows(_records(boards, query)))]
    tables += [_table(each) for each in _one(boards, query)[1].values()]
    state = [{"parameter": name, "value": value} for name, value in query.pairs()]
    tables.append(table_of("state", flat_rows(state)))
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return _download(workbook(tables)[0], kind, "leaderboard.xlsx")


def _records(boards: Boards, query: BoardQuery) -> list[dict[str, Any]]:
    sweep_id, protocol, judges = boards.chosen(query)
    records: list[dict[str, Any]] = []
    for judge in judges:
        document = boards.shown(query, judge, sweep_id, protocol, intervals="made").document
        lead = {"judge": judge.name, "judge_fingerprint": judge.judge_id, "beta": document["beta"]}
        records += [lead | row for row in document["rows"]]
    return records


def _table(picture: Picture, *, single: bool = True) -> Table:
    """The records, and the absent rows with their reasons; ``single`` with the values of single pull requests."""
    records = [
        {name: value for name, value in each.items() if single or name not in {"values", "build"}}
        for each in (*picture.records, *picture.absent)
    ]
    return table_of(picture.name, flat_rows(records))


def _grid(strata: Picture) -> dict[int, dict[str, Any]]:
    """By place the row's agent and its cells by stratum."""
    found: dict[int, dict[str, Any]] = {}
    for each in strata.records:
        row = found.setdefault(each["place"], {"agent": each["agent"], "cells": {}})
        row["cells"][each["axis"], each["stratum"]] = each
    return found


def _csv(table: Table, name: str) -> Response:
    stream = io.StringIO(newline="")
    write_csv(table, stream)
    data = stream.getvalue().encode("utf-8", "backslashreplace")
    return _download(data, "text/csv; charset=utf-8; header=present", f"{name}.csv")


@router.get("/sweeps/{sweep}/rows/{build}")
def row_page(request: Request, sweep: SweepName, build: str, query: Annotated[BoardQuery, Query()]) -> Response:
    """The pull requests behind a row's numbers, under the same filters."""
    boards = boards_of(request)
    query = query.model_copy(update={"sweep": sweep})
    sweep_id, protocol, judges = boards.chosen(query)
    judge = judges[0]
    document = boards.pull_requests(query, judge, sweep_id, protocol, build)
    row = document["rows"][0]
    ranking = RANKINGS.get(protocol)
    if ranking:
        metrics, found = ranking.metrics, _by_pull_request(row)
    else:
        counted = boards.comments_counted(query, judge, sweep_id, protocol, build)
        inside = query.inside.inside(sources_of(request).dimensions(sweep_id))
        metrics, found = COMMENT_COLUMNS if counted else (), {key: counted.get(key, {}) for key in inside}
    return render(
        "row.html",
        query=query,
        sweep={"name": document["sweep"], "id": sweep_id},
        judge=judge_json(judge),
        board=document,
        row=row,
        metrics=metrics,
        pull_requests=found,
        state=query.encoded(judge=[judge.judge_id]),
    )


def _by_pull_request(row: Mapping[str, Any]) -> dict[str, dict[int, Any]]:
    """By key and round: the metrics, or the text that says why there are none."""
    found: dict[str, dict[int, Any]] = {}
    for each in row["rounds"]:
        for record in (each["score"] or {}).get("per_pull_request", ()):
            found.setdefault(record["key"], {})[each["round"]] = record["overall"]
        for problem in each["problems"]:
            found.setdefault(problem["pull_request"], {})[each["round"]] = problem["problem"]
    return found
