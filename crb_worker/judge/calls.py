"""Calls of a judge's model: stored before they are made, tried again where that helps, never made twice.

A judgment that is taken up again finds the answers that it has and goes on at the first request without one.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crb_core.errors import CrbError, InputError, SettingsError, StoreError, UnavailableError
from crb_core.store.judge_calls import (
    SUBMITTING,
    AnsweredCall,
    CallOutcome,
    NewCall,
    Spending,
    attempts_made,
    close_call,
    find_answer,
    judgment_secret,
    open_call,
    reject_calls,
    reserve,
    reserve_in_run,
)
from crb_worker.judge.base import CallWork, LaterError, StoppedError
from crb_worker.judge.client import CallFailedError, Endpoint, RawAnswer, open_client, send
from crb_worker.judge.prices import TABLE, TokenUsage, list_price, most_it_can_cost
from crb_worker.judge.quoting import Ids
from crb_worker.judge.rate_limit import Slot
from crb_worker.judge.requests import (
    ModelAnswer,
    ModelRequest,
    reported_charge,
    reported_name,
    reported_usage,
    stored_answer,
)
from crb_worker.metrics import worker_metrics

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Asker", "BudgetError", "CallLimits", "LiveCalls", "PendingError", "guessed_tokens", "usage_columns"]

#: Characters of JSON for one token, for the guess with which a place in the rate limit is reserved.
_CHARACTERS_PER_TOKEN = 3.5
#: Longest back-off between two tries, and longest wait for the service that still holds a thread, in seconds.
_MAX_BACKOFF = 30.0
_MAX_WAIT = 60.0
#: Seconds for which a step is deferred while the service has no room for it.
_DEFER_SECONDS = 60.0
#: How long a paid answer waits for a store that is away.
_STORE_PATIENCE = 60.0


class BudgetError(CrbError):
    """The ``--max-cost`` of the sweep or of the command would be passed by the next call."""


class PendingError(Exception):
    """The answer to this request comes with a batch."""


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """``seconds`` is the deadline of one call, ``tries`` how often it is made before the step gives up for now."""

    seconds: float = 600.0
    tries: int = 5


class Asker(Protocol):
    """What matcher and classifier know of the model: they ask, and say which answers they could not use."""

    @property
    def ids(self) -> Ids: ...

    def ask(self, request: ModelRequest) -> ModelAnswer:
        """The answer, stored or new. CrbError where there is none."""

    def known(self, request: ModelRequest) -> bool:
        """Whether the answer is stored already."""

    def reject(self, answers: Sequence[ModelAnswer], reason: str) -> None:
        """These answers are of no use: the next try of this judgment asks anew."""

    def unit(self) -> contextlib.AbstractContextManager[None]:
        """Around what can be judged by itself. With a batch, it ends where an answer is still to come."""

    def finish(self) -> None:
        """After all units: raises LaterError while answers are still to come."""


class LiveCalls:
    """The calls of one step. Not shared between threads."""

    def __init__(self, work: CallWork, endpoint: Endpoint, limits: CallLimits) -> None:
        self.work = work
        self.limits = limits
        self.client = open_client(endpoint, seconds=limits.seconds)
        self.limiter = work.limiter(endpoint.base_url or "default")
        with work.store.read() as connection:
            self.secret = judgment_secret(connection, work.judge_id, work.trial_id) or secrets.token_hex(32)
        self.ids = Ids(bytes.fromhex(self.secret))

    def ask(self, request: ModelRequest) -> ModelAnswer:
        return self.stored(request) or self._call(request)

    def known(self, request: ModelRequest) -> bool:
        return self._find(request) is not None

    def reject(self, answers: Sequence[ModelAnswer], reason: str) -> None:
        rows = [answer.call_id for answer in answers if answer.call_id is not None]
        with self.work.store.write() as connection:
            reject_calls(connection, rows, detail=reason)

    @contextlib.contextmanager
    def unit(self) -> Iterator[None]:
        yield

    def finish(self) -> None:
        """Every answer came at once."""

    def stored(self, request: ModelRequest) -> ModelAnswer | None:
        """The answer that this judgment already has; None where it has none."""
        with self.work.store.read() as connection:
            found = find_answer(connection, self.work.judge_id, request.request_hash, trial_id=self.work.trial_id)
        if found is None:
            return None
        get = self.work.evidence.get
        return stored_answer(
            request.request_hash,
            get(found.request_digest),
            get(found.answer_digest),
            call_id=found.id,
            name=f"the stored answer {found.answer_digest[:12]}",
        )

    def _find(self, request: ModelRequest) -> AnsweredCall | None:
        with self.work.store.read() as connection:
            return find_answer(connection, self.work.judge_id, request.request_hash, trial_id=self.work.trial_id)

    def open(self, requests: Sequence[ModelRequest], *, batch: bool = False) -> list[int]:
        """Insert the rows of calls that are made together, all inside the budget or none."""
        put = self.work.evidence.put
        kept = [(request, put(request.stored(put)), _most(request, batch=batch)) for request in requests]
        started = time.monotonic()
        while True:
            with self.work.store.write() as connection:
                if self._fits(self._reserve(connection), [(request, most) for request, _, most in kept]):
                    return [self._open_row(connection, *each, batch=batch) for each in kept]
            if time.monotonic() - started > _MAX_WAIT:
                raise LaterError("The rest of the judge's budget is reserved by calls under way", seconds=15)
            self.sleep(1.0)

    def _open_row(
        self, connection: Connection, request: ModelRequest, digest: str, most: float | None, *, batch: bool
    ) -> int:
        made = attempts_made(connection, self.work.judge_id, request.request_hash, self.work.trial_id)
        return open_call(
            connection,
            NewCall(
                trial_id=self.work.trial_id,
                judge_id=self.work.judge_id,
                stage=request.stage,
                label=request.label,
                request_hash=request.request_hash,
                secret=self.secret,
                attempt=1 + made,
                model=request.model,
                request_digest=digest,
                reserved_usd=most,
                batch_id=SUBMITTING if batch else None,
                read=request.read or None,
            ),
        )

    def keep(
        self, request: ModelRequest, call_id: int, raw: RawAnswer, *, duration_ms: float | None, batch: bool = False
    ) -> ModelAnswer:
        """Store an answer with what it says it used."""
        digest = self.work.evidence.put(raw.data)
        columns = usage_columns(request.model, raw, batch=batch)
        deadline = time.monotonic() + _STORE_PATIENCE
        while True:
            try:
                with self.work.store.write() as connection:
                    close_call(
                        connection,
                        call_id,
                        CallOutcome.ANSWERED,
                        answer_digest=digest,
                        http_status=200,
                        duration_ms=duration_ms,
                        **columns,
                    )
                break
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        worker_metrics().judge_call_ended(
            request.model, CallOutcome.ANSWERED.value, milliseconds=duration_ms, usage=columns
        )
        return ModelAnswer(request_hash=request.request_hash, message=raw.message, ids=request.ids, call_id=call_id)

    def fail(self, call_id: int, failure: CallFailedError, *, duration_ms: float | None = None) -> None:
        """Store how a call failed, with what the service said."""
        digest = self.work.evidence.put(failure.body) if failure.body else None
        with self.work.store.write() as connection:
            close_call(
                connection,
                call_id,
                failure.outcome,
                detail=failure.detail,
                http_status=failure.status,
                answer_digest=digest,
                duration_ms=duration_ms,
                # An error is not charged; an answer that was cut off or came too late may be.
                **({} if _may_be_charged(failure) else {"reserved_usd": None}),
            )

    def sleep(self, seconds: float) -> None:
        """Wait; StoppedError as soon as the step is cancelled or lost."""
        if self.work.stopped.wait(max(0.0, seconds)):
            raise StoppedError("The step was stopped while its judge worked")

    def _call(self, request: ModelRequest) -> ModelAnswer:
        tries = 0
        while True:
            slot = self._place(request)
            used = 0
            try:
                (call_id,) = self.open([request])
                started = time.monotonic()
                try:
                    raw = send(self.client, request.body, seconds=self.limits.seconds)
                except CallFailedError as failure:
                    took = (time.monotonic() - started) * 1000
                    worker_metrics().judge_call_ended(request.model, failure.outcome.value, milliseconds=took)
                    self.fail(call_id, failure, duration_ms=took)
                    tries += 1
                    wait = self._after(failure, request, tries)
                else:
                    answer = self.keep(request, call_id, raw, duration_ms=(time.monotonic() - started) * 1000)
                    used = _limited_tokens(answer.usage, default=guessed_tokens(request))
                    return answer
            finally:
                with contextlib.suppress(UnavailableError):
                    self.limiter.settle(slot, used)
            self.sleep(wait)

    def _place(self, request: ModelRequest) -> Slot:
        """Wait for a place in the rate limit."""
        self.sleep(0)
        with worker_metrics().rate_limit_wait.time():
            return self._wait_for_place(request)

    def _wait_for_place(self, request: ModelRequest) -> Slot:
        self._wait_out_a_pause()
        slot = self.limiter.reserve(guessed_tokens(request))
        try:
            self.sleep(slot.wait)
            self._wait_out_a_pause()
        except BaseException:
            with contextlib.suppress(UnavailableError):
                self.limiter.settle(slot, 0)
            raise
        return slot

    def _wait_out_a_pause(self) -> None:
        while (rest := self.limiter.rest()) > 0:
            if rest > _MAX_WAIT:
                raise LaterError("The model service asked to wait", seconds=rest)
            # Not all threads of all workers at the same moment.
            self.sleep(rest + random.uniform(0, 0.5))

    def _reserve(self, connection: Connection) -> Spending | None:
        if self.work.sweep_id is not None:
            return reserve(connection, self.work.sweep_id)
        return reserve_in_run(connection, self.work.budget) if self.work.budget is not None else None

    def _fits(self, spent: Spending | None, calls: Sequence[tuple[ModelRequest, float | None]]) -> bool:
        if spent is None or spent.max_usd is None:
            return True
        most = 0.0
        for request, price in calls:
            if price is None:
                raise InputError(
                    f"There is a limit of ${spent.max_usd:.2f}, but the model {request.model} has no list price",
                    remedy="Take the limit away (crb sweep set SWEEP --max-cost none), or name another model",
                )
            most += price
        sure = spent.known_usd + spent.lost_usd
        if sure + most > spent.max_usd:
            what = "The next call" if len(calls) == 1 else f"A batch of {len(calls)} calls"
            raise BudgetError(
                f"{what} could cost ${most:.4f} by list price and would pass the limit of "
                f"${spent.max_usd:.2f}, of which ${sure:.4f} is used",
                remedy="Raise --max-cost and retry the judgments that failed"
                if self.work.sweep_id is not None
                else "Give a higher --max-cost and run it again: answers that are stored are not paid twice",
            )
        return spent.known_usd + spent.reserved_usd + most <= spent.max_usd

    def _after(self, failure: CallFailedError, request: ModelRequest, tries: int) -> float:
        """Seconds until the next try; raises where there is none."""
        problem = f"The model {request.model} gave no answer ({request.label}): {failure.detail}"
        if failure.outcome is CallOutcome.INVALID:
            if failure.status in {401, 402, 403}:
                raise SettingsError(problem, remedy="Check ANTHROPIC_API_KEY and what it may use")
            raise InputError(problem, remedy="Check the judge's options; the request is kept as evidence")
        backoff = min(_MAX_BACKOFF, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0)
        wait = backoff if failure.retry_after is None else failure.retry_after
        if failure.outcome in {CallOutcome.RATE_LIMITED, CallOutcome.OVERLOADED}:
            if failure.retry_after is not None:
                self.limiter.pause(failure.retry_after)
                worker_metrics().rate_limited.inc()
            if tries >= self.limits.tries or wait > _MAX_WAIT:
                raise LaterError(problem, seconds=max(wait, _DEFER_SECONDS))
        elif tries >= self.limits.tries:
            raise UnavailableError(problem, remedy="It is tried again later; check the connection to the service")
        return min(wait, _MAX_WAIT)


def guessed_tokens(request: ModelRequest) -> int:
    """About how many tokens a request has, where nothing better is known."""
    return int(request.size / _CHARACTERS_PER_TOKEN) + 1


def _most(request: ModelRequest, *, batch: bool) -> float | None:
    return most_it_can_cost(request.model, request.size, request.max_tokens, batch=batch)


def usage_columns(model: str, raw: RawAnswer, *, batch: bool = False) -> dict[str, object]:
    """The usage columns of a call's row. A batch is priced as one even where the answer does not name the tier."""
    usage = reported_usage(raw.message)
    tier = "batch" if batch else usage.service_tier
    priced = list_price(
        model,
        TokenUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            service_tier=tier,
        ),
    )
    return {
        "answered_by": reported_name(raw.message, "model"),
        "stop_reason": reported_name(raw.message, "stop_reason"),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "service_tier": tier,
        "charge_usd": reported_charge(raw.message),
        "list_price_usd": priced,
        "price_table": TABLE if priced is not None else None,
    }


def _may_be_charged(failure: CallFailedError) -> bool:
    return failure.outcome in {CallOutcome.TIMEOUT, CallOutcome.CONNECTION} or failure.status == 200


def _limited_tokens(usage: TokenUsage, *, default: int) -> int:
    """Tokens that count against a limit a minute: what the cache served does not."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return default
    return usage.input_tokens + (usage.cache_write_tokens or 0) + usage.output_tokens
