"""Calls of a judge's model in the store: what was asked, what came back, what it cost (seed A 9; rule 21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, func, insert, not_, or_, select, update

from crb_core.clock import utc_now
from crb_core.store.tables import JudgeCallRow, SweepRow, TrialRow, core

__all__ = [
    "SUBMITTING",
    "AnsweredCall",
    "CallOutcome",
    "NewCall",
    "RunBudget",
    "Spending",
    "answered_calls",
    "attempts_made",
    "batch_calls",
    "close_call",
    "find_answer",
    "in_batch",
    "judgment_secret",
    "known_batches",
    "open_call",
    "reject_calls",
    "reserve",
    "reserve_in_run",
    "run_budget",
    "run_spending",
    "spending",
    "unsettled_submissions",
]

#: A call that is open for longer than this was lost with its worker; its answer will not come.
STALE_SECONDS = 3600
#: Stands for the id of a batch that is being handed over: after a crash nobody knows whether it was accepted.
SUBMITTING = "submitting"

calls = core(JudgeCallRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


class CallOutcome(StrEnum):
    """What became of a call. Only an answered one is ever used again."""

    ANSWERED = "answered"
    #: An answer that could not be used even after it was asked for again, or a refusal.
    REJECTED = "rejected"
    #: Sent as part of a batch that has not ended.
    BATCHED = "batched"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    #: The service says that the request itself, or the key, is wrong.
    INVALID = "invalid"
    #: The batch was cancelled or expired before it was answered.
    EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True)
class NewCall:
    """A call that is about to be made."""

    trial_id: int | None
    judge_id: str
    stage: str
    label: str
    request_hash: str
    secret: str
    attempt: int
    model: str
    request_digest: str
    reserved_usd: float | None = None
    batch_id: str | None = None
    outcome: CallOutcome | None = None
    read: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class AnsweredCall:
    """Where a stored answer is: the digests of request and answer."""

    id: int
    request_hash: str
    request_digest: str
    answer_digest: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Spending:
    """List price of judge calls in USD: known, and reserved for calls whose price is not (yet) known."""

    max_usd: float | None
    known_usd: float
    reserved_usd: float
    #: Of the reserved part, what belongs to calls that ended without a price or were lost; it will not become less.
    lost_usd: float


@dataclass(frozen=True, kw_only=True)
class RunBudget:
    """What one run of a command may spend on a judge's calls that belong to no trial: those after ``after_call``."""

    judge_id: str
    after_call: int
    max_usd: float


def open_call(connection: Connection, call: NewCall) -> int:
    """Insert the row of a call before it is made, so that a crash cannot hide that it was. Returns its id."""
    values = {
        name: getattr(call, name)
        for name in (
            *("trial_id", "judge_id", "stage", "label", "request_hash", "secret", "attempt", "model"),
            *("request_digest", "reserved_usd", "batch_id"),
        )
    }
    row_id: int = connection.execute(
        insert(calls)
        .values(
            **values,
            outcome=call.outcome,
            read=[dict(each) for each in call.read] if call.read is not None else None,
            started_at=utc_now(),
        )
        .returning(calls.c.id)
    ).scalar_one()
    return row_id


def close_call(connection: Connection, call_id: int, outcome: CallOutcome, **values: Any) -> None:
    """Write how a call ended. ``values`` are further columns of its row."""
    connection.execute(
        update(calls).where(calls.c.id == call_id).values(outcome=outcome.value, finished_at=utc_now(), **values)
    )


def find_answer(
    connection: Connection, judge_id: str, request_hash: str, *, trial_id: int | None, any_trial: bool = False
) -> AnsweredCall | None:
    """The last usable answer to a request: inside one judgment, or of any trial that the judge judged."""
    query = (
        select(calls.c.id, calls.c.request_hash, calls.c.request_digest, calls.c.answer_digest, calls.c.label)
        .where(
            calls.c.judge_id == judge_id,
            calls.c.request_hash == request_hash,
            calls.c.outcome == CallOutcome.ANSWERED.value,
            calls.c.answer_digest.is_not(None),
        )
        .order_by(calls.c.id.desc())
        .limit(1)
    )
    if not any_trial:
        query = query.where(calls.c.trial_id == trial_id if trial_id is not None else calls.c.trial_id.is_(None))
    row = connection.execute(query).one_or_none()
    return None if row is None else AnsweredCall(**row._mapping)


def answered_calls(connection: Connection, judge_id: str, *, sweep_id: str | None = None) -> list[AnsweredCall]:
    """Every usable answer of a judge, optionally of one sweep, oldest first."""
    query = select(
        calls.c.id, calls.c.request_hash, calls.c.request_digest, calls.c.answer_digest, calls.c.label
    ).where(
        calls.c.judge_id == judge_id,
        calls.c.outcome == CallOutcome.ANSWERED.value,
        calls.c.answer_digest.is_not(None),
    )
    if sweep_id is not None:
        query = query.join(trials, trials.c.id == calls.c.trial_id).where(trials.c.sweep_id == sweep_id)
    return [AnsweredCall(**row._mapping) for row in connection.execute(query.order_by(calls.c.id))]


def attempts_made(connection: Connection, judge_id: str, request_hash: str, trial_id: int | None) -> int:
    """How often a judgment has made a request so far."""
    count: int = connection.execute(
        select(func.coalesce(func.max(calls.c.attempt), 0)).where(
            calls.c.judge_id == judge_id, calls.c.request_hash == request_hash, _of_trial(trial_id)
        )
    ).scalar_one()
    return count


