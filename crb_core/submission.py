"""A leaderboard submission: a row with its component runs and the criteria that it was checked against (seed A 7.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.distribution import ROUNDS_TO_SUBMIT
from crb_core.errors import InputError
from crb_core.finding import Record
from crb_core.rows import Row

__all__ = ["FORMAT", "Criterion", "criteria", "submission"]

FORMAT = "crb.submission/1"


class Criterion(Record):
    """One condition of a submission: what is asked for, what was found, and whether that is enough."""

    name: str
    required: str
    found: str
    passed: bool


def criteria(
    row: Row, *, corpus_pull_requests: int, calibration: Mapping[str, Any] | None, said_uncalibrated: bool
) -> tuple[Criterion, ...]:
    """Every condition, passed or not.

    ``corpus_pull_requests`` is the size of the corpus; ``calibration`` what is stored of the judge's, None where there
    is none, and ``said_uncalibrated`` whether the submitter states that.
    """
    complete = [each.number for each in row.rounds if each.planned and each.scored == each.planned]
    whole = {len({trial.pull_request for trial in row.trials if trial.round == number}) for number in complete}
    unscored = sum(each.planned - each.scored for each in row.rounds)
    value = row.macro[row.headline]
    key = {
        "older": "it is older than every trial",
        "not older": "some trial began before it was there",
        "unknown": "when the trials ran is not recorded",
    }[row.answer_key]
    judged = "calibrated" if calibration is not None else "not calibrated, and this says so"
    return (
        Criterion(
            name="rounds",
            required=f"{ROUNDS_TO_SUBMIT} complete rounds or more, and none that is not",
            found=f"{len(complete)} of {len(row.rounds)} rounds are complete, {unscored} trials have no score",
            passed=len(complete) >= ROUNDS_TO_SUBMIT and not unscored,
        ),
        Criterion(
            name="whole corpus",
            required=f"all {corpus_pull_requests} pull requests of the corpus",
            found=f"{max(whole, default=0)} pull requests a round",
            passed=whole == {corpus_pull_requests},
        ),
        Criterion(
            name="reviewer",
            required="an agent that reviews, not one that replays recorded reviews",
            found=row.build.kind,
            passed=row.build.kind == "reviewer",
        ),
        Criterion(
            name="isolated",
            required="a fresh container for every trial",
            found=f"runner {row.build.runner}",
            passed=row.build.isolated,
        ),
        Criterion(
            name="answer key",
            required="an answer key that is older than every trial",
            found=key,
            passed=row.answer_key == "older",
        ),
        Criterion(
            name="score",
            required=f"a defined macro {row.headline}",
            found=value.reason or "defined",
            passed=value.mean is not None,
        ),
        Criterion(
            name="judge",
            required="a calibrated judge, or the statement that it is not",
            found=judged if calibration is not None or said_uncalibrated else "not calibrated, and nothing says so",
            passed=calibration is not None or said_uncalibrated,
        ),
    )


def submission(row: Row, checked: Sequence[Criterion], about: Mapping[str, Any]) -> dict[str, Any]:
    """The document; InputError with every reason where a criterion is not met.

    ``about`` is what the row was computed from (sweep, corpus, judge with its calibration). The same row gives the same
    document.
    """
    failed = [each for each in checked if not each.passed]
    if failed:
        reasons = "; ".join(f"{each.name}: {each.found}, but needed is {each.required}" for each in failed)
        raise InputError(
            f"{row.build.agent} cannot be submitted. {reasons}",
            remedy="Mend these and submit again; a judge without calibration is submitted with --uncalibrated",
        )
    document = row.to_json()
    rounds = document.pop("rounds")
    return {
        "format": FORMAT,
        **about,
        "agent_build": row.build.model_dump(mode="json", exclude={"secrets"}),
        "criteria": [each.model_dump(mode="json") for each in checked],
        "result": document,
        "component_runs": rounds,
    }
