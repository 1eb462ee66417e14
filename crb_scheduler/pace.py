"""How fast a sweep goes, and so when it will be done: what ended lately, by the workers' clocks."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select

from crb_core.finding import Record
from crb_core.store.tables import AttemptRow, JudgmentRow, Stage, StepState, SweepState, TrialRow, core
from crb_scheduler.estimate import MIN_ENDED, BuildWork, Estimate, Window, estimate
from crb_scheduler.progress_parts import TrialState, WorkerState, moment

__all__ = ["Rate", "read_estimate", "read_rate", "read_window", "stored_time"]

attempts = core(AttemptRow)
judgments = core(JudgmentRow)
trials = core(TrialRow)

#: Seconds over which throughput is measured; the first in which enough has ended counts.
WINDOWS_SECONDS = (600, 3600, 6 * 3600)

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)
_REVIEWED = (TrialState.JUDGING, TrialState.SCORED, TrialState.FAILED, TrialState.JUDGE_FAILED)
_JUDGE_STAGES = (Stage.MATCH.value, Stage.CLASSIFY.value, Stage.SCORE.value)


class Rate(Record):
    """Throughput over the last ``window_seconds`` by the workers' clocks; ``trials_per_minute`` are those that ended.

    ``reviews_at_once`` is the review time that ended in the window divided by the window.
    """

    window_seconds: float
    trials_per_minute: float
    reviews_per_minute: float
    judgments_per_minute: float
    reviews_at_once: float


def read_window(connection: Connection, sweep_id: str, now: datetime) -> tuple[Window, str] | None:
    """The shortest window in which enough ended, else the longest, with its beginning; None where nothing ever ended.

    A reader whose clock lags behind the workers' takes their last sign as the present.
    """
    first, last = connection.execute(
        select(func.min(attempts.c.started_at), func.max(attempts.c.finished_at))
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(trials.c.sweep_id == sweep_id)
    ).one()
    scored = connection.execute(
        select(func.max(judgments.c.scored_at))
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(trials.c.sweep_id == sweep_id)
    ).scalar_one()
    signs = [moment(each) for each in (last, scored) if each is not None]
    if first is None or not signs:
        return None
    end = max(now, *signs)
    so_far = (end - moment(first)).total_seconds()
    window = since = None
    for seconds in WINDOWS_SECONDS:
        since = stored_time(end - timedelta(seconds=seconds))
        made = connection.execute(
            select(func.count().label("n"), func.coalesce(func.sum(attempts.c.review_ms), 0.0).label("spent"))
            .join(trials, trials.c.id == attempts.c.trial_id)
            .where(trials.c.sweep_id == sweep_id, attempts.c.finished_at >= since)
        ).one()
        judged = connection.execute(
            select(func.count(judgments.c.trial_id.distinct()))
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(trials.c.sweep_id == sweep_id, judgments.c.scored_at >= since)
        ).scalar_one()
        window = Window(
            seconds=max(0.001, min(float(seconds), so_far)), attempts=made.n, spent_ms=made.spent, judged=judged
        )
        if max(window.attempts, window.judged) >= MIN_ENDED or so_far <= seconds:
            break
    assert window is not None
    assert since is not None
    return window, since


def read_rate(connection: Connection, sweep_id: str, window: Window, since: str, ended: Set[int]) -> Rate:
    """The throughput in a window. ``ended`` are the sweep's trials that will not change any more."""
    touched: set[int] = set()
    for trial_id, column in (
        (attempts.c.trial_id, attempts.c.finished_at),
        (judgments.c.trial_id, judgments.c.scored_at),
    ):
        touched.update(
            connection.execute(
                select(trial_id)
                .join(trials, trials.c.id == trial_id)
                .where(trials.c.sweep_id == sweep_id, column >= since)
            ).scalars()
        )
    minutes = window.seconds / 60
    return Rate(
        window_seconds=window.seconds,
        trials_per_minute=len(touched & ended) / minutes,
        reviews_per_minute=window.attempts / minutes,
        judgments_per_minute=window.judged / minutes,
        reviews_at_once=window.spent_ms / (window.seconds * 1000),
    )


def read_estimate(
    connection: Connection,
    sweep_id: str,
    *,
    state: str,
    by_build: Mapping[str, Mapping[str, int]],
    paused: Set[str],
    queues: Mapping[str, Mapping[str, int]],
    window: Window | None,
    workers: tuple[WorkerState, ...],
) -> Estimate:
    """When the sweep will be done. ``by_build`` are trials by build and state, ``queues`` steps by stage and state."""
    if state != SweepState.ACTIVE.value:
        return Estimate(seconds=None, how=f"the sweep is {state}")
    if not any(each in _OPEN for stage in queues.values() for each in stage):
        return Estimate(seconds=None, how="nothing is left to do")
    if not workers:
        return Estimate(seconds=None, how="the farm has no worker")
    if all(worker.alive is False for worker in workers):
        return Estimate(seconds=None, how="no worker of the farm is heard of")
    spent = {
        row.build_id: row.spent
        for row in connection.execute(
            select(trials.c.build_id, func.coalesce(func.sum(attempts.c.review_ms), 0.0).label("spent"))
            .join(attempts, attempts.c.trial_id == trials.c.id)
            .where(trials.c.sweep_id == sweep_id)
            .group_by(trials.c.build_id)
        )
    }
    work = {
        build_id: BuildWork(
            waiting=0 if build_id in paused else states.get(TrialState.WAITING.value, 0),
            reviewing=states.get(TrialState.REVIEWING.value, 0),
            ended=sum(states.get(each.value, 0) for each in _REVIEWED),
            spent_ms=spent.get(build_id, 0.0),
        )
        for build_id, states in by_build.items()
    }
    left_out = sum(
        states.get(TrialState.WAITING.value, 0) for build_id, states in by_build.items() if build_id in paused
    )
    found = estimate(
        work,
        window,
        to_judge=sum(states.get(TrialState.JUDGING.value, 0) for states in by_build.values()),
        judges_behind=any(queues.get(stage, {}).get(StepState.READY.value) for stage in _JUDGE_STAGES),
    )
    if not left_out:
        return found
    return Estimate(seconds=found.seconds, how=f"{found.how}; {left_out} trials of paused agents are left out")


def stored_time(when: datetime) -> str:
    """A time as the store has it, so that both compare as text."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
