"""Calls through the Message Batches API: half the price, and no thread waits for them.

All requests of a step that have no stored answer go into one batch, and the step is deferred. When it is taken again,
on whatever worker, the batch is looked up by the id that the rows keep.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import update

from crb_core.errors import InputError, SettingsError, UnavailableError
from crb_core.store.judge_calls import CallOutcome, batch_calls, calls, close_call
from crb_worker.judge.base import JudgeWork, LaterError
from crb_worker.judge.calls import CallLimits, LiveCalls, PendingError, usage_columns
from crb_worker.judge.client import CallFailedError, Endpoint, RawAnswer, failure_of
from crb_worker.judge.requests import ModelAnswer, ModelRequest

__all__ = ["BatchCalls"]

#: Seconds between two looks at a batch.
_LOOK_AGAIN = 60.0
#: Tries of one request that a batch left without an answer.
_TRIES = 3

T = TypeVar("T")


class BatchCalls(LiveCalls):
    """The calls of one step, in batches."""

    def __init__(self, work: JudgeWork, endpoint: Endpoint, limits: CallLimits) -> None:
        super().__init__(work, endpoint, limits)
        self._pending: dict[str, ModelRequest] = {}
        self._collect()

    def ask(self, request: ModelRequest) -> ModelAnswer:
        stored = self.stored(request)
        if stored is not None:
            return stored
        self._pending[request.request_hash] = request
        raise PendingError

    @contextlib.contextmanager
    def unit(self) -> Iterator[None]:
        with contextlib.suppress(PendingError):
            yield

    def finish(self) -> None:
        if not self._pending:
            return
        rows = {name: self.open(request, batch=True) for name, request in self._pending.items()}
        requests = [{"custom_id": name, "params": request.body} for name, request in self._pending.items()]
        try:
            batch = self._guarded(lambda: self.client.messages.batches.create(requests=requests))
        except Exception:
            # Nothing was accepted, so nothing is charged and nothing is waited for.
            with self.work.store.write() as connection:
                for row in rows.values():
                    close_call(connection, row, CallOutcome.SERVER_ERROR, reserved_usd=None)
            raise
        with self.work.store.write() as connection:
            connection.execute(
                update(calls)
                .where(calls.c.id.in_(rows.values()))
                .values(outcome=CallOutcome.BATCHED.value, batch_id=batch.id)
            )
        raise LaterError(f"Waits for batch {batch.id} with {len(rows)} requests", seconds=_LOOK_AGAIN)

    def _collect(self) -> None:
        """Store what the batches of this judgment brought; LaterError while one of them is under way."""
        with self.work.store.read() as connection:
            waiting = batch_calls(connection, self.work.judge_id, self.work.trial_id)
        batches = self.client.messages.batches
        for batch_id in dict.fromkeys(row.batch_id for row in waiting):
            batch = self._guarded(partial(batches.retrieve, batch_id))
            if batch.processing_status != "ended":
                raise LaterError(f"Waits for batch {batch_id}", seconds=_LOOK_AGAIN)
            rows = {row.request_hash: row for row in waiting if row.batch_id == batch_id}
            results = self._guarded(partial(_results, batches, batch_id))
            for result in results:
                row = rows.pop(result.custom_id, None)
                if row is not None:
                    self._settle(row, result.result)
            for row in rows.values():
                self._close(row, CallOutcome.EXPIRED, "the batch ended without an answer to this request")

    def _settle(self, row: Any, result: Any) -> None:
        if result.type == "succeeded":
            message = result.message.to_dict(mode="json")
            raw = RawAnswer(data=json.dumps(message).encode(), message=message)
            digest = self.work.evidence.put(raw.data)
            with self.work.store.write() as connection:
                close_call(
                    connection,
                    row.id,
                    CallOutcome.ANSWERED,
                    answer_digest=digest,
                    **usage_columns(row.model, raw, batch=True),
                )
        elif result.type == "errored":
            error = result.error.error
            shown = "".join(each for each in str(error.message) if each.isprintable())[:300]
            if error.type == "invalid_request_error":
                self._close(row, CallOutcome.INVALID, shown)
                raise InputError(f"The model {row.model} refused the request ({row.label}): {shown}")
            self._close(row, CallOutcome.SERVER_ERROR, shown)
        else:
            self._close(row, CallOutcome.EXPIRED, f"the batch was {result.type} before this request was answered")

    def _close(self, row: Any, outcome: CallOutcome, detail: str) -> None:
        with self.work.store.write() as connection:
            close_call(connection, row.id, outcome, detail=detail, reserved_usd=None)
        if row.attempt >= _TRIES:
            raise UnavailableError(f"The batches brought no answer in {_TRIES} tries ({row.label}): {detail}")

    def _guarded(self, call: Callable[[], T]) -> T:
        """A call to the service; its failures in the words of a step."""
        import anthropic

        try:
            return call()
        except anthropic.APIError as error:
            failure: CallFailedError = failure_of(error)
            problem = f"The batch service gave no answer: {failure.detail}"
            if failure.outcome is CallOutcome.INVALID:
                if failure.status in {401, 402, 403}:
                    raise SettingsError(problem, remedy="Check ANTHROPIC_API_KEY and what it may use") from None
                raise InputError(problem) from None
            if failure.outcome in {CallOutcome.RATE_LIMITED, CallOutcome.OVERLOADED}:
                raise LaterError(problem, seconds=failure.retry_after or _LOOK_AGAIN) from None
            raise UnavailableError(problem) from None


def _results(batches: Any, batch_id: str) -> list[Any]:
    return list(batches.results(batch_id))
