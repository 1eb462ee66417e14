"""What people do to sweeps, trials and workers while they run: pause, resume, cancel, retry, limits, slots.

The command line and the web's operator API both call these. Each writes its row of ``operator_action`` in the
transaction of the change itself, and returns it; an operation that changes nothing writes none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from sqlalchemy import Connection, Table, select, update

from crb_core.errors import InputError, UsageError
from crb_core.settings import MAX_SLOTS
from crb_core.store.operation_log import NOTHING, Operation, list_operations, record_operation, storable_text
from crb_core.store.retries import Refused, RetryStep
from crb_core.store.steps import Changed, Scope, cancel_steps, restore_steps, retry_steps
from crb_core.store.steps.by_hand import chunks
from crb_core.store.sweeps import builds_of_agent, find_sweep
from crb_core.store.tables import (
    Stage,
    SweepBuildRow,
    SweepRow,
    SweepState,
    TrialRow,
    WorkerRow,
    core,
)
from crb_core.store.texts import by_characters
from crb_core.store.trials import MAX_NUMBER
from crb_core.store.workers import forget_workers

__all__ = [
    "COMMAND_LINE",
    "FARM",
    "KEEP",
    "Keep",
    "Operation",
    "cancel_sweep",
    "cancel_trials",
    "find_worker",
    "forget_silent_workers",
    "list_operations",
    "pause_build",
    "pause_sweep",
    "resume_sweep",
    "retry",
    "set_limits",
    "set_worker_slots",
]

sweep_builds = core(SweepBuildRow)
sweeps = core(SweepRow)
trials = core(TrialRow)
workers = core(WorkerRow)

#: Actors that have no access token.
COMMAND_LINE = "command line"
FARM = "farm"

MAX_REASON = 1000
MAX_CONCURRENCY = 100_000
MAX_PRIORITY = 1_000_000
#: Weights from a thousandth to a thousand.
WEIGHTS = (0.001, 1000.0)


class Keep(Enum):
    """Says that a limit stays as it is, where None takes it away."""

    KEEP = "keep"


KEEP = Keep.KEEP


def pause_sweep(
    connection: Connection, sweep: str, *, actor: str, agent: str | None = None, reason: str | None = None
) -> Operation:
    """Take no more steps of a sweep, or no more reviews of one agent in it; what runs may end.

    What a paused agent has found already is judged; of a paused sweep nothing is. InputError for a cancelled sweep.
    """
    row = find_sweep(connection, sweep)
    if agent is not None:
        build_ids = builds_of_agent(connection, row, agent)
        return _pause_builds(connection, row, build_ids, agent=agent, actor=actor, reason=reason)
    if row.state == SweepState.CANCELLED.value:
        raise InputError(
            f"The sweep {row.name} is cancelled, so nothing of it runs",
            remedy=f"`crb sweep resume {row.name}` goes on with it",
        )
    before = {"state": row.state, "paused_reason": row.paused_reason}
    after = {"state": SweepState.PAUSED.value, "paused_reason": storable_text("reason", reason, MAX_REASON)}
    _set(connection, sweeps, sweeps.c.id == row.id, after)
    return record_operation(connection, "pause", actor, row, reason=after["paused_reason"], before=before, after=after)


def pause_build(connection: Connection, sweep_id: str, build_id: str, *, actor: str, reason: str) -> Operation:
    """Pause one build of a sweep, for example because its first trial was refused a host."""
    row = find_sweep(connection, sweep_id)
    return _pause_builds(connection, row, (build_id,), agent=None, actor=actor, reason=reason)


def resume_sweep(connection: Connection, sweep: str, *, actor: str, agent: str | None = None) -> Operation:
    """Go on with a paused or cancelled sweep, or with one agent in it.

    A sweep that was only paused goes on as it is; of another one all that was cancelled waits again. A cancelled sweep
    that is resumed for one agent is active, with the others' steps cancelled as they were.
    """
    row = find_sweep(connection, sweep)
    build_ids = None if agent is None else builds_of_agent(connection, row, agent)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    is_only_paused = row.state == SweepState.PAUSED.value and agent is None
    if row.state == SweepState.CANCELLED.value or is_only_paused:
        before |= {"state": row.state, "paused_reason": row.paused_reason}
        after |= {"state": SweepState.ACTIVE.value, "paused_reason": None}
        _set(connection, sweeps, sweeps.c.id == row.id, after)
    if build_ids is not None:
        paused = _paused_builds(connection, row.id, build_ids)
        if paused:
            before["paused"] = paused
            after["paused"] = {}
            mine = (sweep_builds.c.sweep_id == row.id) & sweep_builds.c.build_id.in_(build_ids)
            _set(connection, sweep_builds, mine, {"paused": False, "paused_reason": None})
        if paused and row.state != SweepState.CANCELLED.value:
            return record_operation(connection, "resume", actor, row, agent=agent, before=before, after=after)
    changed = NOTHING
    if not is_only_paused:
        changed = restore_steps(connection, Scope(sweep_id=row.id, build_ids=build_ids))
    return record_operation(connection, "resume", actor, row, agent=agent, changed=changed, before=before, after=after)


def cancel_sweep(
    connection: Connection, sweep: str, *, actor: str, agent: str | None = None, reason: str | None = None
) -> Operation:
    """End a sweep, or one agent's trials in it: what waits is cancelled, what runs is asked to stop."""
    row = find_sweep(connection, sweep)
    why = storable_text("reason", reason, MAX_REASON)
    if agent is not None:
        build_ids = builds_of_agent(connection, row, agent)
        changed = cancel_steps(connection, Scope(sweep_id=row.id, build_ids=build_ids))
        return record_operation(connection, "cancel", actor, row, agent=agent, reason=why, changed=changed)
    before = {"state": row.state, "paused_reason": row.paused_reason}
    after = {"state": SweepState.CANCELLED.value, "paused_reason": None}
    _set(connection, sweeps, sweeps.c.id == row.id, after)
    changed = cancel_steps(connection, Scope(sweep_id=row.id))
    return record_operation(connection, "cancel", actor, row, reason=why, changed=changed, before=before, after=after)


