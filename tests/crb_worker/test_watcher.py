"""The watcher beats for what this worker holds, and for nothing that it has lost."""

from __future__ import annotations

from pathlib import Path

from crb_core.agent import Outcome
from crb_core.store import open_store
from crb_core.store.steps import lose
from crb_worker.watcher import Watcher
from tests.crb_core.store.planned import LIMITS, plan


def test_a_step_that_comes_back_to_its_worker_is_held_anew(tmp_path: Path) -> None:
    """The thread that lost the step is told to stop; when it is done, the second one goes on beating."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store)
    (step_id,) = planned.ids()
    watcher = Watcher(store, "w", 5.0)
    told: list[tuple[str, Outcome]] = []

    first = planned.take(step_id)
    with watcher.hold(first, lambda outcome: told.append(("first", outcome))):
        assert lose(store, step_id, fence=first.fence, beat=0, limits=LIMITS)
        second = planned.take(step_id)
        holding = watcher.hold(second, lambda outcome: told.append(("second", outcome)))
        holding.__enter__()
        watcher.tick()
        assert told == [("first", Outcome.LOST)]
        assert planned.step(step_id).beat == 1
    watcher.tick()
    assert planned.step(step_id).beat == 2
    holding.__exit__(None, None, None)
    watcher.tick()
    assert planned.step(step_id).beat == 2
    assert told == [("first", Outcome.LOST)]
    store.close()
