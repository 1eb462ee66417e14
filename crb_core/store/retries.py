"""Which steps a person may try again: those that failed or were cancelled, never what succeeded (rule 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.errors import CrbError, InputError
from crb_core.store.steps import RETRIABLE
from crb_core.store.steps.by_hand import chunks
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import AgentBuildRow, JudgeRow, Stage, StepRow, StepState, SweepBuildRow, core
from crb_core.store.trials import TrialFilter, list_trials

__all__ = [
    "CheckUnchanged",
    "Compared",
    "PlannedBuild",
    "Refused",
    "Retriable",
    "RetryStep",
    "check_retries",
    "choose_retries",
    "planned_builds",
]

builds = core(AgentBuildRow)
judges = core(JudgeRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)

_OF_THE_TRIAL = ("trial", "sweep_id", "sweep", "build", "agent", "pull_request", "round", "attempts", "outcome")


@dataclass(frozen=True, kw_only=True)
class RetryStep:
    """A step that may be tried again, with the trial that it belongs to."""

    step_id: int
    trial: int
    sweep_id: str
    sweep: str
    build: str
    agent: str
    pull_request: str
    round: int
    stage: str
    #: Name of the judge; None for a review.
    judge: str | None
    #: ``failed``, ``cancelled``, or ``running`` where it was asked to stop and has not yet.
    state: str
    attempts: int
    outcome: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class PlannedBuild:
    """A build of a sweep as it was planned, and what its agent was loaded from."""

    sweep: str
    sweep_id: str
    build: AgentBuild
    #: Name of a bundled agent, or path of a folder or manifest; None where it was not recorded.
    agent_source: str | None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Builds of sweeps beside what their agents are now.

    ``refused`` says by (sweep id, build id) why an agent is another build now, or nobody can say; ``notes`` are
    sentences about what could not be compared here.
    """

    refused: Mapping[tuple[str, str], CrbError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


CheckUnchanged = Callable[[Sequence[PlannedBuild]], Compared]


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Trials of one build of a sweep whose reviews are not tried again, and why."""

    sweep_id: str
    sweep: str
    build: str
    agent: str
    trials: tuple[int, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"trials": list(self.trials)}


@dataclass(frozen=True, kw_only=True)
class Retriable:
    """The chosen steps that may be tried again, those that may not by build, and what could not be compared."""

    steps: tuple[RetryStep, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


def check_retries(chosen: Sequence[RetryStep], planned: Sequence[PlannedBuild], check: CheckUnchanged) -> Retriable:
    """Leave out reviews whose agent has become another build, which would mix two builds in one sweep.

    ``planned`` are the builds of the reviews among ``chosen``. A judge's step is always kept: no agent runs for it.
    The first refusal is raised where nothing else is left.
    """
    compared = check(planned)
    kept = [step for step in chosen if not _is_refused(step, compared)]
    if not kept and compared.refused:
        raise next(iter(compared.refused.values()))
    refused = []
    for (sweep_id, build), error in compared.refused.items():
        mine = [step for step in chosen if (step.sweep_id, step.build) == (sweep_id, build)]
        numbers = tuple(step.trial for step in mine if _is_refused(step, compared))
        if numbers:
            refused.append(
                Refused(
                    sweep_id=sweep_id,
                    sweep=mine[0].sweep,
                    build=build,
                    agent=mine[0].agent,
                    trials=numbers,
                    reason=str(error),
                )
            )
    return Retriable(steps=tuple(kept), refused=tuple(refused), notes=compared.notes)


def _is_refused(step: RetryStep, compared: Compared) -> bool:
    return step.stage == Stage.REVIEW.value and (step.sweep_id, step.build) in compared.refused


def choose_retries(connection: Connection, wanted: TrialFilter, stages: Sequence[Stage] = ()) -> tuple[RetryStep, ...]:
    """The steps of the wanted trials that failed or were cancelled, by trial; ``stages`` narrows them down.

    A trial whose review succeeded keeps it: only its judge steps are tried again. InputError when a trial that was
    named itself has nothing to try again, and when nothing at all was chosen.
    """
    chosen = {record["trial"]: record for record in list_trials(connection, wanted)}
    missing = set(wanted.trial_ids) - set(chosen)
    if missing:
        known = {record["trial"] for record in list_trials(connection, TrialFilter(trial_ids=tuple(missing)))}
        if missing - known:
            raise InputError(f"There is no trial {min(missing - known)}", remedy="`crb trial list` shows the numbers")
        raise InputError(f"Trial {min(missing)} is not among those that the filter leaves")
    found = [
        RetryStep(
            step_id=row.id,
            stage=row.stage,
            judge=row.judge,
            state=row.state,
            reason=row.reason,
            **{name: chosen[row.trial_id][name] for name in _OF_THE_TRIAL},
        )
        for row in _steps_of(connection, list(chosen))
        if _is_retriable(row) and (not stages or Stage(row.stage) in stages)
    ]
    retried = {step.trial for step in found}
    for trial in wanted.trial_ids:
        if trial not in retried:
            raise _nothing_to_retry(chosen[trial], stages)
    if not found:
        if wanted.outcome == "succeeded" and not stages:
            raise InputError(
                "A trial that succeeded is not tried again", remedy="`crb sweep start --force` measures it anew"
            )
        raise InputError(
            f"No {_name_of(stages)} that failed or was cancelled matches",
            remedy="`crb trial list --failed` shows the failed ones",
        )
    return tuple(found)


def planned_builds(connection: Connection, pairs: Sequence[tuple[str, str]]) -> tuple[PlannedBuild, ...]:
    """The builds of (sweep id, build id) pairs."""
    found = []
    for sweep_id, build_id in dict.fromkeys(pairs):
        row = connection.execute(
            select(builds.c.document, sweep_builds.c.agent_source)
            .join(sweep_builds, sweep_builds.c.build_id == builds.c.id)
            .where(sweep_builds.c.sweep_id == sweep_id, builds.c.id == build_id)
        ).one()
        found.append(
            PlannedBuild(
                sweep=find_sweep(connection, sweep_id).name,
                sweep_id=sweep_id,
                build=AgentBuild.model_validate(row.document),
                agent_source=row.agent_source,
            )
        )
    return tuple(found)


def _steps_of(connection: Connection, trial_ids: Sequence[int]) -> Iterator[Any]:
    for chunk in chunks(trial_ids):
        yield from connection.execute(
            select(
                steps.c.id,
                steps.c.trial_id,
                steps.c.stage,
                steps.c.state,
                steps.c.cancel_requested,
                steps.c.reason,
                judges.c.name.label("judge"),
            )
            .outerjoin(judges, judges.c.id == steps.c.judge_id)
            .where(steps.c.trial_id.in_(chunk))
            .order_by(steps.c.trial_id, steps.c.id)
        )


def _is_retriable(row: Any) -> bool:
    return row.state in RETRIABLE or (row.state == StepState.RUNNING.value and row.cancel_requested)


def _nothing_to_retry(trial: dict[str, Any], stages: Sequence[Stage]) -> InputError:
    number = trial["trial"]
    if stages:
        return InputError(
            f"No {_name_of(stages)} of trial {number} failed or was cancelled", remedy=f"See `crb trial show {number}`"
        )
    if trial["review"] == StepState.DONE.value:
        return InputError(
            f"Trial {number} succeeded, so it is not tried again",
            remedy="`crb sweep start --force` measures it anew, in a sweep of its own",
        )
    return InputError(
        f"The review of trial {number} is {trial['review']}, so there is nothing to try again",
        remedy="Only what failed or was cancelled is; `crb trial cancel` ends what waits or runs",
    )


def _name_of(stages: Sequence[Stage]) -> str:
    return f"{' or '.join(stages)} step" if stages else "trial"
