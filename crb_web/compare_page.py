"""The page that compares two to four builds."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from crb_core.comparison import MOST_BUILDS
from crb_core.store.audit import sweep_record
from crb_core.store.boards import judge_json
from crb_web.api.audit import CompareQuery, comparisons_of
from crb_web.api.v1 import boards_of, sources_of
from crb_web.errors import NotFoundError
from crb_web.pages import render

__all__ = ["router"]

router = APIRouter(include_in_schema=False)


@router.get("/compare")
def compare_page(request: Request, query: Annotated[CompareQuery, Query()]) -> Response:
    """Builds on the same pull requests; without two to four of them, the choice."""
    sources = sources_of(request)
    sweep_id, _, judges = boards_of(request).chosen(query.model_copy(update={"judge": query.judge[:1]}))
    judge = judges[0]
    with sources.store().read() as connection:
        sweep = sweep_record(connection, sweep_id)
    if sweep is None:
        raise NotFoundError(f"There is no sweep {sweep_id}")
    state: dict[str, Any] = {"sweep": sweep_id, "judge": [judge.judge_id]}
    names = list(dict.fromkeys(query.build))
    document = None
    side: list[dict[str, Any]] = []
    if 2 <= len(names) <= MOST_BUILDS:
        document = comparisons_of(request).builds(query, names)
        builds = [each["build"] for each in document["builds"]]
        side = comparisons_of(request).judges_of_builds(query, builds)
    return render(
        "compare.html",
        query=query,
        chosen=names,
        sweep=sweep,
        judge=judge_json(judge),
        judges=[judge_json(each) for each in sources.judges(sweep_id)],
        document=document,
        side=side,
        agents={each["build"]: each["agent"] for each in sweep["builds"]},
        state=query.encoded(**state),
        encoded=lambda **changes: query.encoded(**(state | {"build": query.build} | changes)),
        hidden=parse_qsl(query.encoded(sweep=sweep_id, judge=[], allow_partial=False)),
        most=MOST_BUILDS,
    )