def cancel_trials(
    connection: Connection, trial_ids: Sequence[int], *, actor: str, reason: str | None = None
) -> list[Operation]:
    """End single trials, wherever they are; one operation for each sweep. InputError for one that does not exist."""
    by_sweep: dict[str, list[int]] = {}
    missing = set(trial_ids)
    for chunk in chunks([number for number in missing if 0 < number <= MAX_NUMBER]):
        for row in connection.execute(select(trials.c.id, trials.c.sweep_id).where(trials.c.id.in_(chunk))):
            by_sweep.setdefault(row.sweep_id, []).append(row.id)
            missing.discard(row.id)
    if missing:
        raise InputError(f"There is no trial {min(missing)}", remedy="`crb trial list` shows the numbers")
    why = storable_text("reason", reason, MAX_REASON)
    done = []
    for sweep_id, mine in by_sweep.items():
        changed = cancel_steps(connection, Scope(sweep_id=sweep_id, trial_ids=tuple(mine)))
        row = find_sweep(connection, sweep_id)
        done.append(
            record_operation(
                connection, "cancel", actor, row, trial_ids=tuple(sorted(mine)), reason=why, changed=changed
            )
        )
    return done


def retry(
    connection: Connection, chosen: Sequence[RetryStep], *, actor: str, refused: Sequence[Refused] = ()
) -> list[Operation]:
    """Put chosen steps (``retries.choose_retries``) back to ready; one operation for each sweep.

    A cancelled sweep becomes active for them; what else was cancelled in it stays so. ``refused`` were left out, which
    is written down as the reason.
    """
    done = []
    for sweep_id in dict.fromkeys(step.sweep_id for step in chosen):
        mine = [step for step in chosen if step.sweep_id == sweep_id]
        row = find_sweep(connection, sweep_id)
        ids = set(retry_steps(connection, [step.step_id for step in mine]))
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        if ids and row.state == SweepState.CANCELLED.value:
            before, after = {"state": row.state}, {"state": SweepState.ACTIVE.value}
            _set(connection, sweeps, sweeps.c.id == sweep_id, after)
        numbers = tuple(sorted({step.trial for step in mine if step.step_id in ids}))
        changed = Changed(waiting=len(ids), running=0)
        done.append(
            record_operation(
                connection,
                "retry",
                actor,
                row,
                trial_ids=numbers,
                reason=_left_out([each for each in refused if each.sweep_id == sweep_id]),
                changed=changed,
                before=before,
                after=after,
            )
        )
    return done


