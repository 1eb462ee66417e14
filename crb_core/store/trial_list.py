"""The trials of a sweep with what became of them: the malformed and the unscored stand in the same list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, func, select

from crb_core.agent import Outcome
from crb_core.errors import InputError, Where
from crb_core.store.tables import JudgmentRow, StepRow, StepState, SweepJudgeRow, TrialRow, core
from crb_core.store.trials import TrialFilter, list_trials

__all__ = ["NO_ATTEMPT", "UNDER_WAY", "Scored", "trial_list"]

judgments = core(JudgmentRow)
steps = core(StepRow)
sweep_judges = core(SweepJudgeRow)
trials = core(TrialRow)

#: In place of an outcome: no attempt was made yet, and the last one has not ended.
NO_ATTEMPT, UNDER_WAY = "no attempt", "under way"
#: Whether every judge of the trial's build has scored it.
Scored: TypeAlias = Literal["yes", "no"]


def trial_list(
    connection: Connection,
    sweep_id: str,
    wanted: TrialFilter,
    *,
    scored: Scored | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> dict[str, Any]:
    """``outcomes`` with their counts over the filter without its outcome, and ``trials`` of one page.

    A trial has ``result`` (its last outcome, ``no attempt`` or ``under way``), ``judges`` that judge its build,
    ``scored_by`` how many of them have, and ``problems`` (reasons of failed and cancelled steps). InputError for an
    outcome that there is not.
    """
    if wanted.outcome is not None and wanted.outcome not in {*Outcome, NO_ATTEMPT, UNDER_WAY}:
        raise InputError(
            f"There is no outcome {wanted.outcome!r}",
            where=Where(field="outcome"),
            remedy=f"Choose from {', '.join([*Outcome, NO_ATTEMPT, UNDER_WAY])}",
        )
    everything = list_trials(connection, replace(wanted, sweep=sweep_id, outcome=None))
    by_trial, by_build = _scored(connection, sweep_id), _judges(connection, sweep_id)
    problems = _problems(connection, sweep_id)
    records = []
    for record in everything:
        judges, done = by_build.get(record["build"], 0), by_trial.get(record["trial"], 0)
        if scored is not None and (done >= judges > 0) is not (scored == "yes"):
            continue
        records.append(
            {
                **record,
                "result": _result(record),
                "judges": judges,
                "scored_by": done,
                "problems": problems.get(record["trial"], []),
            }
        )
    outcomes = Counter(record["result"] for record in records)
    chosen = [record for record in records if wanted.outcome in {None, record["result"]}]
    return {
        "total": len(chosen),
        "offset": offset,
        "outcomes": {name: outcomes[name] for name in [*Outcome, NO_ATTEMPT, UNDER_WAY] if name in outcomes},
        "trials": chosen[offset : None if limit is None else offset + limit],
    }


def _result(record: Mapping[str, Any]) -> str:
    if not record["attempts"]:
        return NO_ATTEMPT
    return str(record["outcome"] or UNDER_WAY)


def _scored(connection: Connection, sweep_id: str) -> dict[int, int]:
    return _counts(
        connection,
        select(judgments.c.trial_id, func.count())
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(trials.c.sweep_id == sweep_id, judgments.c.scored_at.is_not(None))
        .group_by(judgments.c.trial_id),
    )


def _judges(connection: Connection, sweep_id: str) -> dict[str, int]:
    return _counts(
        connection,
        select(sweep_judges.c.build_id, func.count())
        .where(sweep_judges.c.sweep_id == sweep_id)
        .group_by(sweep_judges.c.build_id),
    )


def _counts(connection: Connection, query: Any) -> dict[Any, int]:
    return {row[0]: int(row[1]) for row in connection.execute(query)}


def _problems(connection: Connection, sweep_id: str) -> dict[int, Sequence[str]]:
    found: dict[int, list[str]] = {}
    for row in connection.execute(
        select(steps.c.trial_id, steps.c.stage, steps.c.state, steps.c.reason)
        .where(steps.c.sweep_id == sweep_id, steps.c.state.in_((StepState.FAILED.value, StepState.CANCELLED.value)))
        .order_by(steps.c.id)
    ):
        said = f"{row.stage} {row.state}" + (f": {row.reason}" if row.reason else "")
        of_trial = found.setdefault(row.trial_id, [])
        if said not in of_trial:
            of_trial.append(said)
    return dict(found)
