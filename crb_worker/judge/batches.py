"""Calls through the Message Batches API: half the price, and no thread waits for them.

All requests of a step that have no stored answer go into one batch, and the step is deferred. When it is taken again,
on whatever worker, the batch is looked up by the id that the rows keep. A worker that is lost while it hands a batch
over leaves rows without such an id: the batch is then looked for among those of the service, so that nothing is paid
twice.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from crb_core.errors import InputError, SettingsError, UnavailableError
from crb_core.store.judge_calls import (
    CallOutcome,
    batch_calls,
    close_call,
    in_batch,
    known_batches,
    unsettled_submissions,
)
from crb_worker.judge.base import CallWork, LaterError
from crb_worker.judge.calls import CallLimits, LiveCalls, PendingError, usage_columns
from crb_worker.judge.client import CallFailedError, Endpoint, RawAnswer, decoded, failure_of
from crb_worker.judge.requests import ModelAnswer, ModelRequest
from crb_worker.metrics import worker_metrics

__all__ = ["BatchCalls"]

#: Seconds between two looks at a batch.
_LOOK_AGAIN = 60.0
#: Tries of one request that a batch left without an answer.
_TRIES = 3
#: Batches of the service that are looked through for one that was handed over without an answer, and how far its clock
#: may be off from ours.
_LOOKED_THROUGH = 1000
_CLOCKS_APART = datetime.timedelta(hours=1)

T = TypeVar("T")


class BatchCalls(LiveCalls):
    """The calls of one step, in batches."""

    def __init__(self, work: CallWork, endpoint: Endpoint, limits: CallLimits) -> None:
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
        rows = dict(zip(self._pending, self.open(list(self._pending.values()), batch=True), strict=True))
        requests = [
            {"custom_id": _custom_id(rows[name], self.secret, name), "params": request.body}
            for name, request in self._pending.items()
        ]
        batch = self._submit(list(rows.values()), requests)
        with self.work.store.write() as connection:
            in_batch(connection, list(rows.values()), batch.id)
        raise LaterError(f"Waits for batch {batch.id} with {len(rows)} requests", seconds=_LOOK_AGAIN)

    def _submit(self, rows: Sequence[int], requests: Any) -> Any:
        """Hand a batch over. Rows of one that was refused are closed; without an answer they stay, to be looked for."""
        import anthropic

        try:
            return self.client.messages.batches.create(requests=requests)
        except anthropic.APIError as error:
            failure = failure_of(error)
            if failure.outcome in {CallOutcome.INVALID, CallOutcome.RATE_LIMITED, CallOutcome.OVERLOADED}:
                with self.work.store.write() as connection:
                    for row in rows:
                        close_call(connection, row, failure.outcome, detail=failure.detail, reserved_usd=None)
            raise _as_step_error(failure) from None

    def _collect(self) -> None:
        """Store what the batches of this judgment brought; LaterError while one of them is under way."""
        self._adopt()
        with self.work.store.read() as connection:
            waiting = batch_calls(connection, self.work.judge_id, self.work.trial_id)
        batches = self.client.messages.batches
        for batch_id in dict.fromkeys(row.batch_id for row in waiting):
            batch = self._guarded(partial(batches.retrieve, batch_id))
            if batch.processing_status != "ended":
                raise LaterError(f"Waits for batch {batch_id}", seconds=_LOOK_AGAIN)
            rows = {_row_id(row): row for row in waiting if row.batch_id == batch_id}
            results = self._guarded(partial(_results, batches, batch_id))
            for result in results:
                row = rows.pop(result.custom_id, None)
                if row is not None:
                    self._settle(row, result.result)
            for row in rows.values():
                self._close(row, CallOutcome.EXPIRED, "the batch ended without an answer to this request")

    def _adopt(self) -> None:
        """Find the batch that a lost worker handed over, or close its rows where the service has none.

        Which requests a batch holds is only shown when it has ended, so one that could be it is waited for.
        """
        with self.work.store.read() as connection:
            rows = unsettled_submissions(connection, self.work.judge_id, self.work.trial_id)
            known = known_batches(connection) if rows else frozenset()
        if not rows:
            return
        names = {_row_id(row): row.id for row in rows}
        since = min(datetime.datetime.fromisoformat(row.started_at) for row in rows) - _CLOCKS_APART
        for batch in self._guarded(partial(_newest, self.client.messages.batches, since)):
            counts = batch.request_counts
            size = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            if batch.id in known or size != len(rows):
                continue
            if batch.processing_status != "ended":
                raise LaterError(f"Waits for batch {batch.id}, which may hold its requests", seconds=_LOOK_AGAIN)
            results = self._guarded(partial(_results, self.client.messages.batches, batch.id))
            mine = [names[result.custom_id] for result in results if result.custom_id in names]
            if mine:
                with self.work.store.write() as connection:
                    in_batch(connection, mine, batch.id)
                return
        with self.work.store.write() as connection:
            for row in rows:
                close_call(
                    connection,
                    row.id,
                    CallOutcome.CONNECTION,
                    detail="the batch was not accepted",
                    reserved_usd=None,
                )

    def _settle(self, row: Any, result: Any) -> None:
        if result.type == "succeeded":
            data = json.dumps(result.message.to_dict(mode="json")).encode()
            try:
                raw = RawAnswer(data=data, message=decoded(data))
            except CallFailedError as failure:
                self._close(row, failure.outcome, failure.detail)
                return
            digest = self.work.evidence.put(raw.data)
            columns = usage_columns(row.model, raw, batch=True)
            with self.work.store.write() as connection:
                close_call(connection, row.id, CallOutcome.ANSWERED, answer_digest=digest, **columns)
            worker_metrics().judge_call_ended(row.model, CallOutcome.ANSWERED.value, milliseconds=None, usage=columns)
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
        worker_metrics().judge_call_ended(row.model, outcome.value, milliseconds=None)
        if row.attempt >= _TRIES:
            raise UnavailableError(f"The batches brought no answer in {_TRIES} tries ({row.label}): {detail}")

    def _guarded(self, call: Callable[[], T]) -> T:
        """A call to the service; its failures in the words of a step."""
        import anthropic
        import httpx2

        try:
            return call()
        except (anthropic.APIError, httpx2.TransportError, ValueError) as error:
            # Results come line by line: the connection may break, and a line may be no JSON, when it is read.
            raise _as_step_error(failure_of(error)) from None


def _as_step_error(failure: CallFailedError) -> Exception:
    problem = f"The batch service gave no answer: {failure.detail}"
    if failure.outcome is CallOutcome.INVALID:
        if failure.status in {401, 402, 403}:
            return SettingsError(problem, remedy="Check ANTHROPIC_API_KEY and what it may use")
        return InputError(problem)
    if failure.outcome in {CallOutcome.RATE_LIMITED, CallOutcome.OVERLOADED}:
        return LaterError(problem, seconds=failure.retry_after or _LOOK_AGAIN)
    return UnavailableError(problem)


def _row_id(row: Any) -> str:
    return _custom_id(row.id, row.secret, row.request_hash)


def _custom_id(row: int, secret: str, request_hash: str) -> str:
    """The name of a request in its batch: only this judgment's row has it, also where farms share a key."""
    return f"{row}-{hashlib.sha256(f'{secret} {request_hash}'.encode()).hexdigest()[:40]}"


def _newest(batches: Any, since: datetime.datetime) -> list[Any]:
    """The service's batches, newest first, that were made after a moment."""
    found = []
    for batch in islice(batches.list(limit=100), _LOOKED_THROUGH):
        if batch.created_at < since:
            break
        found.append(batch)
    return found


def _results(batches: Any, batch_id: str) -> list[Any]:
    return list(batches.results(batch_id))
