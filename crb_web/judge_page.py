"""The pages of judges: what is known of each, how far they agree, and what is stale."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from crb_core.calibration_words import calibration_words
from crb_core.errors import InputError
from crb_core.prompts import bundled_prompts
from crb_core.protocols import PROTOCOLS
from crb_core.store.calibrations import calibrations
from crb_core.store.judge_comparison import QUESTIONS
from crb_core.store.judge_records import calibration_records, stored_judges
from crb_web.api.audit import JudgeFingerprint, comparisons_of, judge_answer
from crb_web.api.v1 import sources_of
from crb_web.pages import render

__all__ = ["router"]

router = APIRouter(include_in_schema=False)


@router.get("/judges")
def judges_page(request: Request) -> Response:
    """Every judge of the store."""
    with sources_of(request).store().read() as connection:
        found = stored_judges(connection)
        known = calibration_records(calibrations(connection))
    keys = {each["key"] for each in found}
    return render(
        "judges.html",
        judges=found,
        others=[each for each in known if each["key"] not in keys],
        words=calibration_words,
    )


@router.get("/judges/{fingerprint}")
def judge_page(
    request: Request, fingerprint: JudgeFingerprint, sweep: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """One judge: calibrations, confusion, agreement with the other judges of a sweep, prompts, what is stale."""
    sources = sources_of(request)
    answer = judge_answer(sources, fingerprint)
    agreement, problem = None, None
    named = sweep or (answer["sweeps"][0]["sweep_id"] if answer["sweeps"] else None)
    if named is not None:
        sources.sweep(named)
        try:
            agreement = comparisons_of(request).judges(named)
        except InputError as error:
            problem = error.problem
    return render(
        "judge.html",
        judge=answer,
        description=json.dumps(answer["description"], indent=2, ensure_ascii=False, sort_keys=True),
        words=calibration_words,
        prompts=_prompts(answer["prompts"]),
        agreement=agreement,
        agreement_problem=problem,
        agreement_sweep=None if named is None else sources.sweep(named),
        questions=QUESTIONS,
        confusions=_confusions(answer["measured"]),
    )


def _prompts(used: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The prompts with the text that is at hand: the judge's own where the bytes are the same, else today's."""
    present = bundled_prompts().by_name
    return [{**each, "text": present[each["name"]].text if each["name"] in present else None} for each in used]


def _confusions(measured: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str, str], dict[str, Any]]:
    """By (calibration, rater, axis) a square table: answers in the vocabulary's order, and counts by both answers."""
    found = {}
    for place, calibration in enumerate(measured):
        protocol = PROTOCOLS.get(calibration["document"].get("reference", {}).get("protocol", ""))
        order = list(protocol.severities) if protocol else []
        for rater, axes in (calibration["document"].get("classifier") or {}).items():
            for axis in axes:
                names = set(axis["confusion"])
                names |= {name for answers in axis["confusion"].values() for name in answers}
                answers = sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
                found[place, rater, axis["axis"]] = {"answers": answers, "counts": axis["confusion"]}
    return found
