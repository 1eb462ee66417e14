"""A worker whose store is away waits with the message that it has; it neither drops it nor takes the next one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.errors import StoreError
from crb_core.outages import Outage
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.steps import TakenStep
from crb_core.store.tables import StepState
from crb_worker.context import WorkerContext
from crb_worker.patience import hand_back_if_possible, keep_trying, take_patiently
from tests.crb_core.store.planned import Planned, plan


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Iterator[WorkerContext]:
    opened = WorkerContext(Settings(home=tmp_path), store, "redis://127.0.0.1:9/0", "w", 1)
    yield opened
    opened.close()


def _rename(store: Store, old: str, new: str) -> None:
    with store.write() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")


def _queued(store: Store) -> tuple[Planned, int]:
    planned = plan(store)
    (step_id,) = planned.ids()
    planned.queue(step_id)
    return planned, step_id


def _waiting_for(context: WorkerContext, step_id: int) -> tuple[threading.Thread, list[TakenStep | None]]:
    """A thread that has noticed that the store is away, and the list into which it puts what it takes."""
    taken: list[TakenStep | None] = []
    thread = threading.Thread(target=lambda: taken.append(take_patiently(context, step_id)))
    thread.start()
    while not context.store_outage.is_on:
        pass
    return thread, taken


def test_a_step_is_taken_once_the_store_is_back(store: Store, context: WorkerContext) -> None:
    """The thread that has its message waits meanwhile."""
    planned, step_id = _queued(store)
    _rename(store, "step", "away")
    thread, taken = _waiting_for(context, step_id)
    assert (thread.is_alive(), taken) == (True, [])
    _rename(store, "away", "step")
    thread.join(60)
    assert [step.id for step in taken] == [step_id]
    assert planned.state(step_id) == StepState.RUNNING.value
    assert not context.store_outage.is_on


def test_a_worker_that_ends_does_not_wait(store: Store, context: WorkerContext) -> None:
    """It takes nothing, and what it was given stays queued for others."""
    planned, step_id = _queued(store)
    _rename(store, "step", "away")
    thread, taken = _waiting_for(context, step_id)
    context.end()
    thread.join(60)
    assert taken == [None]
    hand_back_if_possible(context, step_id)
    _rename(store, "away", "step")
    assert planned.state(step_id) == StepState.QUEUED.value
    hand_back_if_possible(context, step_id)
    assert planned.state(step_id) == StepState.READY.value


def test_a_result_is_kept_for_its_time_and_then_given_up() -> None:
    """It is stored at the first try that succeeds; where none does in time the store's own error says why."""
    tries = []

    def third_time_lucky() -> str:
        tries.append(None)
        if len(tries) < 3:
            raise StoreError("It does not answer")
        return "stored"

    outage = Outage("store")
    assert keep_trying(third_time_lucky, outage, seconds=120) == "stored"
    assert (len(tries), outage.is_on) == (3, False)

    def never() -> str:
        raise StoreError("It never answers")

    with pytest.raises(StoreError, match="never"):
        keep_trying(never, outage, seconds=0.1)
