"""What a worker does while its store or its evidence is away: it waits, slowly, and says so once.

A thread that waits keeps its place in the pool. So a worker that cannot reach the store takes no further messages,
which others could work on, instead of taking and dropping one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from crb_core.errors import StoreError
from crb_core.outages import Outage
from crb_core.store.steps import TakenStep, hand_back, take
from crb_worker.context import WorkerContext

__all__ = ["hand_back_if_possible", "keep_trying", "take_patiently"]

T = TypeVar("T")


def take_patiently(context: WorkerContext, step_id: int) -> TakenStep | None:
    """Take a step as soon as the store answers. None where the message is late, or this worker ends meanwhile.

    Meanwhile the step stays queued, and another worker that can reach the store may take it.
    """
    failures = 0
    while not context.ending.is_set():
        try:
            step = take(context.store, step_id, context.worker)
        except StoreError as error:
            failures += 1
            context.store_outage.failed(error)
            context.ending.wait(Outage.wait_seconds(failures))
        else:
            context.store_outage.answered()
            return step
    return None


def hand_back_if_possible(context: WorkerContext, step_id: int) -> None:
    """Let another worker have a queued step at once; without the store it is published again after a while."""
    try:
        hand_back(context.store, step_id)
    except StoreError as error:
        context.store_outage.failed(error)


def keep_trying(action: Callable[[], T], outage: Outage, *, seconds: float) -> T:
    """What ``action`` gives, however often it takes within so many seconds; after them its StoreError."""
    deadline = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            result = action()
        except StoreError as error:
            failures += 1
            wait = Outage.wait_seconds(failures)
            if time.monotonic() + wait > deadline:
                raise
            outage.failed(error)
            time.sleep(wait)
        else:
            outage.answered()
            return result