def _left_out(refused: Sequence[Refused]) -> str | None:
    said = [
        f"the agent {each.agent} is another build now, so {len(each.trials)} of its trials stay as they are"
        for each in refused
    ]
    return "; ".join(said)[:MAX_REASON] or None


def set_limits(
    connection: Connection,
    sweep: str,
    *,
    actor: str,
    agent: str | None = None,
    priority: int | Keep = KEEP,
    weight: float | Keep = KEEP,
    concurrency: int | Keep | None = KEEP,
    max_cost_usd: float | Keep | None = KEEP,
) -> Operation:
    """Change a sweep's priority, weight, concurrency or limit of cost, or one agent's concurrency, also while it runs.

    ``concurrency`` counts reviews at once, ``max_cost_usd`` is what the judges' calls may reach by list price; None
    takes either limit away. InputError for a value out of range.
    """
    row = find_sweep(connection, sweep)
    wanted: dict[str, Any] = {}
    if priority is not KEEP:
        wanted["priority"] = _whole("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)
    if weight is not KEEP:
        wanted["weight"] = _weight(weight)
    if concurrency is not KEEP:
        wanted["concurrency"] = None if concurrency is None else _concurrency(concurrency)
    if max_cost_usd is not KEEP:
        wanted["max_cost_usd"] = None if max_cost_usd is None else _amount(max_cost_usd)
    if not wanted:
        raise InputError("No limit is named", remedy="Give --priority, --weight, --concurrency or --max-cost")
    if agent is None:
        before = {name: getattr(row, name) for name in wanted}
        _set(connection, sweeps, sweeps.c.id == row.id, wanted)
        return record_operation(connection, "set limits", actor, row, before=before, after=wanted)
    if set(wanted) != {"concurrency"}:
        raise InputError(
            "Priority, weight and cost belong to a sweep, not to an agent in it", remedy="Give them without --agent"
        )
    mine = (sweep_builds.c.sweep_id == row.id) & sweep_builds.c.build_id.in_(builds_of_agent(connection, row, agent))
    values = connection.execute(select(sweep_builds.c.concurrency).where(mine)).scalars().all()
    before = {"concurrency": next((value for value in values if value != wanted["concurrency"]), values[0])}
    _set(connection, sweep_builds, mine, wanted)
    return record_operation(connection, "set limits", actor, row, agent=agent, before=before, after=wanted)


def set_worker_slots(
    connection: Connection, worker: str, *, actor: str, review: int | None = None, judge: int | None = None
) -> Operation:
    """Ask a running worker for other slots; it follows within seconds. ``worker`` is its name or a unique beginning.

    ``review`` 0 takes no more reviews; those that run end. InputError where the worker does not have such a queue.
    """
    row = find_worker(connection, worker)
    now = dict(row.wanted_slots or row.slots)
    wanted = dict(now)
    if review is not None:
        if Stage.REVIEW.value not in now:
            raise InputError(f"The worker {row.name} runs no reviews", remedy="`crb workers list` shows the queues")
        wanted[Stage.REVIEW.value] = _whole("review slots", review, 0, MAX_SLOTS)
    if judge is not None:
        queues = [queue for queue in now if queue != Stage.REVIEW.value]
        if not queues:
            raise InputError(f"The worker {row.name} does not judge", remedy="`crb workers list` shows the queues")
        wanted |= dict.fromkeys(queues, _whole("judge slots", judge, 1, MAX_SLOTS))
    if review is None and judge is None:
        raise InputError("No slots are named", remedy="Give --review-slots or --judge-slots")
    _set(connection, workers, workers.c.name == row.name, {"wanted_slots": wanted})
    return record_operation(connection, "set slots", actor, None, worker=row.name, before=now, after=wanted)


def forget_silent_workers(connection: Connection, beats: Mapping[str, int], *, actor: str) -> list[Operation]:
    """List workers no more whose beat still is the given one and that hold no step; one operation for each of them."""
    return [
        record_operation(
            connection,
            "forget worker",
            actor,
            None,
            worker=row.name,
            before={"slots": dict(row.slots), "beat": row.beat},
        )
        for row in forget_workers(connection, beats)
    ]


def _pause_builds(
    connection: Connection, sweep: Any, build_ids: Sequence[str], *, agent: str | None, actor: str, reason: str | None
) -> Operation:
    why = storable_text("reason", reason, MAX_REASON)
    mine = (sweep_builds.c.sweep_id == sweep.id) & sweep_builds.c.build_id.in_(build_ids)
    before = _paused_builds(connection, sweep.id, build_ids)
    _set(connection, sweep_builds, mine, {"paused": True, "paused_reason": why})
    after = _paused_builds(connection, sweep.id, build_ids)
    return record_operation(
        connection, "pause", actor, sweep, agent=agent, reason=why, before={"paused": before}, after={"paused": after}
    )


def _paused_builds(connection: Connection, sweep_id: str, build_ids: Sequence[str]) -> dict[str, str | None]:
    """Reasons of the paused ones among the builds, by build id."""
    rows = connection.execute(
        select(sweep_builds.c.build_id, sweep_builds.c.paused_reason).where(
            sweep_builds.c.sweep_id == sweep_id, sweep_builds.c.build_id.in_(build_ids), sweep_builds.c.paused
        )
    )
    return {row.build_id: row.paused_reason for row in rows}


def find_worker(connection: Connection, reference: str) -> Any:
    """The row of the worker with that name or unique beginning of one; InputError where it is none, or several."""
    rows = connection.execute(select(workers).order_by(by_characters(workers.c.name))).all()
    found = [row for row in rows if row.name == reference] or [row for row in rows if row.name.startswith(reference)]
    if len(found) == 1 and reference:
        return found[0]
    if found:
        names = ", ".join(row.name for row in found[:5])
        raise InputError(f"The workers {names} begin with {reference!r}", remedy="Give more of the name")
    raise InputError(f"There is no worker named {reference!r}", remedy="`crb workers list` shows those that run")


def _set(connection: Connection, table: Table, where: Any, values: dict[str, Any]) -> None:
    connection.execute(update(table).where(where).values(values))


def _whole(what: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"The {what} {value!r} is not a whole number from {least} to {most}")
    return value


def _concurrency(value: int) -> int:
    if value == 0:
        raise InputError(
            "A concurrency of 0 would never go on", remedy="`crb sweep pause` takes no more steps; `none` is no limit"
        )
    return _whole("concurrency", value, 1, MAX_CONCURRENCY)


def _amount(usd: Any) -> float:
    if not isinstance(usd, int | float) or isinstance(usd, bool) or not 0 <= usd < math.inf:
        raise UsageError(f"The limit of cost is {usd!r}; it is an amount in USD from 0")
    return float(usd)


def _weight(value: float) -> float:
    least, most = WEIGHTS
    if isinstance(value, bool) or not math.isfinite(value) or not least <= value <= most:
        raise UsageError(f"The weight {value!r} is not a number from {least} to {most:.0f}")
    return float(value)
