"""A clock that is stepped back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.chaos.clock import FalseClock, step_the_clock_back
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


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
        others = select(attempts.c.outcome, attempts.c.detail).where(attempts.c.outcome != "succeeded")
        assert connection.execute(others).all() == []
        assert max(connection.execute(select(attempts.c.review_ms)).scalars()) < 3_000_000
    check_end(farm)
