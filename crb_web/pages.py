"""The pages: what the API answers, rendered on the server and readable without scripts."""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field

from crb_core.formats.csv_table import flat_rows, table_of, write_csv
from crb_core.golden_leaderboard import BETA_RANGE, NO_PROFILE
from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import DEFAULT_PROFILE, PROFILES
from crb_core.rows import RANKINGS
from crb_core.store.audit import sweep_records
from crb_core.store.boards import LoadedBoard, judge_json
from crb_web import show
from crb_web.api.v1 import Key, SweepName, TrialId, boards_of, pull_request_answer, sources_of, trial_answer
from crb_web.boards import Intervals
from crb_web.chart import precision_recall
from crb_web.errors import NotFoundError
from crb_web.filters import BETA_LIMITS, PRESETS, axis_choices
from crb_web.query import BoardQuery

__all__ = ["render", "router"]

router = APIRouter(include_in_schema=False)

#: By file name, the only files that are served from static/.
STATIC = {"crb.css": "text/css; charset=utf-8", "crb.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}

MARKS = {
    "recorded": "replays scripted reviews, no real reviewer",
    "not isolated": "ran as processes of this machine, without a container",
    "imported": "ran elsewhere; whether the answer key is older than the trials is not recorded",
    "cores shared": "its containers shared cores, so durations are longer than on cores of their own",
    "duration includes retries": "the recorded seconds of an imported review include its retries",
}


class PageQuery(BoardQuery):
    """A page's state: that of the API, and whether to wait for intervals."""

    intervals: str = Field(default="", pattern="^(|made|none)$")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("crb_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Every value from outside goes through `visible`, which escapes; autoescape covers what a template forgets.
    environment.filters |= {
        "visible": show.visible,
        "plain": show.plain,
        "clipped": show.clipped,
        "number": show.number,
        "seconds": show.seconds,
        "calibrated": show.calibrated,
    }
    environment.globals |= {"reason_of": show.reason_of, "MARKS": MARKS}
    return environment


_TEMPLATES = _environment()


def render(template: str, status: int = 200, **values: Any) -> Response:
    """A page in UTF-8."""
    text = _TEMPLATES.get_template(template).render(**values)
    return Response(text.encode("utf-8", "replace"), status_code=status, media_type="text/html; charset=utf-8")


@router.get("/static/{name}")
def static(name: str) -> Response:
    """One of our own files."""
    if name not in STATIC:
        raise NotFoundError("There is no such file")
    data = resources.files("crb_web").joinpath("static", name).read_bytes()
    return Response(data, media_type=STATIC[name], headers={"cache-control": "private, max-age=300"})


@router.get("/")
def leaderboard(request: Request, query: Annotated[PageQuery, Query()]) -> Response:
    """The leaderboard page."""
    boards = boards_of(request)
    with sources_of(request).store().read() as connection:
        sweeps = sweep_records(connection)
    if not sweeps:
        return render("empty.html")
    sweep_id, protocol, judges = boards.chosen(query.model_copy(update={"judge": query.judge[:1]}))
    every = sources_of(request).judges(sweep_id)
    judge = judges[0]
    wanted: Mapping[str, Intervals] = {"": "ready", "made": "made", "none": "none"}
    shown = boards.shown(query, judge, sweep_id, protocol, intervals=wanted[query.intervals])
    producers = tuple(shown.loaded.measured().arrays.producers) if isinstance(shown.loaded, LoadedBoard) else ()
    sweep = next(each for each in sweeps if each["id"] == sweep_id)
    ranking = RANKINGS.get(protocol)
    state = query.encoded(sweep=sweep["name"], judge=[judge.judge_id])
    return render(
        "leaderboard.html" if ranking else "comments.html",
        query=query,
        state=state,
        encoded=lambda **changes: query.encoded(**{"sweep": sweep["name"], "judge": [judge.judge_id]} | changes),
        sweep=sweep,
        sweeps=sweeps,
        judge=judge_json(judge),
        judges=[judge_json(each) for each in every],
        board=shown.document,
        has_intervals=shown.has_intervals,
        axes=axis_choices(protocol_named(protocol), producers, query),
        presets=PRESETS,
        beta_limits=BETA_LIMITS if ranking else BETA_RANGE,
        ranking=ranking,
        profiles=(*PROFILES, NO_PROFILE),
        profile=query.profile or DEFAULT_PROFILE,
        chart=precision_recall(
            shown.document["rows"], precision=ranking.precision, recall=ranking.recall, beta=query.beta
        )
        if ranking
        else None,
    )


@router.get("/leaderboard.csv")
def leaderboard_csv(request: Request, query: Annotated[BoardQuery, Query()]) -> Response:
    """What the page shows, as CSV: a line a row, with intervals."""
    boards = boards_of(request)
    sweep_id, protocol, judges = boards.chosen(query)
    records: list[dict[str, Any]] = []
    for judge in judges:
        document = boards.shown(query, judge, sweep_id, protocol, intervals="made").document
        lead = {"judge": judge.name, "judge_fingerprint": judge.judge_id, "beta": document["beta"]}
        records += [lead | row for row in document["rows"]]
    stream = io.StringIO(newline="")
    write_csv(table_of("leaderboard", flat_rows(records)), stream)
    return Response(
        stream.getvalue().encode("utf-8", "backslashreplace"),
        media_type="text/csv; charset=utf-8; header=present",
        headers={"content-disposition": 'attachment; filename="leaderboard.csv"'},
    )


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
    return render(
        "row.html",
        sweep={"name": document["sweep"], "id": sweep_id},
        judge=judge_json(judge),
        board=document,
        row=row,
        metrics=ranking.metrics if ranking else (),
        pull_requests=_by_pull_request(row) if ranking else boards.sources.pull_requests(sweep_id),
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


@router.get("/sweeps/{sweep}/pull-requests/{key}")
def pull_request_page(
    request: Request,
    sweep: SweepName,
    key: Key,
    judge: Annotated[str | None, Query(max_length=200)] = None,
    build: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Every finding of a pull request's trials, and what the judge says of it; of one build where it is named."""
    sources = sources_of(request)
    answer = pull_request_answer(sources, sweep, key, judge)
    trials = [each for each in answer["trials"] if build is None or each["build"] == build]
    if not trials:
        raise NotFoundError(f"The build {build} did not run the pull request {key}")
    judges = [judge_json(each) for each in sources.judges(answer["sweep_id"])]
    return render("pull_request.html", answer=answer, trials=trials, judges=judges, build=build)


@router.get("/trials/{trial}")
def trial_page(request: Request, trial: TrialId) -> Response:
    """A trial's attempts, evidence, findings and judge calls."""
    return render("trial.html", trial=trial_answer(sources_of(request), trial))
