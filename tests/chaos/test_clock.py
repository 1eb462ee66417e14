"""A clock that is stepped back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, update

from crb_core.store.tables import StepState
from tests.chaos.clock import FalseClock
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts, steps

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def step_the_clock_back(farm: ChaosFarm, clock: FalseClock) -> None:
    """An hour, while a step backs off and another's message is lost: what is timed must not wait for the hour."""
    with farm.store.write() as connection:
        waiting = connection.execute(select(steps.c.id).where(steps.c.state == StepState.READY.value)).scalars().all()
        connection.execute(update(steps).where(steps.c.id == waiting[-1]).values(not_before=clock.now() + 5))
    with farm.fault("clock stepped back an hour"):
        farm.wait_for_steps_in_flight()
        clock.step(-3600)
        farm.broker.flush()


def test_the_clock_is_stepped_back(make_farm: Callable[..., ChaosFarm], tmp_path: Path) -> None:
    """No attempt is lost, no review_ms is wrong, and nothing waits for the hour to come again."""
    clock = FalseClock(tmp_path / "clock")
    farm = make_farm()
    farm.settings.update(clock.settings)
    farm.keep("scheduler")
    farm.keep("worker", "--slots", "2")
    farm.wait_for_ended(2)
    step_the_clock_back(farm, clock)
    farm.finish()
    with farm.store.read() as connection:
        assert set(connection.execute(select(attempts.c.outcome)).scalars()) == {"succeeded"}
        assert max(connection.execute(select(attempts.c.review_ms)).scalars()) < 3_000_000
    check_end(farm)
