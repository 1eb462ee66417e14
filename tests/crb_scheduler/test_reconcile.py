"""Lost steps: a beat that stands still on the reconciler's own clock."""

from __future__ import annotations

from pathlib import Path

from crb_core.store import open_store
from crb_core.store.steps import beat, mark_queued, take
from crb_scheduler.reconcile import Reconciler
from tests.crb_core.store.planned import LIMITS, plan


def test_a_step_is_lost_after_the_lease_without_a_beat(tmp_path: Path) -> None:
    """It is given back once, its attempt is lost, and the late result of the old worker changes nothing."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=1)
    (step_id,) = planned.ids()
    with store.write() as connection:
        mark_queued(connection, [step_id])
    held = take(store, step_id, "w")
    assert held is not None
    now = [0.0]
    reconciler = Reconciler(store, LIMITS, 30, clock=lambda: now[0])
    assert reconciler.tick() == 0
    now[0] = 29
    beat(store, "w", [(held.id, held.fence)])
    assert reconciler.tick() == 0
    now[0] = 58
    assert reconciler.tick() == 0
    now[0] = 59
    assert reconciler.tick() == 1
    assert planned.step(step_id).state == "ready"
    assert planned.attempts(step_id) == [(1, "lost")]
    assert reconciler.tick() == 0
    assert [held.still_held for held in beat(store, "w", [(held.id, held.fence)])] == [False]
    store.close()


def test_a_clock_of_another_machine_does_not_matter(tmp_path: Path) -> None:
    """Only the change of the beat counts: a step whose beat moves is never lost, however long it runs."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=1)
    (step_id,) = planned.ids()
    with store.write() as connection:
        mark_queued(connection, [step_id])
    held = take(store, step_id, "w")
    assert held is not None
    now = [0.0]
    reconciler = Reconciler(store, LIMITS, 30, clock=lambda: now[0])
    for _ in range(10):
        now[0] += 29
        beat(store, "w", [(held.id, held.fence)])
        assert reconciler.tick() == 0
    store.close()
