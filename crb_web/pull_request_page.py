"""The page of a pull request: its diff with golden and candidate findings, and what a judge says of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from crb_core.diff_lines import DiffText
from crb_core.errors import CrbError, InputError, Where
from crb_core.store.audit_findings import STATES
from crb_core.store.boards import judge_json
from crb_core.store.pull_request_diffs import FoundDiff
from crb_web.api.audit import FindingId, finding_places_answer, pull_request_answer
from crb_web.api.v1 import Key, SweepName, sources_of
from crb_web.diff_view import PAGE_LINES, Card, file_view, file_views
from crb_web.errors import NotFoundError
from crb_web.pages import render

__all__ = ["PullRequestQuery", "router"]

router = APIRouter(include_in_schema=False)

#: Candidate findings that one page shows at their lines; of more, a build has to be chosen.
MOST_CARDS = 400


class PullRequestQuery(BaseModel):
    """The state of the page. No build, round or state is all of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str | None = Field(default=None, max_length=200)
    build: list[str] = Field(default_factory=list, max_length=64)
    round: list[int] = Field(default_factory=list, max_length=64)
    state: list[str] = Field(default_factory=list, max_length=16)
    file: str | None = Field(default=None, max_length=4096)
    start: int = Field(default=0, ge=0, le=10**9)

    @field_validator("judge", "file", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("build", "round", "state", mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        given = value if isinstance(value, list) else [value]
        return list(dict.fromkeys(each for each in given if each != ""))

    def encoded(self, **changes: Any) -> str:
        """The query string of this state with some fields changed; what is the default is left out."""
        values = self.model_dump() | {"file": None, "start": 0} | changes
        pairs = [
            (name, each)
            for name, value in values.items()
            for each in (value if isinstance(value, list) else [value])
            if each is not None and not (name == "start" and each == 0)
        ]
        return urlencode(pairs)


@router.get("/sweeps/{sweep}/pull-requests/{key}")
def pull_request_page(
    request: Request, sweep: SweepName, key: Key, query: Annotated[PullRequestQuery, Query()]
) -> Response:
    """Every finding of a pull request's trials at its line, or one file of the diff, page by page."""
    sources = sources_of(request)
    answer, found = pull_request_answer(sources, sweep, key, query.judge)
    chosen = _chosen(answer, query)
    diff, problem = _parsed(found)
    cards = [Card(finding=each) for each in answer["golden"]]
    candidates = [
        Card(finding=each, trial=trial)
        for trial in chosen
        for each in trial["candidates"]
        if not query.state or each["state"] in query.state
    ]
    too_many = len(candidates) > MOST_CARDS and not query.build
    cards += [] if too_many else candidates
    page: dict[str, Any] = {}
    if query.file is None:
        page["files"], page["nowhere"] = file_views(diff, cards)
    else:
        view = None if diff is None else file_view(diff, query.file, cards, query.start)
        if view is None:
            raise NotFoundError(f"The diff of {key} has no file of that name")
        if query.start and query.start >= view.size:
            raise NotFoundError(f"The diff of that file has {view.size} lines")
        page["files"], page["nowhere"] = [view], []
    return render(
        "pull_request.html",
        answer=answer,
        query=query,
        state=query.encoded(judge=answer["judge"]["fingerprint"]),
        encoded=lambda **changes: query.encoded(**{"judge": answer["judge"]["fingerprint"]} | changes),
        trials=chosen,
        builds=_builds(answer["trials"]),
        rounds=sorted({trial["round"] for trial in answer["trials"]}),
        states=_states(answer["trials"]),
        matrix=_matrix(answer, chosen),
        judges=[judge_json(each) for each in sources.judges(answer["sweep_id"])],
        too_many=len(candidates) if too_many else 0,
        on_page={(card.trial["trial"], card.finding["position"]) for card in cards if card.trial},
        page_lines=PAGE_LINES,
        diff=found,
        diff_problem=problem,
        claimed_by=_claimed_by(chosen),
        **page,
    )


@router.get("/findings/{finding_id}")
def finding_page(request: Request, finding_id: FindingId) -> Response:
    """Where the golden finding of a cited id is."""
    return render("finding.html", answer=finding_places_answer(sources_of(request), finding_id))


def _chosen(answer: Mapping[str, Any], query: PullRequestQuery) -> list[Mapping[str, Any]]:
    """The trials of the chosen builds (by id or agent) and rounds; NotFoundError for one that there is not."""
    known = {name for trial in answer["trials"] for name in (trial["build"], trial["agent"])}
    for name in query.build:
        if name not in known:
            raise NotFoundError(f"The build {name} did not run the pull request {answer['pull_request']['key']}")
    for number in query.round:
        if number not in {trial["round"] for trial in answer["trials"]}:
            raise NotFoundError(f"The sweep has no round {number} of this pull request")
    for state in query.state:
        if state not in STATES:
            raise InputError(
                f"{state!r} is nothing that a judge says of a finding",
                where=Where(field="state"),
                remedy=f"Choose from {', '.join(STATES)}",
            )
    return [
        trial
        for trial in answer["trials"]
        if (not query.build or trial["build"] in query.build or trial["agent"] in query.build)
        and (not query.round or trial["round"] in query.round)
    ]


def _parsed(found: FoundDiff) -> tuple[DiffText | None, str | None]:
    """The diff, and why it is not shown."""
    if found.data is None:
        return None, found.problem
    try:
        return DiffText(found.data), found.problem
    except CrbError as error:
        return None, str(error)


def _builds(trials: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {trial["build"]: trial["agent"] for trial in trials}


def _states(trials: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many candidates are in each state that occurs."""
    return dict(sorted(Counter(each["state"] for trial in trials for each in trial["candidates"]).items()))


def _claimed_by(trials: Sequence[Mapping[str, Any]]) -> dict[int, dict[int, int | None]]:
    """By trial and golden finding the candidate that claims it."""
    return {trial["trial"]: {each["position"]: each["claimed_by"] for each in trial["golden"]} for trial in trials}


def _matrix(answer: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a golden finding: by build the scored rounds with what became of it."""
    found = []
    for golden in answer["golden"]:
        cells: dict[str, list[dict[str, Any]]] = {}
        for trial in trials:
            each = trial["golden"][golden["position"]]
            cells.setdefault(trial["build"], []).append(
                {"round": trial["round"], "trial": trial["trial"], "state": each["state"], "by": each["by"]}
            )
        found.append({"golden": golden, "cells": cells})
    return found
