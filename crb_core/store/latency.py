"""Latency of a sweep: where the time of its trials and judgments went, as distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from crb_core.agent import Outcome
from crb_core.distribution import percentile
from crb_core.errors import InputError
from crb_core.finding import Record
from crb_core.phases import SPLIT, split
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    JudgeRow,
    Stage,
    StepRow,
    StepState,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters

__all__ = ["BuildLatency", "Latency", "SweepLatency", "sweep_latency"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
judges = core(JudgeRow)
steps = core(StepRow)
trials = core(TrialRow)

_JUDGE_STAGES = (Stage.MATCH, Stage.CLASSIFY, Stage.SCORE)


class Latency(Record):
    """The distribution of one part in milliseconds: Type-7 percentiles over the ``n`` that measured it, of ``of``."""

    n: int
    of: int
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float


class BuildLatency(Record):
    """One agent build, or all of them together. A part that nobody measured is absent.

    ``phases`` are the attempts' parts by name (crb_core/phases.py); ``judging`` are the judges' steps that are done, by
    judge and stage: ``work`` from the take to the end, ``queue`` before that.
    """

    agent: str | None
    build_id: str | None
    attempts: int
    phases: dict[str, Latency]
    judging: dict[str, dict[str, dict[str, Latency]]]


class SweepLatency(Record):
    """``all`` mixes the builds, as ``agent`` None says; ``builds`` has them one by one, by agent."""

    sweep_id: str
    name: str
    #: Whether attempts that did not succeed count too.
    all_attempts: bool
    all: BuildLatency
    builds: tuple[BuildLatency, ...]


def sweep_latency(
    connection: Connection, reference: str, *, agent: str | None = None, all_attempts: bool = False
) -> SweepLatency:
    """The latency of a sweep by name or id, over the attempts that succeeded, or over all that ended.

    InputError when there is no such sweep, or no such ``agent`` in it.
    """
    sweep = find_sweep(connection, reference)
    made = select(trials.c.build_id, attempts.c.phases_ms, attempts.c.review_ms).join(
        trials, trials.c.id == attempts.c.trial_id
    )
    if all_attempts:
        made = made.where(attempts.c.outcome.is_not(None))
    else:
        made = made.where(attempts.c.outcome == Outcome.SUCCEEDED.value)
    parts: dict[str, list[dict[str, float]]] = {}
    for build_id, phases_ms, review_ms in connection.execute(made.where(trials.c.sweep_id == sweep.id)).all():
        parts.setdefault(build_id, []).append(split(phases_ms, review_ms))
    judged: dict[str, dict[tuple[str, str], list[tuple[float | None, float | None]]]] = {}
    for build_id, judge, stage, queue_ms, work_ms in connection.execute(
        select(steps.c.build_id, judges.c.name, steps.c.stage, steps.c.queue_ms, steps.c.work_ms)
        .join(judges, judges.c.id == steps.c.judge_id)
        .where(
            steps.c.sweep_id == sweep.id,
            steps.c.state == StepState.DONE.value,
            steps.c.stage.in_([stage.value for stage in _JUDGE_STAGES]),
        )
    ).all():
        judged.setdefault(build_id, {}).setdefault((judge, stage), []).append((queue_ms, work_ms))
    named = [
        (row.agent, row.id)
        for row in connection.execute(
            select(builds.c.agent, builds.c.id)
            .where(builds.c.id.in_(select(trials.c.build_id).where(trials.c.sweep_id == sweep.id).distinct()))
            .order_by(by_characters(builds.c.agent), builds.c.id)
        )
        if agent is None or row.agent == agent
    ]
    if agent is not None and not named:
        raise InputError(
            f"The sweep {sweep.name} has no agent {agent!r}", remedy=f"`crb sweep show {sweep.name}` lists them"
        )
    chosen = [build_id for _, build_id in named]
    together: dict[tuple[str, str], list[tuple[float | None, float | None]]] = {}
    for build_id in chosen:
        for key, values in judged.get(build_id, {}).items():
            together.setdefault(key, []).extend(values)
    return SweepLatency(
        sweep_id=sweep.id,
        name=sweep.name,
        all_attempts=all_attempts,
        all=_latency(None, None, [each for build_id in chosen for each in parts.get(build_id, [])], together),
        builds=tuple(
            _latency(name, build_id, parts.get(build_id, []), judged.get(build_id, {})) for name, build_id in named
        ),
    )


def _latency(
    agent: str | None,
    build_id: str | None,
    parts: Sequence[Mapping[str, float]],
    judged: Mapping[tuple[str, str], Sequence[tuple[float | None, float | None]]],
) -> BuildLatency:
    phases = {name: _summary([each.get(name) for each in parts]) for name in SPLIT}
    judging: dict[str, dict[str, dict[str, Latency]]] = {}
    order = [stage.value for stage in _JUDGE_STAGES]
    for judge, stage in sorted(judged, key=lambda key: (key[0], order.index(key[1]))):
        values = judged[judge, stage]
        found = {
            "queue": _summary([queue for queue, _ in values]),
            "work": _summary([work for _, work in values]),
        }
        measured = {name: latency for name, latency in found.items() if latency is not None}
        if measured:
            judging.setdefault(judge, {})[stage] = measured
    return BuildLatency(
        agent=agent,
        build_id=build_id,
        attempts=len(parts),
        phases={name: latency for name, latency in phases.items() if latency is not None},
        judging=judging,
    )


def _summary(values: Sequence[float | None]) -> Latency | None:
    measured = [value for value in values if value is not None]
    if not measured:
        return None
    points = {name: percentile(measured, p) for name, p in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))}
    known = {name: value for name, value in points.items() if value is not None}
    return Latency(n=len(measured), of=len(values), maximum=max(measured), **known)