def judgment_secret(connection: Connection, judge_id: str, trial_id: int | None) -> str | None:
    """The secret of a judgment that has made a call before; None for a new one."""
    secret: str | None = connection.execute(
        select(calls.c.secret).where(calls.c.judge_id == judge_id, _of_trial(trial_id)).order_by(calls.c.id).limit(1)
    ).scalar_one_or_none()
    return secret


def reject_calls(connection: Connection, call_ids: Sequence[int], *, detail: str) -> None:
    """Mark answers as unusable: they stay as evidence, and the next try of the judgment asks anew."""
    connection.execute(
        update(calls).where(calls.c.id.in_(call_ids)).values(outcome=CallOutcome.REJECTED.value, detail=detail)
    )


def batch_calls(connection: Connection, judge_id: str, trial_id: int | None) -> list[Any]:
    """The rows of a judgment that wait for a batch."""
    return list(
        connection.execute(
            select(calls)
            .where(calls.c.judge_id == judge_id, _of_trial(trial_id), calls.c.outcome == CallOutcome.BATCHED.value)
            .order_by(calls.c.id)
        )
    )


def unsettled_submissions(connection: Connection, judge_id: str, trial_id: int | None) -> list[Any]:
    """The rows of a judgment that were being handed over as a batch when their worker was lost."""
    return list(
        connection.execute(
            select(calls)
            .where(
                calls.c.judge_id == judge_id,
                _of_trial(trial_id),
                calls.c.outcome.is_(None),
                calls.c.batch_id == SUBMITTING,
            )
            .order_by(calls.c.id)
        )
    )


def known_batches(connection: Connection) -> frozenset[str]:
    """The ids of all batches that some call of the store belongs to."""
    found = connection.execute(select(calls.c.batch_id).where(calls.c.batch_id.is_not(None)).distinct())
    return frozenset(found.scalars())


def in_batch(connection: Connection, call_ids: Sequence[int], batch_id: str) -> None:
    """Write that calls wait for a batch."""
    connection.execute(
        update(calls).where(calls.c.id.in_(call_ids)).values(outcome=CallOutcome.BATCHED.value, batch_id=batch_id)
    )


def spending(connection: Connection, sweep_id: str) -> Spending:
    """What the judge calls of a sweep cost by list price, and what its limit is."""
    limit = connection.execute(select(sweeps.c.max_cost_usd).where(sweeps.c.id == sweep_id)).scalar_one()
    return _spent(connection, calls.c.trial_id.in_(select(trials.c.id).where(trials.c.sweep_id == sweep_id)), limit)


def reserve(connection: Connection, sweep_id: str) -> Spending:
    """``spending`` while no one else can reserve: call it first in the write transaction that opens the call."""
    connection.execute(select(sweeps.c.id).where(sweeps.c.id == sweep_id).with_for_update())
    return spending(connection, sweep_id)


def run_budget(connection: Connection, judge_id: str, max_usd: float) -> RunBudget:
    """A limit for the calls without a trial that a judge makes from now on."""
    newest: int = connection.execute(select(func.coalesce(func.max(calls.c.id), 0))).scalar_one()
    return RunBudget(judge_id=judge_id, after_call=newest, max_usd=max_usd)


def run_spending(connection: Connection, budget: RunBudget) -> Spending:
    """What the calls of a run cost by list price so far."""
    mine = and_(calls.c.trial_id.is_(None), calls.c.judge_id == budget.judge_id, calls.c.id > budget.after_call)
    return _spent(connection, mine, budget.max_usd)


def reserve_in_run(connection: Connection, budget: RunBudget) -> Spending:
    """``run_spending`` while no one else can reserve, as ``reserve``."""
    if connection.dialect.name == "postgresql":
        # There is no row of the run to lock. SQLite has one writer at a time.
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"crb judge run {budget.judge_id}"))))
    return run_spending(connection, budget)


def _spent(connection: Connection, chosen: Any, limit: float | None) -> Spending:
    stale = (datetime.now(UTC) - timedelta(seconds=STALE_SECONDS)).isoformat(timespec="milliseconds")
    under_way = or_(
        and_(calls.c.outcome.is_(None), calls.c.started_at > stale.replace("+00:00", "Z")),
        calls.c.outcome == CallOutcome.BATCHED.value,
    )
    unpriced = and_(calls.c.list_price_usd.is_(None), calls.c.reserved_usd.is_not(None))
    ended = not_(func.coalesce(under_way, False))

    def total(column: Any) -> Any:
        return func.coalesce(column, 0.0)

    row = connection.execute(
        select(
            total(func.sum(calls.c.list_price_usd)).label("known"),
            total(func.sum(calls.c.reserved_usd).filter(unpriced)).label("reserved"),
            total(func.sum(calls.c.reserved_usd).filter(and_(unpriced, ended))).label("lost"),
        ).where(chosen)
    ).one()
    return Spending(max_usd=limit, known_usd=row.known, reserved_usd=row.reserved, lost_usd=row.lost)


def _of_trial(trial_id: int | None) -> Any:
    return calls.c.trial_id == trial_id if trial_id is not None else calls.c.trial_id.is_(None)
